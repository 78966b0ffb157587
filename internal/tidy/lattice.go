package tidy

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

//go:embed lattice.txt
var latticeText string

// lattice is the policy of lattice.txt.
type lattice struct {
	levels  map[string]int
	only    map[string][]string
	deny    map[string][]string
	modules map[string][]string
	tests   []string
	pure    []string
	noFloat []string
}

// parseLattice reads the policy; the error names the line.
func parseLattice(text string) (*lattice, error) {
	l := &lattice{levels: map[string]int{}, only: map[string][]string{}, deny: map[string][]string{}, modules: map[string][]string{}}
	level := 0
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		verb, left, right := words[0], words[1:], []string(nil)
		if at := slices.Index(left, "->"); at >= 0 {
			left, right = left[:at], left[at+1:]
		}
		one := len(left) == 1
		switch {
		case verb == "level" && len(left) > 0:
			level++
			for _, p := range left {
				l.levels[p] = level
			}
		case verb == "only" && one:
			l.only[left[0]] = right
		case verb == "deny" && one:
			l.deny[left[0]] = right
		case verb == "module" && one:
			l.modules[left[0]] = right
		case verb == "tests" && len(left) == 0:
			l.tests = right
		case verb == "pure":
			l.pure = append(l.pure, left...)
		case verb == "no-float":
			l.noFloat = append(l.noFloat, left...)
		default:
			return nil, fmt.Errorf("lattice.txt:%d: not a rule: %s", i+1, line)
		}
	}
	return l, nil
}

// below says whether a package is an entry or lies below it.
func below(pkg, entry string) bool { return pkg == entry || strings.HasPrefix(pkg, entry+"/") }

// longest returns the longest entry that a package or module path lies below.
func longest[V any](entries map[string]V, p string) (string, bool) {
	best, found := "", false
	for e := range entries {
		if below(p, e) && (!found || len(e) > len(best)) {
			best, found = e, true
		}
	}
	return best, found
}

func anyBelow(pkg string, entries []string) bool {
	return slices.ContainsFunc(entries, func(e string) bool { return below(pkg, e) })
}

func checkLattice(t *Tree) []Finding {
	l, err := parseLattice(latticeText)
	if err != nil {
		return []Finding{{Path: "internal/tidy/lattice.txt", Text: err.Error()}}
	}
	var found []Finding
	missing := map[string]bool{}
	for _, f := range t.Go {
		if _, ok := longest(l.levels, f.Dir); !ok {
			if !missing[f.Dir] {
				missing[f.Dir] = true
				found = append(found, Finding{Path: f.Path, Text: "package " + f.Dir + " has no level in internal/tidy/lattice.txt: add it where it belongs"})
			}
			continue
		}
		for _, spec := range f.Syntax.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue // the parser has refused it
			}
			if broken := l.judge(t.Module, f, target); broken != "" {
				found = append(found, t.at(spec.Pos(), "%s imports %s: %s", f.Dir, target, broken))
			}
		}
	}
	return found
}

// judge returns the rule that an import breaks, or nothing.
func (l *lattice) judge(module string, f *GoFile, target string) string {
	inside, ok := strings.CutPrefix(target, module+"/")
	if !ok {
		return l.judgeModule(f, target)
	}
	entry, _ := longest(l.levels, f.Dir)
	targetEntry, known := longest(l.levels, inside)
	if f.Test && anyBelow(inside, l.tests) || inside == f.Dir {
		return ""
	}
	if strict, has := longest(l.only, f.Dir); has {
		if below(inside, strict) || anyBelow(inside, l.only[strict]) {
			return ""
		}
		return fmt.Sprintf("only %s -> %s", strict, strings.Join(l.only[strict], " "))
	}
	if d, has := longest(l.deny, f.Dir); has && anyBelow(inside, l.deny[d]) {
		return fmt.Sprintf("deny %s -> %s", d, strings.Join(l.deny[d], " "))
	}
	switch {
	case !known:
		return inside + " has no level"
	case entry == targetEntry || l.levels[targetEntry] < l.levels[entry]:
		return ""
	case l.levels[targetEntry] == l.levels[entry]:
		return fmt.Sprintf("%s and %s are on the same level", entry, targetEntry)
	}
	return fmt.Sprintf("%s is above %s", targetEntry, entry)
}

// judgeModule judges an import of another module or of the standard library.
func (l *lattice) judgeModule(f *GoFile, target string) string {
	if first, _, _ := strings.Cut(target, "/"); !strings.Contains(first, ".") {
		if below(f.Dir, "config/limits") {
			return "only config/limits ->"
		}
		return "" // the standard library
	}
	m, known := longest(l.modules, target)
	if !known {
		return "the module has no line in internal/tidy/lattice.txt: a new dependency is a decision"
	}
	for _, owner := range l.modules[m] {
		name, onlyTests := strings.CutSuffix(owner, ":test")
		if below(f.Dir, name) && (!onlyTests || f.Test) {
			return ""
		}
	}
	return fmt.Sprintf("module %s -> %s", m, strings.Join(l.modules[m], " "))
}
