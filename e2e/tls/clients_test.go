package tls

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
)

// programTimeout is how long a client's program may take.
const programTimeout = 60 * time.Second

// pikaHello sends a message to itself over TLS.
const pikaHello = `
import os, ssl, pika
context = ssl.create_default_context(cafile=os.environ["CA"])
host, port = os.environ["AMQPS"].rsplit(":", 1)
connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port), ssl_options=pika.SSLOptions(context, "localhost")))
channel = connection.channel()
queue = channel.queue_declare("", exclusive=True).method.queue
channel.confirm_delivery()
channel.basic_publish("", queue, b"x" * 100000)
print(len(channel.basic_get(queue, auto_ack=True)[2]))
connection.close()
`

// TestForeignClients connect over TLS: pika, the tools of librabbitmq, amqpctl.
func TestForeignClients(t *testing.T) {
	t.Parallel()
	s := start(t, "ssl_options.verify = verify_peer", "auth_mechanisms.1 = PLAIN", "auth_mechanisms.2 = EXTERNAL", "ssl_cert_login_from = common_name")
	run := func(t *testing.T, code int, cmd *exec.Cmd) harness.Result {
		t.Helper()
		cmd.Env = append(os.Environ(), "CA="+s.authority.File, "AMQPS="+s.amqps)
		r, err := harness.Run(programTimeout, cmd)
		if err != nil || r.Code != code {
			t.Fatalf("%q: %v, code %d, want %d: %s%s", cmd.Args, err, r.Code, code, r.Stdout, r.Stderr)
		}
		return r
	}
	t.Run("pika", func(t *testing.T) {
		if r := run(t, 0, exec.Command(harness.Python(t), "-c", pikaHello)); strings.TrimSpace(r.Stdout) != "100000" {
			t.Errorf("printed %q", r.Stdout)
		}
	})
	t.Run("amqp-tools", func(t *testing.T) {
		s.broker.FreshQueue(t, "tools", harness.Classic)
		with := func(args ...string) []string {
			_, port, _ := strings.Cut(s.amqps, ":") // librabbitmq verifies names, not addresses
			return append([]string{"--url=amqps://guest:guest@localhost:" + port, "--cacert=" + s.authority.File}, args...)
		}
		run(t, 0, exec.Command(harness.Tool(t, "amqp-publish"), with("--routing-key=tools", "--body=over TLS")...))
		if r := run(t, 0, exec.Command(harness.Tool(t, "amqp-get"), with("--queue=tools")...)); r.Stdout != "over TLS" {
			t.Errorf("got %q", r.Stdout)
		}
	})
	t.Run("amqpctl", func(t *testing.T) {
		amqpctl, err := harness.ControlBinary()
		if err != nil {
			t.Fatal(err)
		}
		s.broker.FreshQueue(t, "ctl", harness.Classic)
		urls := []string{"--url", "https://guest:guest@" + s.https, "--amqp-url", "amqps://guest:guest@" + s.amqps + "/"}
		ctl := func(code int, args ...string) harness.Result {
			t.Helper()
			return run(t, code, exec.Command(amqpctl, append(append([]string{}, urls...), args...)...))
		}
		ctl(0, "--cacert", s.authority.File, "publish", "ctl", "-d", "hello")
		if r := ctl(0, "--cacert", s.authority.File, "queue", "ls", "-o", "name"); !strings.Contains(r.Stdout, "ctl") {
			t.Errorf("listed %q", r.Stdout)
		}
		ctl(0, "--insecure", "publish", "ctl", "-d", "hello")
		for _, command := range [][]string{{"publish", "ctl", "-d", "hello"}, {"queue", "ls"}} {
			if r := ctl(unavailable, command...); !strings.Contains(r.Stderr, "unknown authority; name the authority with --cacert") {
				t.Errorf("%q: %s", command, r.Stderr)
			}
			args := append([]string{"--cacert", s.authority.File, "--server-name", "elsewhere"}, command...)
			if r := ctl(unavailable, args...); !strings.Contains(r.Stderr, "not elsewhere; name the one that it has with --server-name") {
				t.Errorf("%q: %s", command, r.Stderr)
			}
		}
		// A certificate as login, and everything from the environment.
		guest := s.authority.Client("guest")
		cmd := exec.Command(amqpctl, "publish", "ctl", "-d", "hello")
		r, err := func() (harness.Result, error) {
			cmd.Env = append(os.Environ(), "AMQPCTL_CACERT="+s.authority.File, "AMQPCTL_CERT="+guest.CertFile, "AMQPCTL_CERT_KEY="+guest.KeyFile, "AMQPCTL_AMQP_URL=amqps://"+s.amqps+"/?auth_mechanism=external")
			return harness.Run(programTimeout, cmd)
		}()
		if err != nil || r.Code != 0 {
			t.Errorf("%v, %v", err, r)
		}
		s.broker.AwaitCount(t, "ctl", 3)
	})
}

// unavailable is amqpctl's exit code for a broker that cannot be talked to.
const unavailable = 69
