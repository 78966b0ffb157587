package limits

import (
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestStopsCleanly stops a broker with SIGTERM while clients are connected: they are told, the exit code is 0, and everything is there at the next start.
func TestStopsCleanly(t *testing.T) {
	s := newStage(t, harness.Start(t, harness.Options{}))
	conn := s.broker.Connect(t)
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	ch := harness.Channel(t, conn)
	deliveries, err := ch.Consume("kept-classic", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range keptCount {
		harness.Receive(t, deliveries)
	}
	began := time.Now()
	s.broker.Terminate(t)
	t.Logf("stopped in %v", time.Since(began).Round(time.Millisecond))
	select {
	case err := <-closed:
		refusedBy(t, err, amqp.ConnectionForced, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'")
	case <-time.After(10 * time.Second):
		t.Error("the client was not told")
	}
	s.startsAgain(t)
}

// TestSecondSignalEndsAtOnce keeps a client that does not answer, so that a clean stop takes long.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	s := newStage(t, harness.Start(t, harness.Options{}))
	deaf, err := s.rawLogin()
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	p := s.broker.Process()
	began := time.Now()
	for range 2 {
		if err := p.Signal(syscall.SIGTERM); err != nil {
			break // it has ended already
		}
		time.Sleep(100 * time.Millisecond)
	}
	if _, err := p.Wait(5 * time.Second); err != nil {
		t.Errorf("two signals: %v", err)
	}
	t.Logf("ended after %v", time.Since(began).Round(time.Millisecond))
	s.startsAgain(t)
}
