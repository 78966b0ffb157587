package reliability

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
)

// pairs is how many transactions over queues there are, and how often the broker dies meanwhile.
func pairs() (many, kills int) {
	if harness.Full() {
		return 50_000, 40
	}
	return 3000, 4
}

// TestKillNineHalvesNoTransactionOverQueues (in full it goes on for some minutes: every kill waits for as many as some hundred commits): transactions that take from two queues and publish to two others, while the broker dies at random moments. Everything is in exactly one place, exactly once.
func TestKillNineHalvesNoTransactionOverQueues(t *testing.T) {
	t.Parallel()
	many, kills := pairs()
	seed := number(t, envSeed, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", envSeed, seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	b := harness.Start(t, harness.Options{Patience: patienceFor(kills)})
	p := harness.StartPairing(t, b, b.AMQPURL, many)
	for range kills {
		p.AwaitProgress(t, 1+rng.IntN(max(1, many/kills/2)))
		time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
		b.Kill9()
		b.Launch(t)
	}
	p.AwaitProgress(t, 1)
	answered := p.Committed()
	t.Logf("%d of %d transactions were carried out, %d of them answered, %d kills", p.Finish(t, b), many, answered, kills)
}
