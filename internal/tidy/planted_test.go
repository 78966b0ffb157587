package tidy

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const goMod = `module example.org/m

go 1.26.0

require (
	github.com/lni/dragonboat/v4 v4.0.0-20250723143628-076c7f6497dc
	github.com/cockroachdb/pebble v0.0.0-20221207173255-0f086d933dac // indirect
)
`

// plant is a tree of a few files with what the rule of that name must find in it. No want: the rule must find nothing.
type plant struct {
	rule  string
	about string
	files map[string]string
	want  []string
}

func long(lines int, body string) string { return strings.Repeat(body+"\n", lines) }

var plants = []plant{
	{"parses", "a brace is missing", map[string]string{"queue/a.go": "package queue\nfunc f() {"}, []string{"queue/a.go: does not parse"}},
	{"parses", "test data is not code", map[string]string{"queue/testdata/a.go": "package queue\nfunc f() {"}, nil},

	{"lattice", "up", map[string]string{"queue/a.go": "package queue\nimport _ \"example.org/m/broker\""}, []string{"queue/a.go:2: queue imports example.org/m/broker: broker is above queue"}},
	{"lattice", "up from a test", map[string]string{"queue/a_test.go": "package queue\nimport _ \"example.org/m/quorum\""}, []string{"quorum is above queue"}},
	{"lattice", "sideways", map[string]string{"stream/a.go": "package stream\nimport _ \"example.org/m/queue\""}, []string{"stream and queue are on the same level"}},
	{"lattice", "queue and the wire", map[string]string{"queue/a.go": "package queue\nimport _ \"example.org/m/amqp\""}, []string{"deny queue -> amqp"}},
	{"lattice", "a command imported", map[string]string{"internal/node/a.go": "package node\nimport _ \"example.org/m/cmd/warren\""}, []string{"cmd is above internal/node"}},
	{"lattice", "a leaf with an import", map[string]string{"config/limits/a.go": "package limits\nimport _ \"math\""}, []string{"only config/limits ->"}},
	{"lattice", "the CLI with a private door", map[string]string{"cmd/amqpctl/a.go": "package main\nimport _ \"example.org/m/storage\""}, []string{"only cmd/amqpctl -> "}},
	{"lattice", "a package without a level", map[string]string{"shovel/a.go": "package shovel", "shovel/b.go": "package shovel"}, []string{"shovel/a.go: package shovel has no level"}},
	{"lattice", "Raft outside quorum", map[string]string{"broker/a.go": "package broker\nimport _ \"github.com/lni/dragonboat/v4\""}, []string{"module github.com/lni -> quorum"}},
	{"lattice", "a new dependency", map[string]string{"broker/a.go": "package broker\nimport _ \"github.com/stretchr/testify\""}, []string{"a new dependency is a decision"}},
	{"lattice", "a client outside tests", map[string]string{"broker/a.go": "package broker\nimport _ \"github.com/rabbitmq/amqp091-go\""}, []string{"broker:test"}},
	{"lattice", "all that is allowed", map[string]string{
		"queue/a.go":              "package queue\nimport _ \"example.org/m/config/limits\"\nimport _ \"example.org/m/queue/internal/x\"\nimport _ \"net/http\"",
		"queue/a_test.go":         "package queue\nimport _ \"example.org/m/internal/script\"",
		"queue/internal/x/a.go":   "package x",
		"storage/segment/a.go":    "package segment\nimport _ \"example.org/m/storage\"",
		"quorum/link/a.go":        "package link\nimport _ \"github.com/lni/dragonboat/v4/raftio\"",
		"broker/a_test.go":        "package broker\nimport _ \"github.com/rabbitmq/amqp091-go\"",
		"cmd/warren/a.go":         "package main\nimport _ \"example.org/m/internal/node\"",
		"management/a.go":         "package management\nimport _ \"example.org/m/management-ui\"",
		"internal/invariant/a.go": "package invariant",
	}, nil},

	{"purity", "the clock", map[string]string{"queue/a.go": "package queue\nimport \"time\"\nvar _ = time.Second"}, []string{"queue/a.go:2: a pure package imports time"}},
	{"purity", "below a forbidden package", map[string]string{"exchange/a.go": "package exchange\nimport \"sync/atomic\"\nvar _ atomic.Bool"}, []string{"imports sync/atomic"}},
	{"purity", "io outside the reader", map[string]string{"amqp/a.go": "package amqp\nimport \"io\"\nvar _ io.Reader", "amqp/reader.go": "package amqp\nimport \"io\"\nvar _ io.Reader"}, []string{"amqp/a.go:2: a pure package imports io"}},
	{"purity", "concurrency", map[string]string{"meta/a.go": "package meta\nfunc f(c chan int) {\n\tgo f(nil)\n\tselect {}\n}\nfunc g(c chan int) {\n\tc <- 1\n\t<-c\n}"},
		[]string{"a.go:2: a pure package has a channel", "a.go:3: a pure package starts a goroutine", "a.go:4: a pure package has a select", "a.go:6:", "a.go:7: a pure package sends", "a.go:8: a pure package receives"}},
	{"purity", "a range over a map", map[string]string{
		"queue/a.go": "package queue\nimport \"example.org/m/config/limits\"\ntype set struct{ m limits.M }\nfunc (s *set) f() {\n\tfor range s.m {\n\t}\n}\nfunc g[M ~map[K]int, K comparable](m M) {\n\tfor range m {\n\t}\n}", "config/limits/a.go": "package limits\ntype M map[int]int",
	}, []string{"queue/a.go:5: the order of a range over a map", "queue/a.go:9: the order of a range over a map"}},
	{"purity", "an iterator over a map", map[string]string{"meta/a.go": "package meta\nimport (\"maps\"; \"slices\")\nfunc f(m map[int]int) {\n\t_ = slices.Sorted(maps.Keys(m))\n\tfor range maps.Keys(m) {\n\t}\n}"}, []string{"meta/a.go:5: the order of maps.Keys"}},
	{"purity", "floats in a machine", map[string]string{"queue/a.go": "package queue\nfunc f(n int) int {\n\tx := float64(n) * 1.5\n\treturn int(x)\n}"}, []string{"queue/a.go:3: a replicated machine has a floating-point", "queue/a.go:4:"}},
	{"purity", "a package that does not compile", map[string]string{"queue/a.go": "package queue\nvar x = undefined"}, []string{"cannot be judged"}},
	{"purity", "all that is allowed", map[string]string{
		"queue/a.go":       "package queue\nfunc f(s []int, m map[int]int) int {\n\tfor i := range s {\n\t\tm[i]++\n\t}\n\treturn len(m)\n}",
		"queue/a_test.go":  "package queue\nimport \"time\"\nvar _ = time.Second",
		"amqp/float.go":    "package amqp\nvar f = 1.5",
		"amqp/spec/gen.go": "package main\nimport \"os\"\nfunc main() { os.Exit(0) }",
		"queue/off.go":     "//go:build ignore\n\npackage queue\nimport \"os\"\nvar _ = os.Args",
		"broker/a.go":      "package broker\nimport \"time\"\nvar _ = time.Second",
	}, nil},

	{"length", "a long file", map[string]string{"broker/a.go": "package broker\n" + long(800, "// a")}, []string{"broker/a.go: the file has 801 lines"}},
	{"length", "a long script", map[string]string{"management-ui/a.ts": long(801, "//")}, []string{"the file has 801 lines"}},
	{"length", "a long function", map[string]string{"broker/a_test.go": "package broker\nfunc F() {\n" + long(69, "\t_ = 1") + "}\n"}, []string{"broker/a_test.go:2: func F has 71 lines"}},
	{"length", "at the bound, tests and generated files", map[string]string{
		"broker/a.go": "package broker\nfunc F() {\n" + long(68, "\t_ = 1") + "}\n", "broker/a_test.go": "package broker\n" + long(900, "// a"),
		"amqp/a_gen.go": "// Code generated by gen. DO NOT EDIT.\n\npackage amqp\nfunc F() {\n" + long(900, "\t_ = 1") + "}\n",
	}, nil},

	{"package-doc", "no comment", map[string]string{"broker/a.go": "package broker", "broker/a_test.go": "// Package broker is documented in a test.\npackage broker"}, []string{"package broker has no comment"}},
	{"package-doc", "documented", map[string]string{
		"broker/a.go": "package broker", "broker/doc.go": "// Package broker does it.\npackage broker", "cmd/warren/main.go": "// Command warren is the broker.\npackage main",
		"e2e/api/a_test.go": "// Package api tests it.\npackage api",
	}, nil},

	{"exported-doc", "nothing said", map[string]string{"broker/a.go": "package broker\n\ntype T struct{}\n\nfunc (T) M() {}\n\nconst C = 1\n\nvar V int\n\n// F\nfunc F() {}\n\ntype (\n\tU int\n)\n"},
		[]string{"a.go:3: type T", "a.go:5: func M", "a.go:7: const C", "a.go:9: var V", "a.go:12: func F", "a.go:15: type U"}},
	{"exported-doc", "said, or not exported", map[string]string{"broker/a.go": "package broker\n\n// T is one.\ntype T struct{}\n\nfunc (T) String() string { return \"\" }\n\n// The sizes.\nconst (\n\tA = 1\n\tB = 2\n)\n\nconst (\n\tC = 1 // first\n\t// D and E are a pair.\n\tD = 1\n\tE = 2\n)\n\ntype t struct{}\n\nfunc (t) M() {}\n",
		"cmd/warren/main.go": "package main\n\nfunc F() {}\n"}, nil},

	{"names", "empty names", map[string]string{"broker/a.go": "package broker\ntype QueueManager struct{}", "broker/conn_util.go": "package broker", "internal/common/a.go": "package common"},
		[]string{"broker/a.go:2: type QueueManager", "broker/conn_util.go: the file", "internal/common/a.go: the file"}},

	{"enums", "a persisted iota", map[string]string{"queue/a.go": "package queue\nconst (\n\tA = iota\n\tB\n)"}, []string{"queue/a.go:3: iota"}},
	{"enums", "values written out, or not persisted", map[string]string{"queue/a.go": "package queue\nconst (\n\tA = 1\n\tB = 2\n)\n\n// States in memory; they are not persisted.\nconst (\n\tC = iota\n)", "broker/a.go": "package broker\nconst A = iota"}, nil},

	{"sleep", "in a test", map[string]string{"broker/a_test.go": "package broker\nimport clock \"time\"\nfunc f() { clock.Sleep(1) }", "quorum/quorumtest/a.go": "package quorumtest\nimport \"time\"\nfunc f() { time.Sleep(1) }"},
		[]string{"broker/a_test.go:3:", "quorum/quorumtest/a.go:3:"}},
	{"sleep", "allowed", map[string]string{"e2e/a_test.go": "package e2e\nimport \"time\"\nfunc f() { time.Sleep(1) }", "broker/a.go": "package broker\nimport \"time\"\nfunc f() { time.Sleep(1) }",
		"quorum/a_test.go": "package quorum\nimport (\"testing/synctest\"; \"time\")\nfunc f() { time.Sleep(1); synctest.Wait() }"}, nil},

	{"limits", "not read", map[string]string{"config/limits/a.go": "package limits\nconst (\n\tA = 1\n\tB = 2\n)", "broker/a.go": "package broker\nimport \"example.org/m/config/limits\"\nvar _ = limits.A", "broker/a_test.go": "package broker\nimport \"example.org/m/config/limits\"\nvar _ = limits.B"},
		[]string{"config/limits/a.go:4: limits.B"}},

	{"unfinished", "a mark without a number", map[string]string{"broker/a.go": "package broker\n// TO" + "DO later\n// FIX" + "ME(#12) this one has a number"}, []string{"broker/a.go:2: TO" + "DO without an issue"}},

	{"places", "one machine", map[string]string{"docs/a.md": "see /ho" + "me/ann/x\n", "broker/a.go": "package broker\nconst p = \"/wo" + "rk/main\"\n", "x.sh": "cd /ro" + "ot/\n"}, []string{"broker/a.go:2:", "docs/a.md:1:", "x.sh:1:"}},
	{"places", "a registry", map[string]string{"Makefile": "export GOPR" + "OXY=direct\n", "a/.npmrc": "regi" + "stry=https://npm.example.org/\n", "a/package-lock.json": "\"resolved\": \"https://regi" + "stry.npmjs.org/x\"\n\"resolved\": \"https://regi" + "stry.yarnpkg.com/x\"\n"},
		[]string{"Makefile:1:", "a/.npmrc:1:", "a/package-lock.json:2:"}},
	{"places", "addresses that only look so", map[string]string{"docs/a.md": "http://host/api/ho" + "me/ and ./wo" + "rk/x and doc" + "root/ and a/ro" + "ot/b\n", "bin.dat": "\x00/ho" + "me/ann\n", "go.sum": "regi" + "stry.npmjs.org\n"}, nil},

	{"size", "half a mebibyte and more", map[string]string{"a.bin": strings.Repeat("x", 512<<10)}, []string{"a.bin: the file has 512 KiB"}},

	{"adr", "badly kept", map[string]string{
		"docs/adr/notes.md": "", "docs/adr/0001-a.md": "# A\n\n## Status\n\nDone\n\n## Context\n\nc\n\n## Decision\n\n## Consequences\n\nc\n",
		"docs/adr/0001-b.md": "# B\n\n## Status\n\nAccepted.\n\n## Context\n\nc\n\n## Decision\n\nd\n\n## Consequences\n\nc\n",
	}, []string{"0001-a.md: its status does not begin", "0001-a.md: it has no text under a heading \"## Decision\"", "0001-b.md: its number is that of 0001-a.md", "notes.md: a decision is called"}},

	{"modules", "a pin moved", map[string]string{"go.mod": strings.Replace(goMod, "v0.0.0-20221207173255-0f086d933dac", "v1.1.5", 1)}, []string{`github.com/cockroachdb/pebble is at "v1.1.5"`}},
	{"modules", "a replacement", map[string]string{"go.mod": goMod + "replace a => ../a\n"}, []string{"it replaces a module"}},
	{"modules", "as it should be", nil, nil},
}

func TestPlanted(t *testing.T) {
	caught := map[string]bool{}
	for _, p := range plants {
		t.Run(p.rule+"/"+strings.ReplaceAll(p.about, " ", "-"), func(t *testing.T) {
			i := slices.IndexFunc(Rules, func(r Rule) bool { return r.Name == p.rule })
			if i < 0 {
				t.Fatal("no such rule")
			}
			found := Rules[i].Check(plantTree(t, p.files))
			for n, f := range found {
				if n >= len(p.want) || !strings.Contains(f.String(), p.want[n]) {
					t.Errorf("found %s", f)
				}
			}
			if len(found) != len(p.want) {
				t.Errorf("%d findings, want %d: %q", len(found), len(p.want), p.want)
			}
			if len(p.want) > 0 {
				caught[p.rule] = true
			}
		})
	}
	for _, r := range Rules {
		if !caught[r.Name] {
			t.Errorf("rule %s has no planted case that it catches", r.Name)
		}
	}
}

func plantTree(t *testing.T, files map[string]string) *Tree {
	t.Helper()
	fsys := fstest.MapFS{"go.mod": {Data: []byte(goMod)}}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tree, err := NewTree(fsys, slices.Collect(maps.Keys(fsys)))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestLatticeText(t *testing.T) {
	for _, bad := range []string{"levels a", "level", "only a b -> c", "deny -> a", "tests a -> b"} {
		if _, err := parseLattice("level a\n" + bad); err == nil || !strings.Contains(err.Error(), "lattice.txt:2:") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	l, err := parseLattice(latticeText)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range slices.Concat(slices.Collect(maps.Keys(l.only)), slices.Collect(maps.Keys(l.deny)), l.pure, l.noFloat) {
		if _, ok := longest(l.levels, p); !ok {
			t.Errorf("%s has a rule and no level", p)
		}
	}
}
