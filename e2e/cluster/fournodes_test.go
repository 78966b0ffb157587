package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestFourNodes has clients on nodes without a replica of their queue. The nodes that serve them are killed, and their own node gets a replica and loses it again under load.
func TestFourNodes(t *testing.T) {
	c := harness.StartCluster(t, 4, harness.ClusterOptions{Patience: pick(4*time.Minute, 15*time.Minute)})
	declare(t, c.Nodes[0])
	tr := newQuiet(t, c, classicQueue, quorumQueue)
	for _, q := range tr.queues {
		outside := without(t, c, q)
		t.Logf("%s has no replica of %s", outside.Name, q)
		useAll(t, outside, q)
		for _, n := range []*harness.Node{outside, others(c.Nodes, outside)[0]} {
			tr.publisher(n, q)
			tr.consumer(n, q)
		}
	}
	tr.awaitAll(t, serveTimeout)
	for i := range pick(2, 10) {
		queue := tr.queues[i%len(tr.queues)]
		killLeader(t, tr, queue, i+1)
		killFollower(t, tr, queue)
		if t.Failed() {
			return
		}
	}
	for _, q := range tr.queues {
		moveReplica(t, tr, q)
		if t.Failed() {
			return
		}
	}
	tr.finish(t)
}

// TestCountFromAfar asks a node that has had nothing to do with a queue how many messages are in it.
func TestCountFromAfar(t *testing.T) {
	c := harness.StartCluster(t, 3, harness.ClusterOptions{})
	ch := c.Nodes[0].Channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	const name = "afar"
	if _, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{amqp.QueueTypeArg: harness.Quorum, "x-quorum-initial-group-size": 1}); err != nil {
		t.Fatal(err)
	}
	harness.PublishConfirmed(t, ch, "", name, []byte("one"))
	for _, n := range c.Nodes {
		harness.Eventually(t, serveTimeout, func() error {
			st, err := n.Queue(name)
			if err == nil && st.Ready != 1 {
				err = fmt.Errorf("%s tells of %d messages by HTTP, want 1", n.Name, st.Ready)
			}
			return err
		})
		if count, err := n.TryCount(name); err != nil || count != 1 {
			t.Errorf("%s: a passive declare tells of %d messages, %v, want 1", n.Name, count, err)
		}
	}
}

// without returns the node that has no replica of a queue with three of them, once every node knows all of them.
func without(t *testing.T, c *harness.Cluster, queue string) *harness.Node {
	t.Helper()
	var outside *harness.Node
	harness.Eventually(t, serveTimeout, func() error {
		st, err := c.Nodes[0].Queue(queue)
		if err != nil {
			return err
		}
		if len(st.Members) != 3 || len(st.Online) != 3 {
			return fmt.Errorf("queue %s has replicas on %v, of which %v are online, want three of each", queue, st.Members, st.Online)
		}
		for _, n := range c.Nodes {
			if !slices.Contains(st.Members, n.Name) {
				outside = n
			}
		}
		return nil
	})
	return outside
}

// useAll does with a queue that has no messages what a client may, through one node.
func useAll(t *testing.T, n *harness.Node, queue string) {
	t.Helper()
	ch := n.Channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	harness.PublishConfirmed(t, ch, "", queue, []byte("first"), []byte("second"), []byte("third"))
	d := get(t, ch, queue, "first", false)
	if err := d.Nack(false, true); err != nil {
		t.Fatal(err)
	}
	d = get(t, ch, queue, "first", true)
	if err := d.Ack(false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "tag", false, true, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := harness.Receive(t, deliveries); string(got.Body) != "second" || got.Redelivered {
		t.Errorf("%s: an exclusive consumer got %q, redelivered=%t, want the second message, not redelivered", n.Name, got.Body, got.Redelivered)
	} else if err := got.Ack(false); err != nil {
		t.Fatal(err)
	}
	third := harness.Receive(t, deliveries)
	if string(third.Body) != "third" {
		t.Errorf("%s: an exclusive consumer got %q, want the third message", n.Name, third.Body)
	}
	if err := ch.Cancel("tag", false); err != nil {
		t.Fatal(err)
	}
	if err := third.Reject(true); err != nil {
		t.Fatal(err)
	}
	n.AwaitCount(t, queue, 1)
	purged, err := ch.QueuePurge(queue, false)
	if err != nil || purged != 1 {
		t.Errorf("%s: purge: %d messages, %v, want 1", n.Name, purged, err)
	}
	if _, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil); err != nil {
		t.Errorf("%s: passive declare: %v", n.Name, err)
	}
}

// get wants a message of the queue.
func get(t *testing.T, ch *amqp.Channel, queue, body string, redelivered bool) amqp.Delivery {
	t.Helper()
	d, ok, err := ch.Get(queue, false)
	if err != nil {
		t.Fatal(err)
	}
	if !ok || string(d.Body) != body || d.Redelivered != redelivered {
		t.Fatalf("get of %s: %q (found: %t), redelivered=%t, want %q, redelivered=%t", queue, d.Body, ok, d.Redelivered, body, redelivered)
	}
	return d
}

// killFollower kills a node that has a replica of queue and does not lead it: it may be the one that serves the node without a replica. Nobody else's clients notice more than a pause.
func killFollower(t *testing.T, tr *traffic, queue string) {
	t.Helper()
	leader := tr.cluster.Leader(t, queue)
	st, err := leader.Queue(queue)
	if err != nil {
		t.Fatal(err)
	}
	var follower *harness.Node
	for _, name := range st.Members {
		if name != leader.Name {
			follower = tr.cluster.Node(name)
		}
	}
	publishers, consumers := tr.on(others(tr.cluster.Nodes, follower)...)
	before := ends(publishers, consumers)
	began := time.Now()
	follower.Kill9()
	tr.mark() // what was sent before does not count
	pause, err := awaitPublishers(began, serveTimeout, publishers)
	if err != nil {
		t.Fatalf("kill of %s, which followed in %s: %v", follower.Name, queue, err)
	}
	if _, err := awaitConsumers(tr.mark(), serveTimeout, consumers); err != nil {
		t.Fatalf("kill of %s, which followed in %s: %v", follower.Name, queue, err)
	}
	if n := ends(publishers, consumers) - before; n > 0 {
		t.Errorf("kill of %s: %d connections or consumers on the surviving nodes ended", follower.Name, n)
	}
	t.Logf("kill of %s, which followed in %s: confirms after %v", follower.Name, queue, round(pause))
	if pause > confirmMax {
		t.Errorf("kill of %s, which followed in %s: a client of a surviving node waited %v for a confirm, want at most %v", follower.Name, queue, round(pause), confirmMax)
	}
	follower.Launch(t)
	tr.comeHome(t)
}

// moveReplica gives the node without a replica of queue one, kills the leader, and takes the replica away again. The clients of all nodes that live notice nothing.
func moveReplica(t *testing.T, tr *traffic, queue string) {
	t.Helper()
	outside := without(t, tr.cluster, queue)
	took, supported := changeReplicas(t, tr, outside, queue, http.MethodPost, "add")
	if !supported {
		t.Logf("this server does not add replicas by its management API: not tested")
		return
	}
	t.Logf("%s has a replica of %s after %v", outside.Name, queue, round(took))
	killLeader(t, tr, queue, 1)
	took, _ = changeReplicas(t, tr, outside, queue, http.MethodDelete, "delete")
	t.Logf("%s has no replica of %s any more after %v", outside.Name, queue, round(took))
}

// changeReplicas adds or removes the node's replica under load and waits until every node tells so. It is not supported where the server does not know the request.
func changeReplicas(t *testing.T, tr *traffic, n *harness.Node, queue, method, verb string) (took time.Duration, supported bool) {
	t.Helper()
	before, began := ends(tr.publishers, tr.consumers), time.Now()
	wanted := verb == "add"
	var a harness.Answer
	harness.Eventually(t, serveTimeout, func() error {
		a = n.API(t, method, harness.Path("queues", "quorum", "/", queue, "replicas", verb), map[string]string{"node": n.Name})
		if a.Status == http.StatusServiceUnavailable { // there is no leader now: nothing was changed
			return fmt.Errorf("%s replica of %s on %s: %d %s", verb, queue, n.Name, a.Status, a.Body)
		}
		return nil
	})
	switch a.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return 0, false
	case http.StatusNoContent, http.StatusAccepted:
	default:
		t.Fatalf("%s replica of %s on %s: %d %s", verb, queue, n.Name, a.Status, a.Body)
	}
	harness.Eventually(t, serveTimeout, func() error {
		for _, other := range tr.cluster.Alive() {
			st, err := other.Queue(queue)
			if err != nil {
				return err
			}
			if slices.Contains(st.Members, n.Name) != wanted || slices.Contains(st.Online, n.Name) != wanted {
				return fmt.Errorf("%s says that %s has replicas on %v, of which %v are online; want on %s: %t", other.Name, queue, st.Members, st.Online, n.Name, wanted)
			}
		}
		return nil
	})
	took = time.Since(began)
	tr.awaitAll(t, serveTimeout)
	if ended := ends(tr.publishers, tr.consumers) - before; ended > 0 {
		t.Errorf("%s replica of %s on %s: %d connections or consumers ended", verb, queue, n.Name, ended)
	}
	return took, true
}

// backlogBytes is the body of a message of the backlog.
const backlogBytes = 8 << 10

// backlogCount is enough, with backlogBytes, for a queue to make a checkpoint and cut its log.
func backlogCount() int { return pick(20_000, 100_000) }

// TestLaggingReplica gives a queue with a backlog another replica under load, and has one that was away for long catch up: both begin with a snapshot or a long log. Then the nodes
// that had everything all along are killed one after the other, so that what the new ones have is what clients get.
func TestLaggingReplica(t *testing.T) {
	c := harness.StartCluster(t, 4, harness.ClusterOptions{Patience: pick(4*time.Minute, 15*time.Minute)})
	declare(t, c.Nodes[0])
	tr := newQuiet(t, c, quorumQueue)
	outside := without(t, c, quorumQueue)
	useAll(t, outside, quorumQueue) // a queue that nobody used has no leader
	leader := c.Leader(t, quorumQueue)
	var late *harness.Node
	for _, n := range c.Nodes {
		if n != outside && n != leader {
			late = n
		}
	}
	late.Kill9()
	loadBacklog(t, leader, quorumQueue, tr)
	tr.publisher(outside, quorumQueue)
	tr.publisher(leader, quorumQueue)
	if _, err := awaitPublishers(tr.mark(), serveTimeout, tr.publishers); err != nil {
		t.Fatal(err)
	}
	late.Launch(t)
	tr.consumer(outside, quorumQueue)
	tr.consumer(leader, quorumQueue)
	tr.awaitAll(t, serveTimeout)
	if took, supported := changeReplicas(t, tr, outside, quorumQueue, http.MethodPost, "add"); supported {
		t.Logf("%s has a replica after %v", outside.Name, round(took))
	}
	harness.Eventually(t, serveTimeout, func() error { return caughtUp(t, c, quorumQueue) })
	for i := range 2 {
		killLeader(t, tr, quorumQueue, i+1)
		if t.Failed() {
			return
		}
	}
	harness.Eventually(t, pick(2*time.Minute, 5*time.Minute), func() error {
		st, err := leader.Queue(quorumQueue)
		if err == nil && st.Ready > 1000 {
			err = fmt.Errorf("%d messages are still ready", st.Ready)
		}
		return err
	})
	tr.finish(t)
}

// loadBacklog publishes messages that the account of the traffic knows.
func loadBacklog(t *testing.T, n *harness.Node, queue string, tr *traffic) {
	t.Helper()
	ch := n.Channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	account := tr.ledger.Publisher("backlog", queue)
	type asked struct {
		seq    uint64
		answer *amqp.DeferredConfirmation
	}
	var open []asked
	settle := func(left int) {
		for len(open) > left {
			ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
			ok, err := open[0].answer.WaitContext(ctx)
			cancel()
			if err != nil || !ok {
				t.Fatalf("message %d of the backlog: confirmed: %t, %v", open[0].seq, ok, err)
			}
			account.Confirmed(open[0].seq)
			open = open[1:]
		}
	}
	began := time.Now()
	for range backlogCount() {
		id, body := account.Next(backlogBytes)
		answer, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: id.String(), Body: body})
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, asked{id.Seq, answer})
		settle(5 * window)
	}
	settle(0)
	t.Logf("a backlog of %d messages in %v", backlogCount(), round(time.Since(began)))
}

// caughtUp tells whether all replicas of a queue have applied about the same, as they tell themselves.
func caughtUp(t *testing.T, c *harness.Cluster, queue string) error {
	var rows []struct {
		Node    string `json:"Node Name"`
		Applied any    `json:"Last Applied"`
		Cut     any    `json:"Snapshot Index"`
	}
	if err := c.Nodes[0].TryGet(harness.Path("queues", "quorum", "/", queue, "status"), &rows); err != nil {
		return err
	}
	low, high := 0.0, 0.0
	for i, r := range rows {
		applied, ok := r.Applied.(float64)
		if !ok {
			return fmt.Errorf("the replica on %s does not answer: %v", r.Node, rows)
		}
		if high = max(high, applied); i == 0 || applied < low {
			low = applied
		}
	}
	if len(rows) == 0 || high-low > 100 {
		return fmt.Errorf("the replicas of %s have not caught up: %v", queue, rows)
	}
	t.Logf("node, applied, checkpoint: %v", rows)
	return nil
}
