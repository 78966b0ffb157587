package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/fakebroker"
)

func TestClusterInitTLS(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	dir := filepath.Join(t.TempDir(), "tls")
	out, notices, code := w.run("", "cluster", "init-tls", "--dir", dir, "rabbit@one=10.0.0.1,one.example", "rabbit@two=::1")
	if code != exit.OK || notices != "made the authority "+filepath.Join(dir, "ca.pem")+"\n" {
		t.Fatalf("code %d, %q", code, notices)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 {
		t.Fatalf("the table is %q", out)
	}
	for i, node := range []string{"rabbit@one", "rabbit@two"} {
		cells := strings.Fields(lines[i+1])
		if want := []string{node, filepath.Join(dir, node+".pem"), filepath.Join(dir, node+".key"), filepath.Join(dir, "ca.pem")}; strings.Join(cells[:4], " ") != strings.Join(want, " ") {
			t.Errorf("line %d is %q", i+1, lines[i+1])
		}
		for _, file := range cells[1:4] {
			if _, err := os.Stat(file); err != nil {
				t.Error(err)
			}
		}
	}
	w.want("cluster init-tls --dir "+dir+" rabbit@one=10.0.0.1", exit.Data, "", "amqpctl: the certificate of rabbit@one: open "+filepath.Join(dir, "rabbit@one.key")+": file exists\n")
	if out, _, code := w.run("", "cluster", "init-tls", "--dir", dir, "--renew", "-o", "json", "rabbit@one=10.0.0.1"); code != exit.OK || !strings.Contains(out, `"node": "rabbit@one"`) {
		t.Errorf("renewed: code %d, %s", code, out)
	}
	for _, bad := range []string{"rabbit@one", "rabbit@one=", "=10.0.0.1", "a/b=host", "n=host:25672", "n=a,,b", "ca=host", "..=host"} {
		if _, text, code := w.run("", "cluster", "init-tls", "--dir", dir, bad); code != exit.Usage || !strings.Contains(text, "is not NODE=HOST") {
			t.Errorf("%q: code %d, %s", bad, code, text)
		}
	}
	w.want("cluster init-tls --dir "+dir+" --days 0 n=h", exit.Usage, "", "amqpctl: --days is 1 to 10000, not 0; see `amqpctl cluster init-tls --help`\n")
}
