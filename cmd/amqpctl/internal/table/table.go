package table

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// cutRunesMin is the width below which a column is not cut on a narrow terminal: less than that tells nobody anything.
const cutRunesMin = 12

// gap stands between two columns.
const gap = "  "

// Column is one column: its heading and whether it holds numbers.
type Column struct {
	Head   string
	Number bool
}

// Table is a list of rows below headings. A row may be shorter than Columns.
type Table struct {
	Columns []Column
	Rows    [][]string
}

// Options say how a table is printed. WidthRunes > 0 cuts the widest text columns so that a line fits; 0 never cuts. Bold sets the headings in
// bold with terminal codes.
type Options struct {
	NoHeaders  bool
	WidthRunes int
	Bold       bool
}

// Write prints the table.
func (t *Table) Write(w io.Writer, opt Options) error {
	out := bufio.NewWriter(w)
	rows := make([][]string, 0, len(t.Rows)+1)
	if !opt.NoHeaders {
		head := make([]string, len(t.Columns))
		for i, c := range t.Columns {
			head[i] = c.Head
		}
		rows = append(rows, head)
	}
	for _, r := range t.Rows {
		clean := make([]string, len(t.Columns))
		for i := range clean {
			if i < len(r) {
				clean[i] = Clean(r[i])
			}
		}
		rows = append(rows, clean)
	}
	widths := t.widths(rows, opt.WidthRunes)
	for i, r := range rows {
		line := t.line(r, widths)
		if opt.Bold && i == 0 && !opt.NoHeaders {
			line = "\x1b[1m" + line + "\x1b[0m"
		}
		fmt.Fprintln(out, line)
	}
	return out.Flush()
}

// widths measures the columns and, when a limit is given, takes from the widest text column until the line fits or nothing more can go.
func (t *Table) widths(rows [][]string, limit int) []int {
	widths := make([]int, len(t.Columns))
	total := len(gap) * (len(widths) - 1)
	for i := range widths {
		for _, r := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
		}
		total += widths[i]
	}
	for limit > 0 && total > limit {
		widest := -1
		for i, c := range t.Columns {
			if !c.Number && widths[i] > cutRunesMin && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		total--
	}
	return widths
}

func (t *Table) line(row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		if i > 0 {
			b.WriteString(gap)
		}
		n := utf8.RuneCountInString(cell)
		if n > widths[i] {
			cell, n = cut(cell, widths[i]), widths[i]
		}
		pad := strings.Repeat(" ", widths[i]-n)
		if t.Columns[i].Number {
			b.WriteString(pad + cell)
		} else {
			b.WriteString(cell + pad)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// cut shortens a cell to n runes, the last of them an ellipsis.
func cut(cell string, n int) string {
	runes := []rune(cell)
	return string(runes[:n-1]) + "…"
}

// Pair is one line of an object.
type Pair struct{ Name, Value string }

// WritePairs prints an object: names in one column, values in the next. Nothing is cut.
func WritePairs(w io.Writer, pairs []Pair) error {
	width := 0
	for _, p := range pairs {
		width = max(width, utf8.RuneCountInString(p.Name))
	}
	out := bufio.NewWriter(w)
	for _, p := range pairs {
		line := p.Name + strings.Repeat(" ", width-utf8.RuneCountInString(p.Name)) + gap + Clean(p.Value)
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
	return out.Flush()
}

// Clean replaces what a terminal would act on (control and invisible format characters, bad UTF-8) by a visible escape: names of queues come from
// anybody who may declare one.
func Clean(s string) string {
	bad := func(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) }
	if strings.IndexFunc(s, bad) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r < 0x80 && bad(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case r != utf8.RuneError && bad(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
