package config

import "strings"

// nearestKey returns the key of the table whose name is closest to an unknown one. A family is compared with the unknown name's own last part.
func nearestKey(unknown string) string {
	last := unknown[strings.LastIndexByte(unknown, '.')+1:]
	return nearest(unknown, func(k *Key) string {
		if prefix, ok := k.family(); ok {
			return prefix + last
		}
		return k.Name
	})
}

// nearestEnv does the same for a variable.
func nearestEnv(unknown string) string {
	return nearest(unknown, func(k *Key) string {
		if prefix, ok := k.family(); ok {
			return envPrefix + strings.ToUpper(strings.ReplaceAll(prefix, ".", "_")) + unknown[strings.LastIndexByte(unknown, '_')+1:]
		}
		return k.EnvName()
	})
}

func nearest(unknown string, name func(*Key) string) string {
	best, bestDistance := "", -1
	for i := range table {
		candidate := name(&table[i])
		if d := distance(unknown, candidate); bestDistance < 0 || d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance is the number of octets to insert, delete or replace to turn a into b. An input longer than any key is cut: it is near to nothing.
func distance(a, b string) int {
	const longest = 128
	if len(a) > longest {
		a = a[:longest]
	}
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
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
