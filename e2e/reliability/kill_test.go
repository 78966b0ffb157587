package reliability

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/totalqueue"
)

func TestMain(m *testing.M) { harness.Main(m) }

const (
	envKills     = "WARREN_E2E_KILLS"
	envSeed      = "WARREN_E2E_SEED"
	killsDefault = 20
	killsFull    = 200
	// slowStart is a start whose log is worth a look.
	slowStart = 3 * time.Second
	// serveTimeout is how long a restarted broker may take until every publisher has a confirm again.
	serveTimeout = 20 * time.Second
)

func number(t *testing.T, env string, otherwise uint64) uint64 {
	text := os.Getenv(env)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", env, err)
	}
	return n
}

// queuesOf are the queues of the load: both durable types, with consumers, without, and behind a fanout exchange.
var queuesOf = []struct{ name, kind string }{
	{"work-classic", harness.Classic}, {"work-quorum", harness.Quorum},
	{"fan-classic", harness.Classic}, {"fan-quorum", harness.Quorum},
	{"kept-classic", harness.Classic}, {"kept-quorum", harness.Quorum},
}

// stage is one broker under load and the account of it.
type stage struct {
	broker *harness.Broker
	ledger *totalqueue.Ledger
	load   *harness.Load
	rng    *rand.Rand
	// die ends the broker so that it can be started again.
	die func(t *testing.T)
}

func declareQueues(t *testing.T, b *harness.Broker) {
	t.Helper()
	ch := b.Channel(t)
	if err := ch.ExchangeDeclare("fan", amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	for _, q := range queuesOf {
		harness.Declare(t, ch, q.name, q.kind)
	}
	for _, q := range []string{"fan-classic", "fan-quorum"} {
		if err := ch.QueueBind(q, "", "fan", false, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// sources are publishers with small and large bodies, two of them for one queue.
func sources(l *totalqueue.Ledger) []harness.Source {
	source := func(name, exchange, key string, perSecond int, queues ...string) harness.Source {
		return harness.Source{Publisher: l.Publisher(name, queues...), Exchange: exchange, Key: key, Window: 200, PerSecond: perSecond, BodyBytes: 2000, BodyBytesMax: 300_000}
	}
	return []harness.Source{
		source("a", "", "work-classic", 800, "work-classic"),
		source("b", "", "work-classic", 800, "work-classic"),
		source("c", "", "work-quorum", 800, "work-quorum"),
		source("d", "fan", "any", 400, "fan-classic", "fan-quorum"),
		source("e", "", "kept-classic", 200, "kept-classic"),
		source("f", "", "kept-quorum", 200, "kept-quorum"),
	}
}

// sinks hold part of what they get, in several ways. The kept queues have no consumer until the end.
var sinks = []harness.Sink{
	{Queue: "work-classic", Prefetch: 100, Hold: 30},
	{Queue: "work-classic", Prefetch: 200, Hold: 50, Multiple: true},
	{Queue: "work-quorum", Prefetch: 100, Hold: 40, RequeueEvery: 101},
	{Queue: "work-quorum", Prefetch: 0, Hold: 60, Multiple: true},
	{Queue: "fan-classic", Prefetch: 1, RequeueEvery: 31},
	{Queue: "fan-quorum", Prefetch: 50, Hold: 49},
}

// killsWanted is how often the broker is to be killed.
func killsWanted(t *testing.T) int {
	t.Helper()
	if harness.Full() {
		return int(number(t, envKills, killsFull))
	}
	return int(number(t, envKills, killsDefault))
}

// newStage starts a broker and the load that made makes for its ledger.
func newStage(t *testing.T, patience time.Duration, made func(*totalqueue.Ledger) []harness.Source, sinks []harness.Sink) *stage {
	t.Helper()
	return newStageWith(t, harness.Options{Patience: patience}, made, sinks)
}

func newStageWith(t *testing.T, opts harness.Options, made func(*totalqueue.Ledger) []harness.Source, sinks []harness.Sink) *stage {
	t.Helper()
	seed := number(t, envSeed, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", envSeed, seed)
	s := &stage{ledger: totalqueue.New(), rng: rand.New(rand.NewPCG(seed, 1)), broker: harness.Start(t, opts)}
	s.die = func(*testing.T) { s.broker.Kill9() }
	declareQueues(t, s.broker)
	s.load = harness.StartLoad(t, s.broker, s.ledger, seed, made(s.ledger), sinks)
	return s
}

// kill ends the broker after a random time under load, starts it again, and waits until every publisher is served.
func (s *stage) kill(t *testing.T, n int, load time.Duration) {
	t.Helper()
	time.Sleep(time.Duration(s.rng.Int64N(int64(load))))
	s.die(t)
	started := s.broker.Launch(t)
	began := time.Now()
	if err := s.load.AwaitConfirms(serveTimeout); err != nil {
		t.Fatalf("after kill %d: %v", n, err)
	}
	if started > slowStart {
		t.Logf("a slow start:\n%s", s.broker.LogTail())
	}
	t.Logf("kill %d: AMQP after %v, all publishers served %v later", n, started.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

// run kills the broker as often as asked, ends the load, kills once more, and judges what is there.
func (s *stage) run(t *testing.T, kills int, load time.Duration) totalqueue.Verdict {
	t.Helper()
	if err := s.load.AwaitConfirms(serveTimeout); err != nil {
		t.Fatal(err)
	}
	for i := range kills {
		s.kill(t, i+1, load)
	}
	if err := s.load.StopPublishing(); err != nil {
		t.Error(err)
	}
	// The last death takes the consumers' unacknowledged messages along, and no publisher is there to hide anything.
	s.die(t)
	if err := s.load.Stop(); err != nil {
		t.Error(err)
	}
	s.broker.Launch(t)
	began := time.Now()
	for _, q := range queuesOf {
		harness.Drain(t, s.broker, s.ledger, q.name)
	}
	v := s.ledger.Verdict()
	t.Logf("%s (drained in %v)", v, time.Since(began).Round(time.Millisecond))
	if err := v.Err(); err != nil {
		t.Error(err)
	}
	return v
}

// patienceFor is how long a test with so many kills may take.
func patienceFor(kills int) time.Duration { return 2*time.Minute + time.Duration(kills)*10*time.Second }

// TestKillNineLosesNothing is the promise of a durable queue.
func TestKillNineLosesNothing(t *testing.T) {
	t.Parallel()
	kills := killsWanted(t)
	s := newStage(t, patienceFor(kills), sources, sinks)
	wantWorthwhile(t, s.run(t, kills, 1500*time.Millisecond))
}

// wantWorthwhile fails a run that tested too little to mean anything.
func wantWorthwhile(t *testing.T, v totalqueue.Verdict) {
	t.Helper()
	if v.Confirmed < 1000 || v.Redeliveries < 50 {
		t.Errorf("the run says little: %s", v)
	}
}

// TestUnackedComeBackFlagged holds messages unacknowledged over a kill, one queue of each type, nothing random about it.
func TestUnackedComeBackFlagged(t *testing.T) {
	b := harness.Start(t, harness.Options{})
	for _, kind := range []string{harness.Classic, harness.Quorum} {
		t.Run(kind, func(t *testing.T) { unackedComeBack(t, b, kind) })
	}
}

func unackedComeBack(t *testing.T, b *harness.Broker, kind string) {
	queue := "unacked-" + kind
	ch := b.Channel(t)
	harness.Declare(t, ch, queue, kind)
	var bodies [][]byte
	for i := range 20 {
		bodies = append(bodies, fmt.Appendf(nil, "message %d", i))
	}
	harness.PublishConfirmed(t, ch, "", queue, bodies...)
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range bodies {
		if d := harness.Receive(t, deliveries); d.Redelivered {
			t.Errorf("%s is redelivered at first", d.Body)
		}
	}
	// Every second one is acknowledged; the passive declare on the same channel comes back behind the acks.
	for tag := uint64(2); tag <= 20; tag += 2 {
		if err := ch.Ack(tag, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	b.Kill9()
	b.Launch(t)
	ch = b.Channel(t)
	for i := 0; i < 20; i += 2 {
		d, ok, err := ch.Get(queue, true)
		if err != nil || !ok {
			t.Fatalf("message %d did not come back: %v", i, err)
		}
		if string(d.Body) != string(bodies[i]) || !d.Redelivered {
			t.Errorf("got %s with redelivered=%t, want %s with redelivered=true", d.Body, d.Redelivered, bodies[i])
		}
	}
	if d, ok, err := ch.Get(queue, true); err != nil || ok {
		t.Errorf("an acknowledged message came back: %s (%v)", d.Body, err)
	}
}
