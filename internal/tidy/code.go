package tidy

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// persistent are the packages whose named integers end up in a log, a snapshot or a file.
var persistent = []string{"queue", "stream", "meta", "storage", "quorum"}

// checkEnums finds iota in those packages, unless the block says that its values are not persisted or the package is one of tests.
func checkEnums(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Go {
		if f.Test || strings.HasSuffix(f.Syntax.Name.Name, "test") || !anyBelow(f.Dir, persistent) {
			continue
		}
		for _, d := range f.Syntax.Decls {
			block, ok := d.(*ast.GenDecl)
			if !ok || block.Tok != token.CONST || strings.Contains(block.Doc.Text(), "not persisted") {
				continue
			}
			ast.Inspect(block, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && id.Name == "iota" {
					found = append(found, t.at(id.Pos(), "iota: write every value out, new ones at the end; if no file, log or wire has them, say \"not persisted\" above the block"))
				}
				return true
			})
		}
	}
	return found
}

// checkSleep finds time.Sleep in tests and test packages outside e2e. In a file that uses testing/synctest it is virtual time and allowed.
func checkSleep(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Go {
		inTest := f.Test || strings.HasSuffix(f.Syntax.Name.Name, "test")
		if !inTest || below(f.Dir, "e2e") || f.imports("testing/synctest") {
			continue
		}
		timeName := f.importName("time")
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && timeName != "" && sel.Sel.Name == "Sleep" && isIdent(sel.X, timeName) {
				found = append(found, t.at(sel.Pos(), "time.Sleep in a test: wait for the condition, or use testing/synctest"))
			}
			return true
		})
	}
	return found
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func (f *GoFile) imports(path string) bool { return f.importName(path) != "" }

// importName returns the name under which a file imports a package, empty if it does not.
func (f *GoFile) importName(path string) string {
	for _, spec := range f.Syntax.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err != nil || p != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path[strings.LastIndexByte(path, '/')+1:]
	}
	return ""
}

const limitsDir = "config/limits"

// checkLimits finds constants of config/limits that no other package reads.
func checkLimits(t *Tree) []Finding {
	declared := map[string]Finding{}
	used := map[string]bool{}
	for _, f := range t.Go {
		switch {
		case f.Dir == limitsDir:
			for _, d := range f.Syntax.Decls {
				t.constants(d, declared)
			}
		case !f.Test && f.imports(t.Module+"/"+limitsDir):
			name := f.importName(t.Module + "/" + limitsDir)
			ast.Inspect(f.Syntax, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && isIdent(sel.X, name) {
					used[sel.Sel.Name] = true
				}
				return true
			})
		}
	}
	var found []Finding
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if !used[name] {
			found = append(found, declared[name])
		}
	}
	return found
}

// constants notes what a declaration declares, as the finding that an unread one is.
func (t *Tree) constants(d ast.Decl, declared map[string]Finding) {
	block, ok := d.(*ast.GenDecl)
	if !ok || block.Tok != token.CONST {
		return
	}
	for _, spec := range block.Specs {
		for _, name := range spec.(*ast.ValueSpec).Names {
			declared[name.Name] = t.at(name.Pos(), "limits.%s is read by no other package: use it or remove it", name.Name)
		}
	}
}
