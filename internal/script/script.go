package script

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the answers of script tests into their files")

const divider = "----"

// Block is one step of a script.
type Block struct {
	// Lead is the blank and comment lines before the input, verbatim.
	Lead string
	// Input is the lines above the divider, comments included, verbatim.
	Input string
	// Want is the expected answer without the final newline.
	Want string
	// Line is the number of the first input line in the file, counted from 1.
	Line int
}

// Run plays the file at path: it hands the input of each block (without comments and blank lines) to answer, in order, and compares. An answer must not contain blank lines.
func Run(t *testing.T, path string, answer func(block string) string) {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	blocks, tail := parse(string(src))
	if len(blocks) == 0 {
		t.Fatalf("%s: no block", path)
	}
	var out strings.Builder
	for _, b := range blocks {
		got := strings.TrimRight(answer(withoutComments(b.Input)), "\n")
		if blank(got) {
			t.Fatalf("%s:%d: the answer has a blank line, which would end the block:\n%s", path, b.Line, got)
		}
		out.WriteString(b.Lead + b.Input + divider + "\n")
		if got != "" {
			out.WriteString(got + "\n")
		}
		if got != b.Want && !*rewrite {
			t.Fatalf("%s:%d:\n%s%s\n%s\n\nwant\n%s", path, b.Line, b.Input, divider, got, b.Want)
		}
	}
	out.WriteString(tail)
	if *rewrite && out.String() != string(src) {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("rewrote %s", path)
	}
}

// RunFiles plays every file that matches pattern as a subtest of its own; start makes the answer function of one file.
func RunFiles(t *testing.T, pattern string, start func(t *testing.T) func(block string) string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no script matches %s (%v)", pattern, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), func(t *testing.T) { Run(t, path, start(t)) })
	}
}

func parse(src string) (blocks []Block, tail string) {
	var lead, input, want strings.Builder
	line, first, inWant := 0, 0, false
	flush := func() {
		if inWant {
			blocks = append(blocks, Block{Lead: lead.String(), Input: input.String(), Want: strings.TrimRight(want.String(), "\n"), Line: first})
			lead.Reset()
			input.Reset()
			want.Reset()
			inWant = false
		}
	}
	for l := range strings.Lines(src) {
		line++
		text := strings.TrimSpace(l)
		if !strings.HasSuffix(l, "\n") {
			l += "\n"
		}
		switch {
		case inWant && text == "":
			flush()
			lead.WriteString(l)
		case inWant:
			want.WriteString(l)
		case text == divider:
			inWant = true
		case input.Len() == 0 && (text == "" || strings.HasPrefix(text, "#")):
			lead.WriteString(l)
		default:
			if input.Len() == 0 {
				first = line
			}
			input.WriteString(l)
		}
	}
	flush()
	return blocks, lead.String() + input.String()
}

func withoutComments(input string) string {
	var out strings.Builder
	for l := range strings.Lines(input) {
		if text := strings.TrimSpace(l); text != "" && !strings.HasPrefix(text, "#") {
			out.WriteString(l)
		}
	}
	return strings.TrimRight(out.String(), "\n")
}

func blank(s string) bool {
	return s != "" && (strings.HasPrefix(s, "\n") || strings.Contains(s, "\n\n"))
}
