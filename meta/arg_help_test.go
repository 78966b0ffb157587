package meta

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestEveryArgumentIsExplained: a row without a sentence, or a sentence without a row.
func TestEveryArgumentIsExplained(t *testing.T) {
	known := map[string]bool{}
	for i := range argTable {
		a := &argTable[i]
		known[a.Name] = true
		if a.Help() == "" || len(a.Scopes()) == 0 {
			t.Errorf("%s is not explained in argHelp", a.Name)
		}
	}
	for name := range argHelp {
		if !known[name] {
			t.Errorf("argHelp explains %s, which is no argument", name)
		}
	}
}

// TestArgumentsReference: docs/arguments.md is written from the table.
func TestArgumentsReference(t *testing.T) {
	const file = "../docs/arguments.md"
	got := argumentsReference()
	if rewrite := flag.Lookup("rewrite"); rewrite != nil && rewrite.Value.String() == "true" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, err := os.ReadFile(file); err != nil || got != string(want) {
		t.Errorf("%s is not what the table says (%v); go test ./meta -run Reference -rewrite writes it anew", file, err)
	}
}

func argumentsReference() string {
	var b strings.Builder
	b.WriteString(`# Arguments and policy keys

Written from the table in meta/args.go by ` + "`go test ./meta -run Reference -rewrite`" + `; do not edit. ` + "`GET /api/arguments`" + ` answers the same.

Both types of queues take the same arguments. Where a policy sets the same as an argument, *merge* says which counts: the lower or higher of two numbers, the policy, or the argument. Operator policies may have
the keys marked with *. What is not served is checked, kept and shown, and has no effect in this version; what is ignored never has one.

| argument | policy key | of | values | merge | | meaning |
|---|---|---|---|---|---|---|
`)
	for i := range argTable {
		a := &argTable[i]
		key, merge := "", ""
		if a.PolicyKey != "" {
			key, merge = "`"+a.PolicyKey+"`", a.Merge.String()
		}
		if a.Operator {
			key += " *"
		}
		values := a.Kind.String()
		switch {
		case a.Kind == WordArg && len(a.Words) > 0:
			values = strings.Join(a.Choices(), ", ")
		case a.Kind == IntArg && a.Max < intMax:
			values += fmt.Sprintf(", %d to %d", a.Min, a.Max)
		case (a.Kind == IntArg || a.Kind == MillisArg) && a.Min > 0:
			values += fmt.Sprintf(", from %d", a.Min)
		}
		state := a.State()
		if state == "served" {
			state = ""
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s |\n", a.Name, key, strings.Join(a.Scopes(), ", "), values, merge, state, a.Help())
	}
	return b.String()
}
