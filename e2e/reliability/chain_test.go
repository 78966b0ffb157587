package reliability

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
)

// chainSize is how many messages go through the chain of queues, and how often the broker dies meanwhile.
func chainSize() (messages, kills int) {
	if harness.Full() {
		return 100_000, 20
	}
	return 4000, 2
}

// TestKillNineKeepsDeadLettersOnce: messages go from queue to queue as dead letters, by rejection and by expiration, while the broker dies at random moments. What was not
// confirmed is published again and known by its id. Each is in one place, once.
func TestKillNineKeepsDeadLettersOnce(t *testing.T) {
	messages, kills := chainSize()
	seed := number(t, envSeed, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", envSeed, seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	b := harness.Start(t, harness.Options{Patience: patienceFor(kills)})
	b.AwaitHTTP(t)
	began := time.Now()
	c := harness.StartChain(t, b, b.AMQPURL, messages, 0)
	for kill := range kills {
		// Somewhere in its part of the publishes, the last one when they have ended and letters are under way.
		at := messages
		if kill < kills-1 {
			at = messages*kill/kills + rng.IntN(messages/kills)
		}
		harness.Eventually(t, serveTimeout, func() error { return c.Reached(at) })
		time.Sleep(time.Duration(rng.IntN(50)) * time.Millisecond)
		b.Kill9()
		b.Launch(t)
	}
	b.AwaitHTTP(t)
	repeats := c.Finish(t, b)
	t.Logf("%d messages, %d repeated publishes were known, %d kills, %v", messages, repeats, kills, time.Since(began).Round(time.Millisecond))
}
