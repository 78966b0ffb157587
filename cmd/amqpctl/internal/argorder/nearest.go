package argorder

import "fmt"

// unknown is the text for a word that names nothing, with the nearest name that exists when one is near enough to be a slip of the finger.
func unknown(kind, word string, known []string) string {
	text := fmt.Sprintf("unknown %s %q", kind, word)
	if near := nearest(word, known); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return text
}

// nearest returns the name of known with the smallest edit distance to word, or "" when even that one differs in more than a third of its
// letters and one more.
func nearest(word string, known []string) string {
	best, bestDistance := "", len(word)/3+1
	for _, k := range known {
		if d := distance(word, k); d < bestDistance || d == bestDistance && best == "" {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost = min(diagonal, row[j], row[j-1]) + 1
			}
			diagonal, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}
