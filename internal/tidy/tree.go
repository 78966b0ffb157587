package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"
)

// Tree is what the rules judge: the committed files of the repository, its Go files parsed.
type Tree struct {
	// Files are all files in order of their paths.
	Files []*File
	// Go are the Go files of the main module that the go command would look at, in the same order.
	Go []*GoFile
	// Module is the module's path, as go.mod has it.
	Module string
	// Fset has the positions of all parsed files.
	Fset *token.FileSet
	// broken are the files that could not be read or parsed.
	broken []Finding
}

// File is one committed file.
type File struct {
	// Path is relative to the root, with slashes.
	Path string
	// Data is the content.
	Data []byte
}

// IsText says whether the file is text: UTF-8 without NUL.
func (f *File) IsText() bool { return !bytes.ContainsRune(f.Data, 0) && utf8.Valid(f.Data) }

// GoFile is one parsed Go file.
type GoFile struct {
	*File
	// Syntax is the file's syntax with comments.
	Syntax *ast.File
	// Dir is the directory of the file, relative to the root: the package's name in lattice.txt.
	Dir string
	// Test says that the name ends in _test.go.
	Test bool
	// Generated says that the file has the header of generated code.
	Generated bool
	// Excluded says that a build constraint keeps the file out of a build on this platform.
	Excluded bool
}

// Finding is one place that breaks a rule.
type Finding struct {
	// Path and Line are the place; Line is 0 when the finding is about the whole file.
	Path string
	Line int
	// Text says what is wrong and what to do.
	Text string
}

// String returns "path:line: text".
func (f Finding) String() string {
	if f.Line == 0 {
		return f.Path + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Text)
}

// at makes a finding about a position in a Go file.
func (t *Tree) at(pos token.Pos, format string, args ...any) Finding {
	p := t.Fset.Position(pos)
	return Finding{Path: p.Filename, Line: p.Line, Text: fmt.Sprintf(format, args...)}
}

// Root returns the directory of go.mod above the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = fmt.Errorf("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// Load reads the files below root that are, or could be, committed: what git lists, or without git all but build output.
func Load(root string) (*Tree, error) {
	paths, err := gitFiles(root)
	if err != nil {
		paths, err = walkFiles(root)
	}
	if err != nil {
		return nil, err
	}
	if err := openDirs(root, paths); err != nil {
		return nil, err
	}
	return NewTree(os.DirFS(root), paths)
}

// openDirs opens the directories of all files, so that the go command sees a new file there and does not answer from its test cache.
func openDirs(root string, paths []string) error {
	seen := map[string]bool{}
	for _, p := range paths {
		for dir := path.Dir(p); !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			f, err := os.Open(filepath.Join(root, dir))
			if err != nil {
				return err
			}
			f.Close()
		}
	}
	return nil
}

func gitFiles(root string) ([]string, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, p := range strings.Split(string(out), "\x00") {
		if info, err := os.Lstat(filepath.Join(root, p)); p != "" && err == nil && info.Mode().IsRegular() {
			paths = append(paths, p)
		}
	}
	return paths, nil
}

func walkFiles(root string) ([]string, error) {
	var paths []string
	err := fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "bin", "data", "tmp", "node_modules"}, d.Name()) {
			return fs.SkipDir
		}
		if d.Type().IsRegular() && (path.Dir(p) != "management-ui/dist" || p == "management-ui/dist/placeholder.html") {
			paths = append(paths, p)
		}
		return nil
	})
	return paths, err
}

// NewTree reads and parses the files of the given paths.
func NewTree(fsys fs.FS, paths []string) (*Tree, error) {
	slices.Sort(paths)
	paths = slices.Compact(paths)
	t := &Tree{Fset: token.NewFileSet()}
	for _, p := range paths {
		data, err := fs.ReadFile(fsys, p)
		if err != nil {
			return nil, err
		}
		t.Files = append(t.Files, &File{Path: p, Data: data})
	}
	t.Module = moduleOf(t.file("go.mod"))
	for _, f := range t.Files {
		if t.isGo(f.Path) {
			t.parse(f)
		}
	}
	return t, nil
}

func (t *Tree) file(path string) *File {
	for _, f := range t.Files {
		if f.Path == path {
			return f
		}
	}
	return nil
}

var moduleLine = regexp.MustCompile(`(?m)^module\s+(\S+)`)

func moduleOf(f *File) string {
	if f == nil {
		return ""
	}
	if m := moduleLine.FindSubmatch(f.Data); m != nil {
		return string(m[1])
	}
	return ""
}

// isGo says whether the go command, run at the root, looks at a file.
func (t *Tree) isGo(p string) bool {
	if path.Ext(p) != ".go" || strings.HasPrefix(path.Base(p), "_") || strings.HasPrefix(path.Base(p), ".") {
		return false
	}
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if base := path.Base(dir); base == "testdata" || base[0] == '_' || base[0] == '.' || t.file(dir+"/go.mod") != nil {
			return false
		}
	}
	return true
}

func (t *Tree) parse(f *File) {
	syntax, err := parser.ParseFile(t.Fset, f.Path, f.Data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.broken = append(t.broken, Finding{Path: f.Path, Text: "does not parse: " + err.Error()})
		return
	}
	t.Go = append(t.Go, &GoFile{
		File: f, Syntax: syntax, Dir: path.Dir(f.Path), Test: strings.HasSuffix(f.Path, "_test.go"),
		Generated: ast.IsGenerated(syntax), Excluded: excluded(f.Path, syntax),
	})
}

var platforms = []string{"linux", "darwin", "windows", "freebsd", "netbsd", "openbsd", "plan9", "js", "wasip1", "amd64", "arm64", "386", "arm", "wasm"}

// excluded judges the file's name and its //go:build line for the platform that the tests run on.
func excluded(p string, syntax *ast.File) bool {
	holds := func(tag string) bool {
		return tag == runtime.GOOS || tag == runtime.GOARCH || tag == "gc" || tag == "unix" && runtime.GOOS != "windows" || strings.HasPrefix(tag, "go1.")
	}
	words := strings.Split(strings.TrimSuffix(strings.TrimSuffix(path.Base(p), ".go"), "_test"), "_")
	for _, w := range words[1:] {
		if slices.Contains(platforms, w) && !holds(w) {
			return true
		}
	}
	for _, group := range syntax.Comments {
		for _, c := range group.List {
			if c.Pos() < syntax.Package && constraint.IsGoBuild(c.Text) {
				expr, err := constraint.Parse(c.Text)
				return err == nil && !expr.Eval(holds)
			}
		}
	}
	return false
}
