package clients

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestAmqpctlSeesWhatClientsDo holds the lists of living things, a look at messages that nobody notices, and the end of a connection by its name.
func TestAmqpctlSeesWhatClientsDo(t *testing.T) {
	b := harness.Start(t, harness.Options{})
	b.AwaitHTTP(t)
	path, err := harness.ControlBinary()
	if err != nil {
		t.Fatal(err)
	}
	amqpctl := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(path, append(args, "--quiet")...)
		cmd.Env = append(os.Environ(), "AMQPCTL_URL="+b.HTTPURL(), "AMQPCTL_AMQP_URL="+b.AMQPURL())
		r, err := harness.Run(programTimeout, cmd)
		if err != nil || r.Code != 0 {
			t.Fatalf("amqpctl %q: %v, %v", args, err, r)
		}
		return strings.TrimSuffix(r.Stdout, "\n")
	}
	const queue = "amqpctl-sees"
	harness.Declare(t, b.Channel(t), queue, harness.Quorum)
	harness.PublishConfirmed(t, b.Channel(t), "", queue, []byte("one"), []byte("two"), []byte("three"))
	conn := b.Connect(t)
	ch := harness.Channel(t, conn)
	if err := ch.Qos(2, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "tag", false, true, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	harness.Receive(t, deliveries)
	harness.Receive(t, deliveries)

	if got := amqpctl("consumer", "ls", "--columns", "queue.name,consumer_tag,prefetch_count", "-o", "csv", "--no-headers"); got != queue+",tag,2" {
		t.Errorf("consumers %q", got)
	}
	channels := amqpctl("channel", "ls", "--filter", "consumer_count=1", "--columns", "connection_details.name,prefetch_count", "-o", "csv", "--no-headers")
	name, prefetch, _ := strings.Cut(channels, ",")
	if prefetch != "2" && prefetch != "0" || name == "" { // the prefetch of the channel, or of its consumers only
		t.Errorf("channels %q", channels)
	}
	for state, want := range map[string]string{"ready": "three", "unacked": "one two"} {
		var bodies []string
		for line := range strings.Lines(amqpctl("queue", "peek", queue, "--state", state, "--no-headers")) {
			fields := strings.Fields(line)
			bodies = append(bodies, fields[len(fields)-1])
			if fields[3] != "false" && state == "ready" {
				t.Errorf("a look at a message marked it: %q", line)
			}
		}
		if got := strings.Join(bodies, " "); got != want {
			t.Errorf("%s messages %q, want %q", state, got, want)
		}
	}

	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	amqpctl("connection", "close", name, "--reason", "made way")
	if e := <-closed; e == nil || e.Code != amqp.ConnectionForced || !strings.Contains(e.Reason, "made way") {
		t.Errorf("the client was told %v", e)
	}
	b.AwaitCount(t, queue, 3)
	harness.Eventually(t, programTimeout, func() error {
		if got := amqpctl("connection", "ls", "-o", "name", "--filter", "name="+name); got != "" {
			return fmt.Errorf("the connection is still listed: %q", got)
		}
		return nil
	})
}
