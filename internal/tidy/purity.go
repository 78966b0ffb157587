package tidy

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/token"
	"go/types"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// impure are the packages of the standard library that tell something that replicas do not share, with what lies below them.
var impure = []string{
	"time", "net", "os", "sync", "context", "log", "math/rand", "runtime", "unsafe", "io", "syscall", "crypto/rand", "reflect", "plugin", "embed", "testing", "bufio",
	"expvar", "database/sql", "weak", "unique",
}

// ioFiles are the files that may see an io.Reader or io.Writer.
var ioFiles = []string{"amqp/reader.go", "amqp/writer.go"}

func checkPurity(t *Tree) []Finding {
	l, err := parseLattice(latticeText)
	if err != nil {
		return nil // the lattice rule reports it
	}
	c := &purity{tree: t, types: newChecker(t)}
	for _, dir := range t.dirs() {
		if !anyBelow(dir, l.pure) {
			continue
		}
		c.floats = anyBelow(dir, l.noFloat)
		c.checkDir(dir)
	}
	return c.found
}

// dirs lists the directories with Go files, in order.
func (t *Tree) dirs() []string {
	var all []string
	for _, f := range t.Go {
		all = append(all, f.Dir)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// built lists the files of a package as a build has them: no tests, nothing excluded, no commands.
func (t *Tree) built(dir string) []*GoFile {
	var all []*GoFile
	for _, f := range t.Go {
		if f.Dir == dir && !f.Test && !f.Excluded && f.Syntax.Name.Name != "main" {
			all = append(all, f)
		}
	}
	return all
}

// purity collects the findings of one run of the rule.
type purity struct {
	tree   *Tree
	types  *checker
	floats bool // whether floating-point numbers are findings
	info   *types.Info
	found  []Finding
}

func (c *purity) report(n ast.Node, format string, args ...any) {
	c.found = append(c.found, c.tree.at(n.Pos(), format, args...))
}

func (c *purity) checkDir(dir string) {
	files := c.tree.built(dir)
	if len(files) == 0 {
		return
	}
	_, info, err := c.types.check(dir)
	if err != nil {
		c.found = append(c.found, Finding{Path: files[0].Path, Text: "cannot be judged, it does not type-check: " + err.Error()})
		return
	}
	c.info = info
	for _, f := range files {
		c.checkImports(f)
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			c.checkNode(n)
			return true
		})
	}
}

func (c *purity) checkImports(f *GoFile) {
	for _, spec := range f.Syntax.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		if name == "io" && slices.Contains(ioFiles, f.Path) {
			continue
		}
		if anyBelow(name, impure) {
			c.report(spec, "a pure package imports %s", name)
		}
	}
}

func (c *purity) checkNode(n ast.Node) {
	switch n := n.(type) {
	case *ast.GoStmt:
		c.report(n, "a pure package starts a goroutine")
	case *ast.SelectStmt:
		c.report(n, "a pure package has a select")
	case *ast.ChanType:
		c.report(n, "a pure package has a channel")
	case *ast.SendStmt:
		c.report(n, "a pure package sends on a channel")
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			c.report(n, "a pure package receives from a channel")
		}
	case *ast.RangeStmt:
		if overMap(c.info.TypeOf(n.X)) {
			c.report(n, "the order of a range over a map differs from run to run: sort the keys, or keep a slice")
		}
	case *ast.CallExpr:
		c.checkMapIteration(n)
	}
	if e, ok := n.(ast.Expr); ok && c.floats {
		c.checkFloat(e)
	}
}

// checkFloat finds expressions and types that are floating-point, once per line.
func (c *purity) checkFloat(e ast.Expr) {
	lit, isLit := e.(*ast.BasicLit)
	if !isFloat(c.info.TypeOf(e)) && !(isLit && (lit.Kind == token.FLOAT || lit.Kind == token.IMAG)) {
		return
	}
	f := c.tree.at(e.Pos(), "a replicated machine has a floating-point number")
	if len(c.found) == 0 || c.found[len(c.found)-1] != f {
		c.found = append(c.found, f)
	}
}

// checkMapIteration finds iterators over a map that no sort takes: maps.Keys(m) is as random as a range over m.
func (c *purity) checkMapIteration(call *ast.CallExpr) {
	if strings.HasPrefix(c.callee(call), "slices.Sorted") {
		for _, arg := range call.Args {
			if inner, ok := ast.Unparen(arg).(*ast.CallExpr); ok {
				c.types.sorted[inner] = true
			}
		}
		return
	}
	switch name := c.callee(call); name {
	case "maps.Keys", "maps.Values", "maps.All":
		if !c.types.sorted[call] {
			c.report(call, "the order of %s differs from run to run: put it into slices.Sorted", name)
		}
	}
}

// callee returns the package and name of a called function of another package.
func (c *purity) callee(call *ast.CallExpr) string {
	fun := ast.Unparen(call.Fun)
	if index, ok := fun.(*ast.IndexExpr); ok {
		fun = index.X
	}
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	obj := c.info.ObjectOf(sel.Sel)
	if obj == nil || obj.Pkg() == nil {
		return ""
	}
	if _, isFunc := obj.(*types.Func); !isFunc {
		return ""
	}
	return obj.Pkg().Path() + "." + obj.Name()
}

func overMap(t types.Type) bool {
	if t == nil {
		return false
	}
	if p, ok := t.(*types.TypeParam); ok {
		return constraintHasMap(p)
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

func constraintHasMap(p *types.TypeParam) bool {
	in, ok := p.Constraint().Underlying().(*types.Interface)
	if !ok {
		return false
	}
	for i := range in.NumEmbeddeds() {
		union, ok := in.EmbeddedType(i).(*types.Union)
		if !ok {
			if overMap(in.EmbeddedType(i)) {
				return true
			}
			continue
		}
		for j := range union.Len() {
			if overMap(union.Term(j).Type()) {
				return true
			}
		}
	}
	return false
}

func isFloat(t types.Type) bool {
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&(types.IsFloat|types.IsComplex) != 0
}

// checker type-checks packages of the tree from their sources.
type checker struct {
	tree   *Tree
	std    types.Importer
	done   map[string]*checked
	sorted map[*ast.CallExpr]bool
}

type checked struct {
	pkg  *types.Package
	info *types.Info
	err  error
}

// findSources has the sources of the standard library found also by a binary that does not know where they are (-trimpath).
var findSources = sync.OnceFunc(func() {
	if build.Default.GOROOT != "" {
		return
	}
	if out, err := exec.Command("go", "env", "GOROOT").Output(); err == nil {
		build.Default.GOROOT = strings.TrimSpace(string(out))
	}
})

func newChecker(t *Tree) *checker {
	findSources()
	return &checker{
		tree: t, std: importer.ForCompiler(token.NewFileSet(), "source", nil),
		done: map[string]*checked{}, sorted: map[*ast.CallExpr]bool{},
	}
}

// Import makes the checker an importer for its own packages: those of the module from the tree, others from the standard library.
func (c *checker) Import(name string) (*types.Package, error) {
	if inside, ok := strings.CutPrefix(name, c.tree.Module+"/"); ok {
		pkg, _, err := c.check(inside)
		return pkg, err
	}
	return c.std.Import(name)
}

func (c *checker) check(dir string) (*types.Package, *types.Info, error) {
	if r, ok := c.done[dir]; ok {
		return r.pkg, r.info, r.err
	}
	r := &checked{info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}}
	c.done[dir] = r
	var files []*ast.File
	for _, f := range c.tree.built(dir) {
		files = append(files, f.Syntax)
	}
	conf := types.Config{Importer: c}
	r.pkg, r.err = conf.Check(path.Join(c.tree.Module, dir), c.tree.Fset, files, r.info)
	return r.pkg, r.info, r.err
}
