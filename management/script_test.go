package management

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/internal/script"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// TestScripts plays conversations with the API against a catalogue without Raft and a broker that only remembers. A line is a request or changes the world:
//
//	USER METHOD PATH [BODY]       USER - sends no login; the answer is status, headers that matter, body
//	from ADDRESS                  where the following requests come from
//	set VHOST QUEUE KEY=N...      the numbers of a queue's machine
//	totals KEY=N...               the broker's totals
//	connect NAME USER VHOST Q...  a connection with a channel 1, and a consumer of each queue
//	delayed VHOST EXCHANGE        an x-delayed-message exchange
//	sleeps VHOST NAME TIME SEQ    a delayed message in a queue or exchange, due so many seconds after the script began
//	exclusive VHOST QUEUE         a queue of some connection
//	wait SECONDS                  time passes
//	told                          what the broker was told since
//	join NAME                     another node comes into the cluster
//	on NODE                       the following lines are about node 1, 2...
//	declare VHOST QUEUE NODE...   a durable queue with replicas
//	home VHOST QUEUE NODE         a queue that is not durable
//	down NODE, up NODE            a node is not heard any more, or again
//	hang NODE, wake NODE          a node is heard and does not answer, or again
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				script.Run(t, path, f.block)
			})
		})
	}
}

// clusterVerb carries out a line that is about the nodes.
func (f *fixture) clusterVerb(verb string, words []string) bool {
	number := func(i int) meta.NodeID {
		n, err := strconv.Atoi(words[i])
		if err != nil {
			f.t.Fatal(err)
		}
		return meta.NodeID(n)
	}
	host := f.host
	switch verb {
	case "join":
		f.join(words[0])
	case "on":
		f.on = f.nodes[number(0)-1]
	case "declare":
		var replicas []meta.NodeID
		for i := 2; i < len(words); i++ {
			replicas = append(replicas, number(i))
		}
		f.declare(words[0], words[1], replicas...)
	case "home":
		home := host.hosts[number(2)]
		host.apply(meta.Command{Op: meta.OpDeclareQueue, Queue: meta.Queue{VHost: words[0], Name: words[1], Home: home.id, HomeBoot: home.Boot()}})
	case "down", "up":
		host.mark(host.down, number(0), verb == "down")
	case "hang", "wake":
		host.mark(host.hung, number(0), verb == "hang")
	default:
		return false
	}
	return true
}

func (root *fixture) block(block string) string {
	var out strings.Builder
	for line := range strings.Lines(block) {
		line = strings.TrimSpace(line)
		verb, rest, _ := strings.Cut(line, " ")
		words := strings.Fields(rest)
		if root.clusterVerb(verb, words) {
			continue
		}
		f := root.on
		switch verb {
		case "from":
			f.from = rest
		case "set":
			f.host.set(words[0], words[1], func(st *quorum.QueueStatus) { setCounts(f.t, st, words[2:]) })
		case "priorities":
			f.setPriorities(words)
		case "totals":
			f.setTotals(words)
		case "connect":
			f.connect(words)
		case "exclusive":
			q := meta.Queue{VHost: words[0], Name: words[1], Exclusive: true, Owner: meta.Owner{Node: 1, Boot: f.host.Boot(), Connection: 7}, Home: 1, HomeBoot: f.host.Boot()}
			f.host.apply(meta.Command{Op: meta.OpDeclareQueue, Queue: q})
		case "delayed":
			f.host.delayedExchange(words[0], words[1])
		case "sleeps":
			seconds, _ := strconv.Atoi(words[2])
			seq, _ := strconv.Atoi(words[3])
			due := time.Date(2000, 1, 1, 0, 0, seconds, 0, time.UTC).UnixMilli() // a bubble's time begins with that year
			f.host.sleeps(words[0], words[1], held(queue.Peeked{UntilMillis: due, Seq: queue.Seq(seq)}, "key", "body "+words[3]))
		case "wait":
			n, _ := strconv.Atoi(rest)
			time.Sleep(time.Duration(n)*time.Second + time.Millisecond)
			synctest.Wait()
		case "told":
			for _, s := range append(f.broker.closed, f.broker.published...) {
				fmt.Fprintln(&out, s)
			}
			f.broker.closed, f.broker.published = nil, nil
		default:
			f.request(&out, line)
		}
	}
	return out.String()
}

// request sends USER METHOD PATH [BODY].
func (f *fixture) request(out *strings.Builder, line string) {
	parts := strings.SplitN(line, " ", 4)
	if len(parts) < 3 {
		f.t.Fatalf("not a request: %s", line)
	}
	body := ""
	if len(parts) == 4 {
		body = parts[3]
	}
	w := f.do(parts[0], parts[1], parts[2], body)
	fmt.Fprintf(out, "%d", w.Code)
	for _, name := range [...]string{"Allow", "Location", "Www-Authenticate"} {
		if v := w.Header().Get(name); v != "" {
			fmt.Fprintf(out, " %s: %s", strings.ToLower(name), v)
		}
	}
	if w.Body.Len() > 0 {
		fmt.Fprintf(out, " %s", w.Body)
	}
	fmt.Fprintln(out)
	if ct := w.Header().Get("Content-Type"); w.Body.Len() > 0 && ct != "application/json" && strings.HasPrefix(parts[2], "/api/") {
		f.t.Fatalf("%s: content type %q", line, ct)
	}
}

func pair(t testing.TB, word string) (string, uint64) {
	name, text, _ := strings.Cut(word, "=")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", word, err)
	}
	return name, n
}

func setCounts(t testing.TB, st *quorum.QueueStatus, words []string) {
	c := &st.Counts
	for _, word := range words {
		if state, ok := strings.CutPrefix(word, "state="); ok {
			st.State = quorum.State(state)
			continue
		}
		if leader, ok := strings.CutPrefix(word, "leader="); ok {
			n, _ := strconv.Atoi(leader)
			st.Leader = meta.NodeID(n)
			continue
		}
		name, n := pair(t, word)
		switch name {
		case "ready":
			c.Ready, c.ReadyBytes = n, 10*n
		case "unacked":
			c.Unacked, c.UnackedBytes = n, 10*n
		case "delayed":
			c.Delayed = n
		case "persistent":
			c.Persistent, c.PersistentBytes = n, 10*n
		case "consumers":
			c.Consumers = n
		case "published":
			c.Enqueued = n
		case "delivered":
			c.Delivered = n
		case "got":
			c.Got = n
		case "acked":
			c.Acked = n
		case "duplicates":
			c.Duplicates = n
		case "rejected":
			c.Rejected = n
		case "timed-out":
			c.TimedOut = n
		case "term":
			st.Term = n
		case "applied":
			st.Applied = n
		case "memory":
			st.BodyBytesInMemory = int64(n)
		default:
			t.Fatalf("no number %s", name)
		}
	}
}

// setPriorities tells how many ready messages of each priority a queue has, from 0 on.
func (f *fixture) setPriorities(words []string) {
	q := f.host.Catalogue().View.Queue(words[0], words[1])
	var counts []uint64
	for _, word := range words[2:] {
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			f.t.Fatal(err)
		}
		counts = append(counts, n)
	}
	f.host.mu.Lock()
	defer f.host.mu.Unlock()
	f.host.priorities[q.ID] = counts
}

func (f *fixture) setTotals(words []string) {
	f.broker.mu.Lock()
	defer f.broker.mu.Unlock()
	for _, word := range words {
		name, n := pair(f.t, word)
		switch name {
		case "published":
			f.broker.totals.Published = n
		case "delivered":
			f.broker.totals.Delivered = n
		case "acked":
			f.broker.totals.Acked = n
		case "connections":
			f.broker.totals.ConnectionsOpened = n
		case "auth-attempts":
			f.broker.totals.AuthAttempts = n
		case "auth-failed":
			f.broker.totals.AuthFailed = n
		case "channels":
			f.broker.totals.ChannelsOpened = n
		default:
			f.t.Fatalf("no total %s", name)
		}
	}
}

func (f *fixture) connect(words []string) {
	f.broker.mu.Lock()
	defer f.broker.mu.Unlock()
	name, user, vhost := words[0], words[1], words[2]
	f.broker.connections = append(f.broker.connections, broker.Connection{
		Name: name, State: "running", User: user, VHost: vhost, Mechanism: "PLAIN", Channels: 1, ChannelMax: 2047, FrameMax: 131072, Heartbeat: time.Minute,
		ConnectedAt: time.Unix(1, 0), Properties: amqp.Table{{Key: "connection_name", Value: amqp.Longstr("mine")}}, Host: "127.0.0.1", Port: 5672, PeerHost: "127.0.0.2", PeerPort: 4000,
		ReceivedBytes: 100, SentBytes: 200, ReceivedFrames: 3,
	})
	f.broker.channels = append(f.broker.channels, broker.Channel{
		Connection: name, Number: 1, User: user, VHost: vhost, State: "running", PeerHost: "127.0.0.2", PeerPort: 4000, Consumers: len(words) - 3, PrefetchCount: 10,
		Counts: broker.ChannelCounts{Published: 5, Delivered: 4, Got: 2},
	})
	for i, q := range words[3:] {
		f.broker.consumers = append(f.broker.consumers, broker.Consumer{
			Tag: "tag" + strconv.Itoa(i), Queue: q, VHost: vhost, AckRequired: true, Active: true, Prefetch: 10, Connection: name, Number: 1, User: user, PeerHost: "127.0.0.2", PeerPort: 4000,
		})
	}
}
