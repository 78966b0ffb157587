package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/fakebroker"
)

// envMain makes the test binary be amqpctl, for shells to run.
const envMain = "AMQPCTL_TEST_IS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(envMain) != "" {
		main()
	}
	os.Exit(m.Run())
}

// namesOnly are the candidates without what they mean.
func namesOnly(out string) []string {
	var names []string
	for line := range strings.Lines(out) {
		name, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		names = append(names, name)
	}
	return names
}

func TestCompletionCandidates(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.lists = map[string]string{
		"/api/queues/%2F": `[{"name":"orders"},{"name":"other orders"},{"name":"ord:er"}]`, "/api/queues/v": `[{"name":"of v"}]`,
		"/api/vhosts": `[{"name":"/"},{"name":"v"}]`, "/api/nodes": `[{"name":"rabbit@one"}]`, "/api/exchanges/%2F": `[{"name":""},{"name":"events"}]`,
		"/api/users": `[{"name":"shop"}]`, "/api/policies/%2F": `[{"name":"limits"}]`, "/api/operator-policies/%2F": `[{"name":"bounds"}]`, "/api/connections": `[{"name":"1.2.3.4:5 -> 6.7.8.9:5672"}]`,
	}
	for _, c := range []struct{ line, want string }{
		{"amqpctl que", "[queue]"},
		{"amqpctl queue ge", "[get]"},
		{"amqpctl queue get or", "[orders ord:er]"},
		{"amqpctl -p v queue get ", "[of v]"},
		{"amqpctl queue get orders --vhost=v o", "[of v]"},
		{"amqpctl queue get -p ", "[/ v]"},
		{"amqpctl queue get --vhost=", "[--vhost=/ --vhost=v]"},
		{"amqpctl raft add orders ", "[rabbit@one]"},
		{"amqpctl queue peek orders x", "[]"},
		{"amqpctl queue ls -o ", "[table wide json jsonl csv name]"},
		{"amqpctl status -o j", "[json]"},
		{"amqpctl queue peek orders --state un", "[unacked]"},
		{"amqpctl queue declare x --type ", "[quorum classic]"},
		{"amqpctl exchange declare x --type=h", "[--type=headers]"},
		{"amqpctl consume orders --ack r", "[requeue]"},
		{"amqpctl consume --format ", "[body json raw]"},
		{"amqpctl binding add ", "[amq.default events]"},
		{"amqpctl binding add events o", "[orders other orders ord:er]"},
		{"amqpctl binding rm events orders --to ", "[queue exchange]"},
		{"amqpctl publish --exchange e", "[events]"},
		{"amqpctl user tags shop mon", "[monitoring]"},
		{"amqpctl permission set ", "[shop]"},
		{"amqpctl permission topic ", "[ls set rm]"},
		{"amqpctl permission topic set shop ", "[amq.default events]"},
		{"amqpctl policy ", "[ls set rm]"},
		{"amqpctl policy set ", "[limits]"},
		{"amqpctl policy set limits ^x max-length=5 --apply-to q", "[queues quorum_queues]"},
		{"amqpctl operator-policy rm ", "[bounds]"},
		{"amqpctl vhost limit set ", "[/ v]"},
		{"amqpctl vhost limit set v max-", "[max-connections max-queues]"},
		{"amqpctl user limit rm shop max-connections max-ch", "[max-channels]"},
		{"amqpctl connection close 1.2", "[1.2.3.4:5 -> 6.7.8.9:5672]"},
		{"amqpctl completion ", "[bash zsh fish]"},
		{"amqpctl queue peek orders --st", "[--state]"},
		{"amqpctl queue delete -- --fl", "[]"},
		{"amqpctl queue ls --watch --no-h", "[--no-headers]"},
		{"amqpctl nonsense ", "[]"},
		{"amqpctl queue get 'other o", "[other orders]"},
		{`amqpctl queue get other\ o`, "[other orders]"},
		{"amqpctl __", "[]"},
		{"amqpctl", "[]"},
	} {
		out, err, code := w.run("", "__complete", "--line", c.line)
		if got := fmt.Sprint(namesOnly(out)); code != exit.OK || err != "" || got != c.want {
			t.Errorf("%s|\ncode %d, %q, candidates %s\nwant %s", c.line, code, err, got, c.want)
		}
	}
	// What a candidate means stands behind it.
	if out, _, _ := w.run("", "__complete", "--", "queue", "pur"); out != "purge\tdrop the ready messages of queues and print how many there were\n" {
		t.Errorf("candidates %q", out)
	}
	// A broker that is away makes no noise.
	if out, err, code := w.run("", "__complete", "--", "--url=http://127.0.0.1:1", "queue", "get", ""); code != exit.OK || out+err != "" {
		t.Errorf("code %d, %q, %q", code, out, err)
	}
}

// shell runs a script in a shell that finds amqpctl on its path.
func (w *world) shell(shell string, script string) string {
	w.t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		w.t.Skipf("%s is not installed", shell)
	}
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	dir := w.t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", envMain, self)
	if err := os.WriteFile(filepath.Join(dir, "amqpctl"), []byte(wrapper), 0o755); err != nil {
		w.t.Fatal(err)
	}
	plain := map[string]string{"bash": "--norc", "zsh": "-f", "fish": "--no-config"}[shell]
	cmd := exec.Command(path, plain, "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "XDG_DATA_HOME="+dir, "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Errorf("%s: %v\n%s", shell, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// The scripts in the shells that they are for: commands, names with a space and a colon, and values behind = as each shell inserts them.
func TestShellsComplete(t *testing.T) {
	lists := map[string]string{"/api/queues/%2F": `[{"name":"orders"},{"name":"or ders:1"},{"name":"or:x"}]`}
	t.Run("bash", func(t *testing.T) {
		w := newWorld(t, fakebroker.Config{})
		w.lists = lists
		const ask = `source <(amqpctl completion bash)
ask() { COMP_LINE=$1; COMP_POINT=${#1}; _amqpctl; printf '[%s]' "${COMPREPLY[@]}"; echo; }
`
		got := w.shell("bash", ask+`ask 'amqpctl queue g'; ask 'amqpctl queue get or'; ask 'amqpctl queue get or:'; ask 'amqpctl queue peek x --state=u'; ask 'amqpctl queue get "or d'; complete -p amqpctl`)
		want := "[get]\n" + `[orders][or\ ders:1][or:x]` + "\n[x]\n[unacked]\n" + `[or\ ders:1]` + "\ncomplete -o default -F _amqpctl amqpctl"
		if got != want {
			t.Errorf("bash completes\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("zsh", func(t *testing.T) {
		w := newWorld(t, fakebroker.Config{})
		w.lists = lists
		// _describe belongs to zsh's line editor, which needs a terminal: here it prints what it is given.
		const ask = `compdef() { print "for $2: $1" }
_describe() { print -rn -- "[${(j:][:)${(P)3}}]"; print; return 0 }
source <(amqpctl completion zsh)
ask() { words=("$@"); CURRENT=$#words; _amqpctl }
`
		got := w.shell("zsh", ask+`ask amqpctl queue pu; ask amqpctl queue get or; ask amqpctl queue peek x --state=u; ask amqpctl queue get or\\\ d`)
		want := "for amqpctl: _amqpctl\n[purge:drop the ready messages of queues and print how many there were]\n" + `[orders:orders][or ders\:1:or ders:1][or\:x:or:x]` + "\n[--state=unacked:--state=unacked]\n" + `[or ders\:1:or ders:1]`
		if got != want {
			t.Errorf("zsh completes\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("fish", func(t *testing.T) {
		w := newWorld(t, fakebroker.Config{})
		w.lists = lists
		got := w.shell("fish", `amqpctl completion fish | source; complete -C 'amqpctl queue pu'; complete -C 'amqpctl queue get or'; complete -C 'amqpctl queue peek x --state=u'; complete -C 'amqpctl queue get "or d'`)
		want := "purge\tdrop the ready messages of queues and print how many there were\nor ders:1\nor:x\norders\n--state=unacked\nor ders:1"
		if got != want {
			t.Errorf("fish completes\n%s\nwant\n%s", got, want)
		}
	})
}

func TestCompletionScripts(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out, err, code := w.run("", "completion", shell); code != exit.OK || err != "" || !strings.Contains(out, "amqpctl __complete") {
			t.Errorf("%s: code %d, %q, %q", shell, code, out, err)
		}
	}
	w.want("completion tcsh", exit.Usage, "", "amqpctl: want one shell: bash, zsh or fish; see `amqpctl completion --help`\n")
}
