package tidy

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	adrName   = regexp.MustCompile(`^[0-9]{4}-[a-z0-9-]+\.md$`)
	adrStatus = regexp.MustCompile(`^(Proposed|Accepted|Superseded by [0-9]{4})\b`)
)

// adrSections are the headings of a decision, in order.
var adrSections = []string{"Status", "Context", "Decision", "Consequences"}

// checkADR wants every file of docs/adr to be a numbered decision with its sections and a state.
func checkADR(t *Tree) []Finding {
	var found []Finding
	numbers := map[string]string{}
	for _, f := range t.Files {
		name := path.Base(f.Path)
		if path.Dir(f.Path) != "docs/adr" {
			continue
		}
		report := func(text string) { found = append(found, Finding{Path: f.Path, Text: text}) }
		if !adrName.MatchString(name) {
			report("a decision is called NNNN-title.md")
			continue
		}
		if other := numbers[name[:4]]; other != "" {
			report("its number is that of " + other)
		}
		numbers[name[:4]] = name
		sections := splitSections(string(f.Data))
		for _, want := range adrSections {
			i := slices.IndexFunc(sections, func(s [2]string) bool { return s[0] == want })
			switch {
			case i < 0 || sections[i][1] == "":
				report("it has no text under a heading \"## " + want + "\"")
			case want == "Status" && !adrStatus.MatchString(sections[i][1]):
				report("its status does not begin with Proposed, Accepted or Superseded by NNNN")
			}
		}
	}
	return found
}

// splitSections returns heading and text of every section of the second level.
func splitSections(text string) [][2]string {
	var all [][2]string
	for _, part := range strings.Split("\n"+text, "\n## ")[1:] {
		heading, body, _ := strings.Cut(part, "\n")
		all = append(all, [2]string{strings.TrimSpace(heading), strings.TrimSpace(body)})
	}
	return all
}

// pins are modules that must stay at one version, with the reason.
var pins = []struct{ module, version, why string }{
	{"github.com/lni/dragonboat/v4", "v4.0.0-20250723143628-076c7f6497dc", "there is no v4 tag, and the settings in quorum are taken from this version's variables"},
	{"github.com/cockroachdb/pebble", "v0.0.0-20221207173255-0f086d933dac", "dragonboat does not compile with a later v1"},
}

var requireLine = regexp.MustCompile(`(?m)^\s*(?:require\s+)?(\S+)\s+(v\S+)`)

// checkModules wants go.mod to keep the pins and to replace nothing.
func checkModules(t *Tree) []Finding {
	f := t.file("go.mod")
	if f == nil {
		return []Finding{{Path: "go.mod", Text: "it is missing"}}
	}
	have := map[string]string{}
	for _, m := range requireLine.FindAllStringSubmatch(string(f.Data), -1) {
		have[m[1]] = m[2]
	}
	var found []Finding
	for _, pin := range pins {
		if have[pin.module] != pin.version {
			found = append(found, Finding{Path: "go.mod", Text: sprintf("%s is at %q and must be at %s: %s", pin.module, have[pin.module], pin.version, pin.why)})
		}
	}
	if regexp.MustCompile(`(?m)^\s*replace\b`).Match(f.Data) {
		found = append(found, Finding{Path: "go.mod", Text: "it replaces a module: an import of this module would not see that"})
	}
	return found
}
