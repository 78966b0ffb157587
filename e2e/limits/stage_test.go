package limits

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/rawamqp"
	"github.com/warrenmq/warren/e2e/harness/totalqueue"
)

func TestMain(m *testing.M) { harness.Main(m) }

// keptCount is how many messages lie in each kept queue while the broker is ill-treated.
const keptCount = 100

// keptQueues hold what must survive.
var keptQueues = []struct{ name, kind string }{{"kept-classic", harness.Classic}, {"kept-quorum", harness.Quorum}}

// stage is a broker with stored messages and the account of them.
type stage struct {
	broker *harness.Broker
	ledger *totalqueue.Ledger
	pid    int
}

// newStage fills a broker.
func newStage(t *testing.T, b *harness.Broker) *stage {
	t.Helper()
	s := &stage{broker: b, ledger: totalqueue.New(), pid: b.Pid()}
	for _, q := range keptQueues {
		b.FreshQueue(t, q.name, q.kind)
		p := s.ledger.Publisher("before-"+q.kind, q.name)
		var bodies [][]byte
		var ids []totalqueue.ID
		for i := range keptCount {
			id, body := p.Next(i * 50)
			ids, bodies = append(ids, id), append(bodies, body)
		}
		harness.PublishConfirmed(t, b.Channel(t), "", q.name, bodies...)
		for _, id := range ids {
			p.Confirmed(id.Seq)
		}
	}
	return s
}

// lives wants the same process, the stored messages, and service for another client.
func (s *stage) lives(t *testing.T) {
	t.Helper()
	if !s.broker.Running() || s.broker.Pid() != s.pid {
		t.Fatal("the broker died")
	}
	for _, q := range keptQueues {
		if n := s.broker.Count(t, q.name); n != keptCount {
			t.Errorf("queue %s has %d messages, want %d", q.name, n, keptCount)
		}
	}
	served(t, s.broker)
}

// served sends a message through a queue of its own.
func served(t *testing.T, b *harness.Broker) {
	t.Helper()
	conn := b.Connect(t)
	defer conn.Close()
	ch := harness.Channel(t, conn)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatalf("another client is not served: %v", err)
	}
	harness.PublishConfirmed(t, ch, "", q.Name, []byte("still here"))
	if d, ok, err := ch.Get(q.Name, true); err != nil || !ok || string(d.Body) != "still here" {
		t.Fatalf("another client is not served: %v, %t, %q", err, ok, d.Body)
	}
}

// drained empties the kept queues and judges.
func (s *stage) drained(t *testing.T) {
	t.Helper()
	for _, q := range keptQueues {
		harness.Drain(t, s.broker, s.ledger, q.name)
	}
	v := s.ledger.Verdict()
	if err := v.Err(); err != nil {
		t.Error(err)
	}
	if v.Confirmed != keptCount*len(keptQueues) {
		t.Errorf("the account is wrong: %s", v)
	}
}

// open opens a raw connection with a channel 1.
func (s *stage) open(t *testing.T, login rawamqp.Login) *rawamqp.Conn {
	t.Helper()
	c, err := rawamqp.Open(s.broker.AMQP, login)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.OpenChannel(1); err != nil {
		t.Fatal(err)
	}
	return c
}

// rawLogin opens a raw connection that nobody reads from.
func (s *stage) rawLogin() (*rawamqp.Conn, error) { return rawamqp.Open(s.broker.AMQP, rawamqp.Guest) }

// dial opens a raw socket.
func (s *stage) dial(t *testing.T) *rawamqp.Conn {
	t.Helper()
	c, err := rawamqp.Dial(s.broker.AMQP)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// refused wants a connection.close or channel.close with a code and a text that begins or continues as given.
func refused(t *testing.T, err error, channel, code uint16, text string) {
	t.Helper()
	var closed *rawamqp.CloseError
	if !errors.As(err, &closed) {
		t.Errorf("got %v, want %d %s", err, code, text)
		return
	}
	if closed.Channel != channel || closed.Code != code || !strings.HasPrefix(closed.Text, text) {
		t.Errorf("got %v, want channel %d closed: %d %s", err, channel, code, text)
	}
}

// refusedBy is refused for an error of amqp091-go.
func refusedBy(t *testing.T, err error, code int, text string) {
	t.Helper()
	var closed *amqp.Error
	if !errors.As(err, &closed) || closed.Code != code || !strings.HasPrefix(closed.Reason, text) {
		t.Errorf("got %v, want %d %s", err, code, text)
	}
}

// awaitRefusal reads until the broker closes something, and wants this.
func awaitRefusal(t *testing.T, c *rawamqp.Conn, channel, code uint16, text string) {
	t.Helper()
	closed, err := c.AwaitClose()
	if err != nil {
		t.Errorf("got %v, want %d %s", err, code, text)
		return
	}
	refused(t, closed, channel, code, text)
}

func noQueue(name string) string { return fmt.Sprintf("NOT_FOUND - no queue '%s' in vhost '/'", name) }
