package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/totalqueue"
)

// traffic is publishers and consumers on the nodes of a cluster, with an account of what they were promised and what they got. A client whose connection ends connects again, to its
// own node if that answers, else to the next one.
type traffic struct {
	cluster *harness.Cluster
	ledger  *totalqueue.Ledger
	trail   trail
	queues  []string
	rate    int

	publishers []*publisher
	consumers  []*consumer

	publishing, consuming     context.Context
	stopPublish, stopConsume  context.CancelFunc
	publishWork, consumesWork sync.WaitGroup
}

const (
	// rateDefault is how many messages a publisher sends per second, window how many of them may be unanswered.
	rateDefault = 200
	window      = 100
	bodyBytes   = 400
	// prefetch is a consumer's, hold how many messages it leaves unacknowledged.
	prefetch = 30
	hold     = 3
	// answerTimeout is how long a publish may stay without an answer.
	answerTimeout = 30 * time.Second
	// serveTimeout is how long everything may take to be served again when all is well.
	serveTimeout = 20 * time.Second
)

// newTraffic makes clients for queues that are there already: for each queue a publisher and a consumer on every node.
func newTraffic(t *testing.T, c *harness.Cluster, queues ...string) *traffic {
	t.Helper()
	tr := newQuiet(t, c, queues...)
	for _, n := range c.Nodes {
		for _, q := range queues {
			tr.publisher(n, q)
			tr.consumer(n, q)
		}
	}
	return tr
}

// newQuiet makes traffic without clients.
func newQuiet(t *testing.T, c *harness.Cluster, queues ...string) *traffic {
	t.Helper()
	tr := &traffic{cluster: c, ledger: totalqueue.New(), queues: queues, rate: rateDefault}
	tr.publishing, tr.stopPublish = context.WithCancel(context.Background())
	tr.consuming, tr.stopConsume = context.WithCancel(context.Background())
	t.Cleanup(func() {
		tr.stopPublish()
		tr.stopConsume()
		if t.Failed() {
			for _, cl := range tr.clients() {
				t.Log(cl.history())
			}
		}
	})
	return tr
}

func (tr *traffic) publisher(n *harness.Node, queue string) *publisher {
	name := fmt.Sprintf("%s-%s-%d", strings.TrimPrefix(n.Name, "rabbit@"), queue, len(tr.publishers))
	p := &publisher{client: client{name: "publisher " + name, home: n, traffic: tr}, queue: queue, account: tr.ledger.Publisher(name, queue)}
	tr.publishers = append(tr.publishers, p)
	tr.publishWork.Go(func() { p.repeat(tr.publishing, p.session) })
	return p
}

func (tr *traffic) consumer(n *harness.Node, queue string) *consumer {
	name := fmt.Sprintf("%s-%s-%d", strings.TrimPrefix(n.Name, "rabbit@"), queue, len(tr.consumers))
	k := &consumer{client: client{name: "consumer " + name, home: n, traffic: tr}, queue: queue}
	tr.consumers = append(tr.consumers, k)
	tr.consumesWork.Go(func() { k.repeat(tr.consuming, k.session) })
	return k
}

func (tr *traffic) clients() []*client {
	var list []*client
	for _, p := range tr.publishers {
		list = append(list, &p.client)
	}
	for _, k := range tr.consumers {
		list = append(list, &k.client)
	}
	return list
}

// mark begins a measurement: await and recovery count what happens from now on.
func (tr *traffic) mark() time.Time {
	now := time.Now()
	for _, p := range tr.publishers {
		p.mark(now)
	}
	for _, k := range tr.consumers {
		k.mark(now)
	}
	return now
}

// awaitPublishers waits until each of the publishers has the confirm of a message that it sent after the mark. It returns how long the last one took.
func awaitPublishers(began time.Time, timeout time.Duration, publishers []*publisher) (time.Duration, error) {
	var longest time.Duration
	for deadline := time.Now().Add(timeout); ; time.Sleep(2 * time.Millisecond) {
		waiting := ""
		longest = 0
		for _, p := range publishers {
			at := p.since()
			if at.IsZero() {
				waiting += " " + p.name
				continue
			}
			longest = max(longest, at.Sub(began))
		}
		if waiting == "" {
			return longest, nil
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("no confirm of a new message %v after the mark for%s", time.Since(began).Round(time.Millisecond), waiting)
		}
	}
}

// awaitConsumers waits until each of the consumers has got a message since the mark.
func awaitConsumers(began time.Time, timeout time.Duration, consumers []*consumer) (time.Duration, error) {
	var longest time.Duration
	for deadline := time.Now().Add(timeout); ; time.Sleep(2 * time.Millisecond) {
		waiting := ""
		longest = 0
		for _, k := range consumers {
			at := k.since()
			if at.IsZero() {
				waiting += " " + k.name
				continue
			}
			longest = max(longest, at.Sub(began))
		}
		if waiting == "" {
			return longest, nil
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("no delivery %v after the mark for%s", time.Since(began).Round(time.Millisecond), waiting)
		}
	}
}

// awaitAll waits until every publisher and every consumer is served, wherever it is connected.
func (tr *traffic) awaitAll(t *testing.T, timeout time.Duration) {
	t.Helper()
	began := tr.mark()
	if _, err := awaitPublishers(began, timeout, tr.publishers); err != nil {
		t.Fatal(err)
	}
	if _, err := awaitConsumers(began, timeout, tr.consumers); err != nil {
		t.Fatal(err)
	}
}

// comeHome has every client that is connected elsewhere go back to its own node, and waits until all are served.
func (tr *traffic) comeHome(t *testing.T) {
	t.Helper()
	harness.Eventually(t, serveTimeout, func() error {
		for _, cl := range tr.clients() {
			cl.comeHome()
			if at := cl.at(); at != cl.home {
				return fmt.Errorf("%s is not at home", cl.name)
			}
		}
		return nil
	})
	tr.awaitAll(t, serveTimeout)
}

// on returns the publishers and consumers that are connected to one of the nodes.
func (tr *traffic) on(nodes ...*harness.Node) (publishers []*publisher, consumers []*consumer) {
	for _, p := range tr.publishers {
		for _, n := range nodes {
			if p.at() == n {
				publishers = append(publishers, p)
			}
		}
	}
	for _, k := range tr.consumers {
		for _, n := range nodes {
			if k.at() == n {
				consumers = append(consumers, k)
			}
		}
	}
	return publishers, consumers
}

// ends counts how often a connection or consumer of these clients has ended.
func ends(publishers []*publisher, consumers []*consumer) int {
	n := 0
	for _, p := range publishers {
		n += p.endCount()
	}
	for _, k := range consumers {
		n += k.endCount()
	}
	return n
}

// finish ends the load, looks at the cluster at rest, empties the queues and judges.
func (tr *traffic) finish(t *testing.T) totalqueue.Verdict {
	t.Helper()
	tr.stopPublish()
	if !within(answerTimeout, &tr.publishWork) {
		t.Fatal("publishers do not end")
	}
	for _, p := range tr.publishers {
		if p.unanswered > 0 {
			t.Errorf("%s: %d publishes have no answer %v after the last of them", p.name, p.unanswered, answerTimeout)
		}
	}
	tr.atRest(t)
	tr.stopConsume()
	if !within(answerTimeout, &tr.consumesWork) {
		t.Fatal("consumers do not end")
	}
	for _, q := range tr.queues {
		harness.Drain(t, tr.cluster.Alive()[0].Broker, tr.ledger, q)
	}
	v := tr.ledger.Verdict()
	t.Log(v)
	if err := v.Err(); err != nil {
		t.Error(err)
		tr.trail.explain(t, err)
	}
	return v
}

func within(timeout time.Duration, work *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() {
		work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(timeout + 5*time.Second):
		return false
	}
}

// atRest waits until nothing moves, and wants every running node to tell the same: the messages that clients hold are those that the channels count and those that the queues count.
func (tr *traffic) atRest(t *testing.T) {
	t.Helper()
	harness.Eventually(t, serveTimeout, func() error {
		held, want := 0, map[string]int{}
		for _, k := range tr.consumers {
			want[k.queue] += k.heldCount()
			held += k.heldCount()
		}
		for _, n := range tr.cluster.Alive() {
			for _, q := range tr.queues {
				st, err := n.Queue(q)
				if err != nil {
					return err
				}
				if st.Unacked != want[q] || st.Ready != 0 {
					return fmt.Errorf("%s: queue %s has %d unacknowledged and %d ready messages; its consumers hold %d", n.Name, q, st.Unacked, st.Ready, want[q])
				}
			}
		}
		channels, err := tr.unackedOfChannels()
		if err != nil {
			return err
		}
		if channels != held {
			return fmt.Errorf("the channels of all nodes have %d unacknowledged messages, consumers hold %d", channels, held)
		}
		return nil
	})
}

// unackedOfChannels sums up what the nodes tell of their channels. A node may list those of the others, too.
func (tr *traffic) unackedOfChannels() (int, error) {
	seen := map[string]int{}
	for _, n := range tr.cluster.Alive() {
		var list []struct {
			Name    string `json:"name"`
			Unacked int    `json:"messages_unacknowledged"`
		}
		if err := n.TryGet(harness.Path("channels"), &list); err != nil {
			return 0, err
		}
		for _, ch := range list {
			seen[ch.Name] = ch.Unacked
		}
	}
	sum := 0
	for _, unacked := range seen {
		sum += unacked
	}
	return sum, nil
}
