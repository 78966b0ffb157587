package clients

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
)

const (
	// amqp091 is the module whose own integration tests run; their HTTP API is always at amqp091HTTP.
	amqp091     = "github.com/rabbitmq/amqp091-go"
	amqp091HTTP = "127.0.0.1:15672"
	// amqp091Slow are the tests of more than a second: those that close connections over the HTTP API, and some that need no broker.
	amqp091Slow = "TestConnectionRecovery|Issue136|GH296|DropsNotificationOnFullListener|ForAllSizes|OnClosedChannel"
	// amqp091Refusals is the test that wants immediate to be refused, which Warren serves (docs/compat.md).
	amqp091Refusals = "TestIntegrationPublishImmediate"
	// amqp091Timeout is how long all of them may take: those of recovery wait for seconds.
	amqp091Timeout = 15 * time.Minute
)

var amqp091Result = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (\S+)`)

// TestAMQP091 runs the integration tests that amqp091-go has of its own, from where the module lies. RabbitMQ passes them all; Warren all but one.
func TestAMQP091(t *testing.T) {
	opts := harness.Options{Patience: amqp091Timeout}
	args := []string{"test", "-tags", "integration", "-count=1", "-v", "-timeout", amqp091Timeout.String()}
	skip := amqp091Refusals
	if harness.Full() && free(amqp091HTTP) {
		opts.Args = []string{"--http", amqp091HTTP}
	} else {
		skip += "|" + amqp091Slow
		t.Logf("left out: %s, which take long and need the HTTP API at %s", amqp091Slow, amqp091HTTP)
	}
	args = append(args, "-skip", skip)
	b := harness.Start(t, opts)
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", amqp091).Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Dir = strings.TrimSpace(string(dir))
	cmd.Env = append(os.Environ(), "AMQP_URL="+b.AMQPURL(), "GOFLAGS=-mod=readonly")
	r, err := harness.Run(amqp091Timeout, cmd)
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for lines := bufio.NewScanner(strings.NewReader(r.Stdout)); lines.Scan(); {
		found := amqp091Result.FindStringSubmatch(lines.Text())
		switch {
		case found == nil:
		case found[1] == "PASS":
			passed++
		case found[1] == "FAIL":
			t.Errorf("%s failed", found[2])
		}
	}
	if passed < amqp091TestsMin || r.Code != 0 {
		t.Errorf("%d tests passed, exit code %d\n%s\n%s", passed, r.Code, r.Stdout, r.Stderr)
	}
}

// amqp091TestsMin is how many tests there are at least: fewer means that they did not run.
const amqp091TestsMin = 200

// free tells whether nobody listens at an address.
func free(address string) bool {
	l, err := net.Listen("tcp", address)
	if err == nil {
		l.Close()
	}
	return err == nil
}
