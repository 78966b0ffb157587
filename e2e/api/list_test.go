package api

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/totalqueue"
)

const (
	// listP99Max is for the slowest of a hundred requests for a page of queues, on a machine that has nothing else to do.
	listP99Max = 100 * time.Millisecond
	// listRequests is how many are measured.
	listRequests = 300
	// listMessages is how many messages per second flow meanwhile, through listFlows queues.
	listMessages, listFlows = 5000, 10
)

// queueCount is how many queues there are.
func queueCount() int {
	if harness.Full() {
		return 10_000
	}
	return 1000
}

// loadAverage is the system's over the last minute; 0 where it does not tell.
func loadAverage() (load float64) {
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &load)
	}
	return load
}

// published is how many messages clients have published.
func published(t *testing.T, b *harness.Broker) int {
	t.Helper()
	var o struct {
		Stats struct{ Publish int } `json:"message_stats"`
	}
	b.Get(t, harness.Path("overview"), &o)
	return o.Stats.Publish
}

// declareMany declares durable queues, each with a message, and waits until each of them has it.
func declareMany(t *testing.T, b *harness.Broker, n int) {
	t.Helper()
	const clients = 8
	var wg sync.WaitGroup
	errs := make(chan error, clients)
	for client := range clients {
		ch := b.Channel(t)
		wg.Go(func() {
			for i := client; i < n; i += clients {
				name := fmt.Sprintf("many-%05d", i)
				if _, err := ch.QueueDeclare(name, true, false, false, false, nil); err != nil {
					errs <- err
					return
				}
				if err := ch.Publish("", name, false, false, amqp.Publishing{Body: []byte("x")}); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	if err := <-errs; err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 5*time.Minute, func() error { // all of them have started
		var o struct {
			Totals struct {
				Ready int `json:"messages_ready"`
			} `json:"queue_totals"`
		}
		if b.Get(t, harness.Path("overview"), &o); o.Totals.Ready < n {
			return fmt.Errorf("%d messages are ready, want %d", o.Totals.Ready, n)
		}
		return nil
	})
}

// TestListsOfManyQueues: pages of the list of ten thousand queues, each of which has a message, come quickly while thousands of messages per second flow, and see the numbers move.
func TestListsOfManyQueues(t *testing.T) {
	harness.NeedProcess(t)
	b := harness.Start(t, harness.Options{Patience: 15 * time.Minute})
	before := loadAverage()
	began := time.Now()
	declareMany(t, b, queueCount())
	t.Logf("%d queues with a message each after %v", queueCount(), time.Since(began))
	ledger := totalqueue.New()
	var sources []harness.Source
	var sinks []harness.Sink
	for i := range listFlows {
		name := fmt.Sprintf("flow-%d", i)
		b.FreshQueue(t, name, harness.Classic)
		sources = append(sources, harness.Source{
			Publisher: ledger.Publisher(name, name), Key: name, Window: 200, PerSecond: listMessages / listFlows, BodyBytes: 100, BodyBytesMax: 1000,
		})
		sinks = append(sinks, harness.Sink{Queue: name, Prefetch: 200, Multiple: true})
	}
	load := harness.StartLoad(t, b, ledger, 1, sources, sinks)
	for _, path := range []string{
		"/api/queues?page=1&page_size=100&sort=messages_ready&sort_reverse=true",
		"/api/queues?page=1&page_size=100&name=many-00&sort=message_stats.publish_details.rate",
		"/api/queues?page=3&page_size=100",
	} {
		first := published(t, b)
		start := time.Now()
		times := make([]time.Duration, 0, listRequests)
		for range listRequests {
			began := time.Now()
			if a := b.API(t, http.MethodGet, path, nil); a.Status != http.StatusOK {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			times = append(times, time.Since(began))
			time.Sleep(10 * time.Millisecond)
		}
		rate := float64(published(t, b)-first) / time.Since(start).Seconds()
		slices.Sort(times)
		p50, p99 := times[len(times)/2], times[len(times)*99/100]
		t.Logf("%s: median %v, p99 %v, max %v beside %.0f messages/s", path, p50, p99, times[len(times)-1], rate)
		limit := listP99Max
		if before > float64(runtime.NumCPU())/2 {
			limit *= 10 // others use the machine
		}
		if p99 > limit {
			t.Errorf("%s: p99 is %v, want less than %v", path, p99, limit)
		}
	}
	if err := load.Stop(); err != nil {
		t.Fatal(err)
	}
}
