package tidy

import (
	"bytes"
	"go/ast"
	"path"
	"slices"
)

const (
	// fileLinesMax is the longest source file; tests and generated files may be longer.
	fileLinesMax = 800
	// funcLinesMax is the longest function from its func to its brace, tests included; generated ones may be longer.
	funcLinesMax = 70
)

// sourceExtensions are the files besides Go whose length counts.
var sourceExtensions = []string{".ts", ".tsx", ".js", ".mjs", ".css", ".sh", ".py", ".vue", ".svelte"}

func checkLength(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Files {
		if lines := bytes.Count(f.Data, []byte("\n")); lines > fileLinesMax && slices.Contains(sourceExtensions, path.Ext(f.Path)) {
			found = append(found, tooLong(f, lines))
		}
	}
	for _, f := range t.Go {
		if f.Generated {
			continue
		}
		if lines := bytes.Count(f.Data, []byte("\n")); lines > fileLinesMax && !f.Test {
			found = append(found, tooLong(f.File, lines))
		}
		for _, d := range f.Syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			lines := t.Fset.Position(fn.Body.Rbrace).Line - t.Fset.Position(fn.Pos()).Line + 1
			if lines > funcLinesMax {
				found = append(found, t.at(fn.Pos(), "func %s has %d lines, more than %d: split it by what it does", fn.Name.Name, lines, funcLinesMax))
			}
		}
	}
	return found
}

func tooLong(f *File, lines int) Finding {
	return Finding{Path: f.Path, Text: sprintf("the file has %d lines, more than %d: split it by noun or verb", lines, fileLinesMax)}
}
