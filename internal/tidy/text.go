package tidy

import (
	"bytes"
	"path"
	"regexp"
	"strings"
)

// fileBytesMax is the largest committed file.
const fileBytesMax = 500 << 10

func checkSize(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Files {
		if len(f.Data) > fileBytesMax {
			found = append(found, Finding{Path: f.Path, Text: sprintf("the file has %d KiB, more than %d: make it at build or test time", len(f.Data)>>10, fileBytesMax>>10)})
		}
	}
	return found
}

// The marks are written in two parts so that this file has none.
var (
	markPattern = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b(\(#[0-9]+\))?`)
	// machinePath finds directories that exist on one machine: of a build, of an administrator, of a person.
	machinePath = regexp.MustCompile(`(^|[^\w.\-/~])/(wo` + `rk|ro` + `ot|ho` + `me)/`)
	// mirrors are hosts of package registries and the settings that choose one.
	mirrors = regexp.MustCompile(strings.Join([]string{
		`pro` + `xy\.golang\.org`, `s` + `um\.golang\.org`, `goproxy\.(cn|io)`, `regi` + `stry\.npmjs\.org`, `regi` + `stry\.yarnpkg\.com`, `d` + `eb\.debian\.org`, `secu` + `rity\.debian\.org`,
		`arch` + `ive\.ubuntu\.com`, `py` + `pi\.org`, `pythonh` + `osted\.org`, `crat` + `es\.io`, `GOPR` + `OXY`, `GONOSUM` + `DB`, `GOSUM` + `DB`, `npm_con` + `fig_registry`,
		`PIP_IND` + `EX_URL`, `--ind` + `ex-url`, `--regi` + `stry\b`, `(?m:^\s*regi` + `stry\s*=)`,
	}, "|"))
	// lockedPackage is how a lock file of npm names where a package comes from, whatever mirror is in use.
	lockedPackage = []byte(`"resolved": "https://regi` + `stry.npmjs.org/`)
)

// lines calls check with every line of the committed text files, but those that other tools write or that are quoted whole.
func (t *Tree) lines(check func(f *File, line []byte) string) []Finding {
	var found []Finding
	for _, f := range t.Files {
		if base := path.Base(f.Path); base == "go.sum" || base == "LICENSE" || !f.IsText() || strings.Contains(f.Path, "testdata/fuzz/") {
			continue
		}
		for i, line := range bytes.Split(f.Data, []byte("\n")) {
			if text := check(f, line); text != "" {
				found = append(found, Finding{Path: f.Path, Line: i + 1, Text: text})
			}
		}
	}
	return found
}

func checkUnfinished(t *Tree) []Finding {
	return t.lines(func(f *File, line []byte) string {
		if path.Base(f.Path) == "package-lock.json" {
			return ""
		}
		for _, m := range markPattern.FindAllSubmatch(line, -1) {
			if len(m[2]) == 0 {
				return string(m[1]) + " without an issue: finish it, or write " + string(m[1]) + "(#NUMBER)"
			}
		}
		return ""
	})
}

func checkPlaces(t *Tree) []Finding {
	return t.lines(func(f *File, line []byte) string {
		if m := machinePath.FindSubmatch(line); m != nil {
			return "/" + string(m[2]) + "/ is a directory of one machine: use a relative path or a temporary directory"
		}
		if path.Base(f.Path) == "package-lock.json" && bytes.Contains(line, lockedPackage) {
			return ""
		}
		if m := mirrors.Find(line); m != nil {
			return string(m) + " names a package registry: the caller's environment chooses it"
		}
		return ""
	})
}
