package cluster

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

const (
	// declareMedianMax is for half of the declares with a confirmed publish, declareLoadedMax the same on a machine that has other work.
	declareMedianMax = 50 * time.Millisecond
	declareLoadedMax = 150 * time.Millisecond
	// manyServeMax is how long it may take until all queues serve again whose leaders died at once.
	manyServeMax = 5 * time.Second
	// overload is the load average per core from which on times say nothing about the broker, overloadFactor what they may be more.
	overload       = 4
	overloadFactor = 3
)

// loadAverage is the system's over the last minute; negative where it does not tell.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return -1
	}
	load := -1.0
	if _, err := fmt.Sscan(string(text), &load); err != nil {
		return -1
	}
	return load
}

// TestDeclareAndPublish measures how long a client waits for a new replicated queue and the first message in it.
func TestDeclareAndPublish(t *testing.T) {
	load := loadAverage()
	limit := declareMedianMax
	if load < 0 || load > float64(runtime.NumCPU())/2 {
		limit = declareLoadedMax
	}
	c := harness.StartCluster(t, 3, harness.ClusterOptions{})
	ch := c.Nodes[0].Channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	var both, declares []time.Duration
	for i := range 200 {
		name := fmt.Sprintf("new-%d", i)
		began := time.Now()
		declareReplicated(t, ch, name, harness.Quorum)
		declares = append(declares, time.Since(began))
		harness.PublishConfirmed(t, ch, "", name, []byte("first"))
		both = append(both, time.Since(began))
	}
	for _, name := range []string{"new-0", "new-199"} {
		st, err := c.Nodes[0].Queue(name)
		if err != nil || len(st.Members) != 3 {
			t.Errorf("queue %s has replicas on %v, want three: %v", name, st.Members, err)
		}
	}
	slices.Sort(both)
	slices.Sort(declares)
	median := both[len(both)/2]
	t.Logf("declare and first confirm: median %v, 9 of 10 within %v, longest %v; declare alone: median %v; load average %.1f before and %.1f after, on %d cores", median, both[len(both)*9/10],
		both[len(both)-1], declares[len(declares)/2], load, loadAverage(), runtime.NumCPU())
	if median > limit {
		t.Errorf("the median of declare and first confirm is %v, want at most %v", median, limit)
	}
}

// TestManyLeadersDie kills the node that leads most of many queues. Each of them takes messages again, and has the one that was confirmed before.
func TestManyLeadersDie(t *testing.T) {
	c := harness.StartCluster(t, 3, harness.ClusterOptions{Patience: pick(4*time.Minute, 15*time.Minute)})
	var names []string
	for i := range pick(100, 1000) {
		names = append(names, fmt.Sprintf("many-%d", i))
	}
	began := time.Now()
	var work sync.WaitGroup
	for i, n := range c.Nodes {
		ch := n.Channel(t)
		work.Go(func() {
			for k := i; k < len(names) && !t.Failed(); k += len(c.Nodes) {
				if err := declareAndFill(ch, names[k]); err != nil {
					t.Errorf("%s: %v", names[k], err)
				}
			}
		})
	}
	work.Wait()
	if t.Failed() {
		return
	}
	t.Logf("%d queues, each with a message, in %v", len(names), round(time.Since(began)))
	leader, led := leadsMost(t, c)
	survivor := others(c.Nodes, leader)[0]
	ch := survivor.Channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	leader.Kill9()
	killed := time.Now()
	retries := publishToAll(t, ch, names, killed)
	took := time.Since(killed)
	t.Logf("%s is dead, which led %d of %d queues: a publish to each of them is confirmed after %v (%d were refused first); load average %.1f on %d cores", leader.Name, led, len(names),
		round(took), retries, loadAverage(), runtime.NumCPU())
	limit := manyServeMax
	if loadAverage() > overload*float64(runtime.NumCPU()) {
		limit *= overloadFactor
	}
	if took > limit {
		t.Errorf("it took %v until all queues served again, want at most %v", round(took), limit)
	}
	for _, name := range names {
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if q.Messages < 2 || retries == 0 && q.Messages > 2 {
			t.Errorf("queue %s has %d messages, want the one from before the kill and the one from after it", name, q.Messages)
		}
	}
}

func declareAndFill(ch *amqp.Channel, name string) error {
	if _, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{amqp.QueueTypeArg: harness.Quorum}); err != nil {
		return err
	}
	return harness.TryPublishConfirmed(ch, "", name, []byte("before"))
}

// leadsMost returns the node that leads most queues, and how many.
func leadsMost(t *testing.T, c *harness.Cluster) (*harness.Node, int) {
	t.Helper()
	var list []harness.QueueState
	c.Nodes[0].Get(t, harness.Path("queues")+"?disable_stats=false", &list)
	counts := map[string]int{}
	for _, q := range list {
		counts[q.Leader]++
	}
	best := c.Nodes[0]
	for _, n := range c.Nodes {
		if counts[n.Name] > counts[best.Name] {
			best = n
		}
	}
	if counts[best.Name] == 0 {
		t.Fatalf("no node leads any queue: %v", counts)
	}
	t.Logf("leaders of the queues: %v", counts)
	return best, counts[best.Name]
}

// publishToAll publishes to every queue until that is confirmed, and returns how many publishes were refused.
func publishToAll(t *testing.T, ch *amqp.Channel, names []string, began time.Time) (refused int) {
	t.Helper()
	ctx, cancel := context.WithDeadline(context.Background(), began.Add(time.Minute))
	defer cancel()
	for rest := names; len(rest) > 0; {
		var answers []*amqp.DeferredConfirmation
		for _, name := range rest {
			msg := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("after")}
			answer, err := ch.PublishWithDeferredConfirm("", name, false, false, msg)
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, answer)
		}
		var again []string
		for i, answer := range answers {
			ok, err := answer.WaitContext(ctx)
			if err != nil {
				t.Fatalf("queue %s has not answered %v after the kill: %v", rest[i], round(time.Since(began)), err)
			}
			if !ok {
				again = append(again, rest[i])
			}
		}
		refused += len(again)
		rest = again
	}
	return refused
}
