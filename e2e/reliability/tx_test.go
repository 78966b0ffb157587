package reliability

import (
	"math/rand/v2"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

const (
	// txMessages is more than one batch takes.
	txMessages = 5000
	// txKills is how often the broker dies around a commit.
	txKills = 4
)

// TestKillNineHalvesNoTransaction: a transaction on one queue, larger than a batch, is there whole or not at all, at whatever moment of its commit the broker dies.
func TestKillNineHalvesNoTransaction(t *testing.T) {
	seed := number(t, envSeed, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", envSeed, seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	b := harness.Start(t, harness.Options{})
	harness.Declare(t, b.Channel(t), "tx", harness.Quorum)
	committed := 0       // messages of commits that were answered
	commitTx(t, b, "tx") // starts the queue
	took := commitTx(t, b, "tx")
	committed += 2 * txMessages
	t.Logf("a commit takes %v", took)
	for range txKills {
		conn, err := harness.Dial(b.AMQPURL())
		if err != nil {
			t.Fatal(err)
		}
		ch := stageTx(t, conn, "tx")
		answered := make(chan bool, 1)
		go func() { answered <- ch.TxCommit() == nil }()
		time.Sleep(time.Duration(rng.Int64N(int64(took))))
		b.Kill9()
		_ = conn.Close()
		if <-answered {
			committed += txMessages
		}
		b.Launch(t)
		n := b.Count(t, "tx")
		if n != committed && n != committed+txMessages {
			t.Fatalf("%d messages are there, want %d or %d more", n, committed, txMessages)
		}
		t.Logf("%d messages, %d of them told", n, committed)
		committed = n
	}
}

func commitTx(t *testing.T, b *harness.Broker, queue string) time.Duration {
	t.Helper()
	ch := stageTx(t, b.Connect(t), queue)
	began := time.Now()
	if err := ch.TxCommit(); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// stageTx publishes a transaction and does not commit it.
func stageTx(t *testing.T, conn *amqp.Connection, queue string) *amqp.Channel {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Tx(); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 500)
	for range txMessages {
		if err := ch.PublishWithContext(t.Context(), "", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	if err := ch.Qos(0, 0, false); err != nil { // the broker has all of it
		t.Fatal(err)
	}
	return ch
}
