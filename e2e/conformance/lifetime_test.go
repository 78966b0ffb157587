package conformance

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// expiresMillis is x-expires in these tests: long beside the pause between two uses on a busy machine. useFor is longer.
const (
	expiresMillis = 1000
	useFor        = 1800 * time.Millisecond
	usePause      = 20 * time.Millisecond
)

// there tells whether a queue exists. Looking is no use of it.
func (m *mortal) there(t *testing.T, queue string) bool {
	t.Helper()
	return m.broker.API(t, http.MethodGet, harness.Path("queues", "/", queue), nil).Status == http.StatusOK
}

// goes waits until a queue is gone. It fails if that is sooner than its time after its last use, by more than the clocks' grain.
func (m *mortal) goes(t *testing.T, queue string, used time.Time) {
	t.Helper()
	harness.Eventually(t, eventTimeout, func() error {
		if m.there(t, queue) {
			return fmt.Errorf("%s is still there", queue)
		}
		return nil
	})
	if unused := time.Since(used) + time.Millisecond; unused < expiresMillis*time.Millisecond {
		t.Errorf("it went after %v without use", unused)
	}
}

// TestQueueExpires: a queue with x-expires goes when it was not used for that long. To declare, get from and consume it is use; to publish to it is not.
func TestQueueExpires(t *testing.T) {
	harness.NeedProcess(t)
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	b.AwaitHTTP(t)
	m := &mortal{newPair(t, b), ""}
	args := amqp.Table{"x-expires": expiresMillis}
	kinds := []string{harness.Quorum, harness.Classic, transient}
	queues := map[string]string{}
	for _, use := range []string{"declare", "get", "consume", "publish"} {
		for _, m.kind = range kinds {
			queues[use+m.kind] = m.declare(t, use+m.kind, args)
		}
	}
	used := time.Now()
	for _, kind := range kinds {
		consume(t, m.ch, queues["consume"+kind], kind, true)
	}
	gone := m.publishUntilGone(t, queues["publish"+kinds[0]], queues["publish"+kinds[1]], queues["publish"+kinds[2]])
	for began := used; time.Since(began) < useFor; time.Sleep(usePause) {
		used = time.Now()
		for _, m.kind = range kinds {
			m.declare(t, "declare"+m.kind, args)
			_, _, err := m.ch.Get(queues["get"+m.kind], true)
			settled(t, err)
		}
	}
	settled(t, next(t, gone, "end of the queues that are published to"))
	for _, kind := range kinds {
		for _, use := range []string{"declare", "get", "consume"} {
			if !m.there(t, queues[use+kind]) {
				t.Errorf("a %s queue went while it was used: %s", kind, use)
			}
		}
		settled(t, m.ch.Cancel(kind, false))
	}
	for _, kind := range kinds {
		for _, use := range []string{"declare", "get", "consume"} {
			m.goes(t, queues[use+kind], used)
		}
	}
}

// publishUntilGone publishes to queues until a message to each came back because the queue is gone.
func (m *mortal) publishUntilGone(t *testing.T, queues ...string) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		returns := m.other.NotifyReturn(make(chan amqp.Return, 1000))
		gone := map[string]bool{}
		for began := time.Now(); len(gone) < len(queues); time.Sleep(usePause) {
			if time.Since(began) > eventTimeout {
				done <- fmt.Errorf("publishes keep queues: %v of %v went", gone, queues)
				return
			}
			for _, q := range queues {
				if err := m.other.PublishWithContext(t.Context(), "", q, true, false, amqp.Publishing{Body: []byte("x")}); err != nil {
					done <- err
					return
				}
			}
			for len(returns) > 0 {
				gone[(<-returns).RoutingKey] = true
			}
		}
		done <- nil
	}()
	return done
}

// TestQueueExpiresAfterRestart: the time without use counts anew when the broker comes back: clients must get the chance to come back, too. A queue that does not outlive its node goes with it.
func TestQueueExpiresAfterRestart(t *testing.T) {
	harness.NeedProcess(t)
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	m := &mortal{newPair(t, b), harness.Quorum}
	args := amqp.Table{"x-expires": expiresMillis}
	var queues []string
	for _, m.kind = range []string{harness.Quorum, harness.Classic, transient} {
		queues = append(queues, m.declare(t, m.kind, args))
	}
	time.Sleep(expiresMillis * 7 / 10 * time.Millisecond)
	b.Kill9()
	back := time.Now() // the time begins later than now
	b.Launch(t)
	b.AwaitHTTP(t)
	if m.there(t, queues[2]) {
		t.Error("a transient queue outlives its node")
	}
	for _, q := range queues[:2] {
		m.goes(t, q, back)
	}
}

// TestPrioritiesOutliveRestart (K09): strict priorities, capped at the queue's, in the log like all else; what has a time to live goes in time behind higher ones; what is returned comes first again.
func TestPrioritiesOutliveRestart(t *testing.T) {
	harness.NeedProcess(t)
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	kinds := []string{harness.Quorum, harness.Classic}
	m := &mortal{newPair(t, b), ""}
	settled(t, m.ch.Confirm(false))
	var queues []string
	for _, m.kind = range kinds {
		q := m.declare(t, m.kind, amqp.Table{"x-max-priority": 10})
		for i := range 3 {
			m.send(t, q, amqp.Publishing{Body: fmt.Appendf(nil, "low %d", i)})
		}
		queues = append(queues, q)
	}
	b.Kill9()
	b.Launch(t)
	m = &mortal{newPair(t, b), ""}
	settled(t, m.ch.Confirm(false))
	for _, q := range queues {
		m.send(t, q, amqp.Publishing{Priority: 9, Body: []byte("high")})
		m.send(t, q, amqp.Publishing{Priority: 200, Body: []byte("highest")})
		m.send(t, q, amqp.Publishing{Priority: 10, Body: []byte("second highest")})
		m.send(t, q, amqp.Publishing{Expiration: "300", Body: []byte("late")})
		m.holds(t, q, 6) // it goes while all that is higher stays
		low := "0"
		if q == queues[0] { // quorum queues give 4 to who asks for none
			low = "4"
		}
		m.hasPriorities(t, q, map[string]int{low: 3, "9": 1, "10": 2})
		settled(t, m.ch.Qos(1, 0, false))
		deliveries := consume(t, m.ch, q, q, false)
		for _, body := range []string{"highest", "second highest", "high", "high*", "low 0", "low 1", "low 2"} {
			d := receive(t, deliveries, body)[0]
			if body == "high" {
				settled(t, d.Nack(false, true))
				continue
			}
			settled(t, d.Ack(false))
		}
		quiet(t, m.ch, q, deliveries)
		settled(t, m.ch.Cancel(q, false))
		m.holds(t, q, 0)
	}
}
