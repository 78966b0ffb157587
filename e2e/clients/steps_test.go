package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/internal/tlsconf/tlstest"
)

// stepsTimeout is how long a program may take for all of its steps.
const stepsTimeout = 2 * time.Minute

// foreign is a client with a program that does what it is told, step by step, and prints "STEP ok" for each.
type foreign struct {
	name    string
	command func(t *testing.T) *exec.Cmd
	steps   []string
	// long are more steps, for those who have time.
	long []string
}

// common are the steps that every program has.
var common = []string{"connect", "tls", "declare", "confirm", "consume", "qos", "tx", "nack", "return", "reconnect"}

func script(tool, file string) func(*testing.T) *exec.Cmd {
	return func(t *testing.T) *exec.Cmd { return exec.Command(harness.Tool(t, tool), filepath.FromSlash(file)) }
}

func pythonScript(file string, modules ...string) func(*testing.T) *exec.Cmd {
	return func(t *testing.T) *exec.Cmd {
		return exec.Command(harness.Python(t, modules...), filepath.Join("python", file))
	}
}

func nodeScript(file string) func(*testing.T) *exec.Cmd {
	return func(t *testing.T) *exec.Cmd {
		node := harness.Tool(t, "node")
		if _, err := os.Stat("node/node_modules"); err != nil {
			harness.Missing(t, "the modules of e2e/clients/node are not installed (npm ci)")
		}
		return exec.Command(node, filepath.Join("node", file))
	}
}

var foreigners = []foreign{
	{"pika", pythonScript("pika_steps.py"), common, nil},
	{"kombu", pythonScript("kombu_steps.py", "kombu"), common, nil},
	{"celery", pythonScript("celery_steps.py", "celery"), []string{"results", "eta"}, []string{"retry", "revoke", "reconnect"}},
	{"amqplib", nodeScript("amqplib_steps.mjs"), common, nil},
	{"rabbitmq-client", nodeScript("rabbitmq_client_steps.mjs"), common, nil},
	{"bunny", script("ruby", "ruby/bunny_steps.rb"), common, nil},
	{"php-amqplib", script("php", "php/amqplib_steps.php"), common, nil},
}

// TestForeignClients has every client connect, with and without TLS, declare, publish with confirms, consume, limit what it is sent, use transactions, return
// messages, have messages returned, and go on after its connection was closed by force; on classic and quorum queues. They run side by side on one broker,
// which must survive them all.
func TestForeignClients(t *testing.T) {
	b, env := brokerWithTLS(t)
	pid := b.Pid()
	t.Run("amqp-tools", func(t *testing.T) { amqpToolsTLS(t, env) })
	t.Run("clients", func(t *testing.T) {
		for _, f := range foreigners {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				runSteps(t, f, env)
			})
		}
	})
	if !b.Running() || b.Pid() != pid {
		t.Error("the broker did not survive its clients")
	}
}

// brokerWithTLS starts a broker that also listens with TLS, and returns what programs are told of it.
func brokerWithTLS(t *testing.T) (b *harness.Broker, env []string) {
	t.Helper()
	harness.NeedProcess(t)
	authority := tlstest.NewAuthority(t, "authority")
	server := authority.Server("server")
	amqps, err := harness.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{
		"listeners.ssl.default = " + amqps, "ssl_options.certfile = " + server.CertFile, "ssl_options.keyfile = " + server.KeyFile,
		"ssl_options.cacertfile = " + authority.File,
	}
	file := filepath.Join(t.TempDir(), "warren.conf")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b = harness.Start(t, harness.Options{Args: []string{"--config", file}})
	b.AwaitHTTP(t)
	_, port, _ := strings.Cut(amqps, ":")
	return b, []string{
		"AMQP_URL=" + b.AMQPURL(), "AMQP_HTTP=" + b.HTTPURL(), "AMQPS_URL=amqps://guest:guest@localhost:" + port + "/", "AMQP_CA=" + authority.File,
		"PYTHONDONTWRITEBYTECODE=1",
	}
}

// amqpToolsTLS publishes and gets a message with TLS.
func amqpToolsTLS(t *testing.T, env []string) {
	const queue = "amqp-tools-tls"
	values := map[string]string{}
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = value
	}
	for _, c := range [][]string{{"amqp-declare-queue", "--queue=" + queue}, {"amqp-publish", "--routing-key=" + queue, "--body=over TLS"}, {"amqp-get", "--queue=" + queue}} {
		url := strings.TrimSuffix(values["AMQPS_URL"], "/") // to them a slash at the end names the virtual host ""
		cmd := exec.Command(harness.Tool(t, c[0]), append([]string{"--url=" + url, "--cacert=" + values["AMQP_CA"]}, c[1:]...)...)
		r, err := harness.Run(programTimeout, cmd)
		if err != nil || r.Code != 0 || c[0] == "amqp-get" && r.Stdout != "over TLS" {
			t.Fatalf("%q: %v, %v", c, err, r)
		}
	}
}

// runSteps runs a program and wants each of its steps done.
func runSteps(t *testing.T, f foreign, env []string) {
	t.Helper()
	steps := slices.Clone(f.steps)
	if harness.Full() {
		steps = append(steps, f.long...)
	}
	cmd := f.command(t)
	cmd.Args = append(cmd.Args, steps...)
	cmd.Env = append(os.Environ(), env...)
	r, err := harness.Run(stepsTimeout, cmd)
	var want strings.Builder
	for _, step := range steps {
		fmt.Fprintf(&want, "%s ok\n", step)
	}
	if err != nil || r.Code != 0 || r.Stdout != want.String() {
		t.Errorf("%v, code %d, printed\n%s\nand said\n%s", err, r.Code, r.Stdout, r.Stderr)
	}
}
