package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestTableRows(t *testing.T) {
	names, envs, flags := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, k := range Keys() {
		if names[k.Name] || envs[k.EnvName()] || k.ShortFlag != "" && flags[k.ShortFlag] {
			t.Errorf("%s: its name, variable %s or flag %q is taken", k.Name, k.EnvName(), k.ShortFlag)
		}
		names[k.Name], envs[k.EnvName()], flags[k.ShortFlag] = true, true, true
		if !isKey(k.Name) || k.apply == nil || k.Type.String() == "unknown" || !strings.HasSuffix(k.Doc, ".") {
			t.Errorf("%s: a row needs a name that a file can hold, a type, a sentence and apply: %+v", k.Name, k)
		}
		if k.Default != "" {
			if _, p := k.parse(k.Default); p != nil {
				t.Errorf("%s: default %q: %v", k.Name, k.Default, p)
			}
		}
		if k.Type == Duration && k.Unit == 0 {
			t.Errorf("%s: a duration needs the unit of a plain number", k.Name)
		}
		if k.PartOf != "" && !names[k.PartOf] {
			t.Errorf("%s is part of %s, which does not stand before it", k.Name, k.PartOf)
		}
	}
}

// The flags of `warren server` are fixed.
func TestShortFlags(t *testing.T) {
	want := map[string]string{
		"data-dir": "data_dir", "amqp": "listeners.tcp.default", "http": "management.listen", "metrics": "prometheus.listen", "cluster": "cluster.listen",
		"cluster-advertise": "cluster.advertise", "name": "node.name", "join": "cluster.join", "cluster-secret": "cluster.secret", "cluster-secret-file": "cluster.secret_file",
		"amqps": "listeners.ssl.default", "https": "management.ssl.listen",
	}
	for _, k := range Keys() {
		if k.ShortFlag != "" && want[k.ShortFlag] != k.Name {
			t.Errorf("--%s sets %s, want %q", k.ShortFlag, k.Name, want[k.ShortFlag])
		}
		delete(want, k.ShortFlag)
	}
	if len(want) > 0 {
		t.Errorf("missing flags: %v", want)
	}
}

func TestForeignKeysAreNotInTheTable(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range foreigners {
		if _, _, known := find(f.name); known || seen[f.name] || f.reason == "" || f.refuse && f.only != "" {
			t.Errorf("%s: it is in the table, listed twice, without a reason, or both refused and allowed", f.name)
		}
		seen[f.name] = true
	}
}

// docs/configuration.md is written from the table.
func TestReference(t *testing.T) {
	golden(t, "../docs/configuration.md", reference())
}

func reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	b.WriteString("| key | flag | type | default | reload | meaning |\n|---|---|---|---|---|---|\n")
	for _, k := range Keys() {
		kind := k.Type.String()
		if len(k.Choices) > 0 {
			kind += ": " + strings.Join(k.Choices, ", ")
		}
		if k.Max != 0 {
			kind += ", " + k.rangeText()
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", k.Name, code("--", k.ShortFlag), kind, code("", k.Default), map[bool]string{true: "yes", false: "no"}[k.Reloadable], k.Doc)
	}
	b.WriteString("\n## Keys of RabbitMQ that are read and ignored\n\nThe broker reports each at its start.\n\n| key | reason |\n|---|---|\n")
	for _, f := range foreigners {
		if !f.refuse && f.only == "" {
			fmt.Fprintf(&b, "| `%s` | %s |\n", shown(f.name), f.reason)
		}
	}
	b.WriteString("\n## Keys of RabbitMQ with one possible value\n\nAnother value is an error.\n\n| key | value | reason |\n|---|---|---|\n")
	for _, f := range foreigners {
		if f.only != "" {
			fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", f.name, f.only, f.reason)
		}
	}
	b.WriteString("\n## Keys of RabbitMQ that are refused\n\nTo ignore them would break what the file promises, so they are errors.\n\n| key | reason |\n|---|---|\n")
	for _, f := range foreigners {
		if f.refuse {
			fmt.Fprintf(&b, "| `%s` | %s |\n", shown(f.name), f.reason)
		}
	}
	return b.String()
}

func (k *Key) rangeText() string {
	switch k.Type {
	case Bytes:
		return formatBytes(k.Min, 10) + " to " + formatBytes(k.Max, 10)
	case Duration:
		return formatMillis(k.Min, 10) + " to " + formatMillis(k.Max, 10)
	}
	return fmt.Sprintf("%d to %d", k.Min, k.Max)
}

func code(before, s string) string {
	if s == "" {
		return ""
	}
	return "`" + before + s + "`"
}

func shown(name string) string {
	if strings.HasSuffix(name, ".") {
		return name + "*"
	}
	return name
}

const referenceHead = `# Configuration

Written from the table in config/table.go by ` + "`go test ./config -rewrite`" + `; do not edit.

` + "`warren server`" + ` takes its settings from, lowest precedence first: the defaults below; the file given with ` + "`--config`" + `; environment
variables named ` + "`WARREN_`" + ` and the key in upper case with ` + "`_`" + ` for ` + "`.`" + ` (` + "`max_message_size`" + ` is ` + "`WARREN_MAX_MESSAGE_SIZE`" + `); and on the command line
` + "`--set key=value`" + ` and the flags below. An empty variable counts as not set. An unknown key is an error that names the nearest one.

The file has the syntax of rabbitmq.conf: one ` + "`key = value`" + ` a line, ` + "`#`" + ` begins a comment, a value with a ` + "`#`" + ` or with blanks at its ends goes into single
quotes, the last of repeated keys wins. Sizes may have a unit (k, KiB, M, MiB, G, GiB of 1024; kB, MB, GB of 1000), durations too (ms, s, m, h, d).
Addresses are HOST:PORT, [IPv6]:PORT, or :PORT for every address, IPv4 and IPv6. In a key, $name stands for any name.

Mistakes end the process with one line on standard error: exit code 64 for the command line, 65 for the file and the environment.

`
