package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"unicode"
)

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// checkPackageDoc wants one comment on the package clause of every package. A package of tests only may have it in a test.
func checkPackageDoc(t *Tree) []Finding {
	var found []Finding
	for _, dir := range t.dirs() {
		var first *GoFile
		documented := false
		onlyTests := true
		for _, f := range t.Go {
			if f.Dir == dir && !f.Test {
				onlyTests = false
			}
		}
		for _, f := range t.Go {
			if f.Dir != dir || f.Test && !onlyTests {
				continue
			}
			if first == nil {
				first = f
			}
			documented = documented || packageDoc(f)
		}
		if first != nil && !documented {
			found = append(found, Finding{Path: first.Path, Text: "package " + dir + " has no comment that begins \"Package\" or \"Command\": write doc.go with role, invariants, hop before and after"})
		}
	}
	return found
}

func packageDoc(f *GoFile) bool {
	text := f.Syntax.Doc.Text()
	return strings.HasPrefix(text, "Package "+f.Syntax.Name.Name) || f.Syntax.Name.Name == "main" && strings.HasPrefix(text, "Command ")
}

// checkExportedDoc wants a sentence on every exported top-level name and on the exported methods of exported types.
func checkExportedDoc(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Go {
		if f.Test || f.Generated || f.Syntax.Name.Name == "main" {
			continue
		}
		for _, d := range f.Syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && receiverExported(d) && !selfEvident(d) && !sentence(d.Doc) {
					found = append(found, t.at(d.Pos(), "func %s has no sentence that says what it does", d.Name.Name))
				}
			case *ast.GenDecl:
				found = append(found, t.undocumented(d)...)
			}
		}
	}
	return found
}

// selfEvident are the methods whose meaning the language's own interfaces fix.
func selfEvident(d *ast.FuncDecl) bool {
	return d.Recv != nil && slices.Contains([]string{"Error", "String", "Unwrap"}, d.Name.Name)
}

func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

// undocumented finds types, constants and variables without a comment of their own, behind them, or on a group whose comment speaks for all.
func (t *Tree) undocumented(d *ast.GenDecl) []Finding {
	var found []Finding
	said := wordsOfSpecs(d)
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && !sentence(s.Doc) && (d.Lparen.IsValid() || !sentence(d.Doc)) {
				found = append(found, t.at(s.Pos(), "type %s has no sentence that says what it is", s.Name.Name))
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() && !sentence(s.Doc) && s.Comment == nil && !sentence(d.Doc) && !slices.Contains(said, name.Name) {
					found = append(found, t.at(name.Pos(), "%s %s has no sentence that says what it is", token.Token(d.Tok), name.Name))
				}
			}
		}
	}
	return found
}

// wordsOfSpecs returns the words of the comments inside a group: one sentence may name several of its constants.
func wordsOfSpecs(d *ast.GenDecl) []string {
	var words []string
	for _, spec := range d.Specs {
		if s, ok := spec.(*ast.ValueSpec); ok && sentence(s.Doc) {
			words = append(words, strings.FieldsFunc(s.Doc.Text(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' })...)
		}
	}
	return words
}

// sentence says whether a comment is one: more than one word, with an end.
func sentence(doc *ast.CommentGroup) bool {
	text := strings.TrimSpace(doc.Text())
	return len(strings.Fields(text)) > 1 && strings.ContainsAny(text, ".:")
}

// emptyNames are words that say nothing about a thing.
var emptyNames = []string{"Manager", "Helper", "Helpers", "Util", "Utils", "Common", "Impl", "Misc"}

func checkNames(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Go {
		base := strings.TrimSuffix(strings.TrimSuffix(f.Path[strings.LastIndexByte(f.Path, '/')+1:], ".go"), "_test")
		for _, empty := range emptyNames {
			low := strings.ToLower(empty)
			if base == low || strings.HasSuffix(base, "_"+low) || f.Syntax.Name.Name == low {
				found = append(found, Finding{Path: f.Path, Text: "the file or package is called " + low + ": name it after what it holds"})
			}
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			s, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			for _, empty := range emptyNames {
				if strings.HasSuffix(s.Name.Name, empty) || s.Name.Name == strings.ToLower(empty) {
					found = append(found, t.at(s.Pos(), "type %s: name it after what it does, not %s", s.Name.Name, empty))
				}
			}
			return true
		})
	}
	return found
}
