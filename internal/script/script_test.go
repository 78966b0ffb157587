package script

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `# A story.

# First step.
add a
# inside
add b
----
a
b

quiet
----

last
----
x
`

func TestRunHandsOverBlocksWithoutComments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.txt")
	if err := os.WriteFile(path, []byte(sample), 0o644); err != nil {
		t.Fatal(err)
	}
	var got []string
	Run(t, path, func(block string) string {
		got = append(got, block)
		return map[string]string{"add a\nadd b": "a\nb\n", "quiet": "", "last": "x"}[block]
	})
	if want := []string{"add a\nadd b", "quiet", "last"}; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Fatalf("blocks %q, want %q", got, want)
	}
}

func TestRewriteKeepsStoryAndReplacesAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.txt")
	if err := os.WriteFile(path, []byte(sample), 0o644); err != nil {
		t.Fatal(err)
	}
	*rewrite = true
	defer func() { *rewrite = false }()
	Run(t, path, func(block string) string { return strings.ToUpper(block) })
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer("----\na\nb", "----\nADD A\nADD B", "quiet\n----", "quiet\n----\nQUIET", "----\nx", "----\nLAST").Replace(sample)
	if string(got) != want {
		t.Fatalf("rewrote to\n%s\nwant\n%s", got, want)
	}
	*rewrite = false
	Run(t, path, func(block string) string { return strings.ToUpper(block) })
}

func TestLines(t *testing.T) {
	ls := Lines(t, `put "a b" size=12 name="x=\"y\"" ""; stop`)
	if len(ls) != 2 || ls[1].Verb != "stop" {
		t.Fatalf("lines %v", ls)
	}
	l := ls[0]
	if l.Verb != "put" || len(l.Args) != 2 || l.Arg(0) != "a b" || l.Arg(1) != "" || !l.Has("a b") || l.Has("size") {
		t.Fatalf("line %+v", l)
	}
	if l.Int("size", 0) != 12 || l.Int("none", -3) != -3 || l.Text("name", "") != `x="y"` || len(l.Pairs("s")) != 1 {
		t.Fatalf("options %+v", l.opts)
	}
}
