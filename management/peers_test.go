package management

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum"
)

// fill gives every field of a struct a value of its own that is not zero.
func fill(v reflect.Value, n *uint64) {
	*n++
	switch v.Interface().(type) {
	case amqp.Table:
		v.Set(reflect.ValueOf(amqp.Table{{Key: fmt.Sprint("k", *n), Value: amqp.Int64(int64(*n))}}))
		return
	case time.Time:
		v.Set(reflect.ValueOf(time.UnixMilli(int64(*n))))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(*n)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	default:
		panic("no value for " + v.Type().String())
	}
}

// travel packs a value, all of whose fields are filled, and unpacks it.
func travel[T any](t *testing.T, name string, each func(*pack, *T), value *T) {
	t.Helper()
	out := &pack{}
	before := fmt.Sprintf("%+v", *value)
	if each(out, value); fmt.Sprintf("%+v", *value) != before {
		t.Errorf("%s: packing changed it", name)
	}
	var got T
	in := unpack(out.out)
	if each(in, &got); in.in.Err() != nil || in.in.Len() > 0 {
		t.Fatalf("%s: %v, %d bytes left", name, in.in.Err(), in.in.Len())
	}
	if !reflect.DeepEqual(got, *value) {
		t.Errorf("%s: sent\n%+v\ngot\n%+v", name, *value, got)
	}
	for cut := range out.out { // an answer that ends early is refused or has fewer values; nothing else
		var part T
		each(unpack(out.out[:cut]), &part)
	}
}

// TestEveryFieldTravels: what a node knows of a thing is what the others show of it. A new field of a struct fails here until it is packed.
func TestEveryFieldTravels(t *testing.T) {
	some := &rates{0: 1.5, 3: -2, countersMax - 1: 7}
	n := uint64(0)
	filled := func(v any) { fill(reflect.ValueOf(v).Elem(), &n) }
	ago := []pastSample{{5, counters{1, 2}}, {4, counters{3: 4}}}
	connection := shipped[broker.Connection]{rates: some, past: ago}
	filled(&connection.thing)
	travel(t, "connection", packConnection, &connection)
	channel := shipped[broker.Channel]{rates: some, past: ago}
	filled(&channel.thing)
	travel(t, "channel", packChannel, &channel)
	var consumer shipped[broker.Consumer]
	filled(&consumer.thing)
	travel(t, "consumer", packConsumer, &consumer)
	var status quorum.QueueStatus
	filled(&status)
	status.Counts.NextSeq = 0 // nobody shows it
	travel(t, "status", packStatus, &status)
	queue := toldQueue{id: 9, queueSample: queueSample{status: status, rates: some, idleSince: time.UnixMilli(8), utilisation: 0.5}}
	travel(t, "queue", packToldQueue, &queue)
	travel(t, "exchange", packExchange, &exchangeCount{"v", "x", 1, 2, 3, some})
	travel(t, "traffic", packTraffic, &traffic{"v", 1, 2, 3.5, 4.5})
	node := nodeSample{
		resources: resources{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, messages: counters{1, 2}, churn: counters{3}, used: counters{4}, messageRates: some, churnRates: some, usageRates: some,
		uptimeMillis: 10, pid: 11, processors: 12, version: "13", dataDir: "14", configFiles: []string{"15", "16"}, listeners: []Listener{{Protocol: "17", IP: "18", Port: 19, TLS: true}},
	}
	travel(t, "node", packNode, &node)
	q := question{1, "2", "3", "4", "5", "6", "7", 8, 9, 10, 11, 12, true, 13, 14, 15, span{16, 17}, 18, 19}
	travel(t, "question", func(p *pack, q *question) { q.pack(p) }, &q)
	travel(t, "sight", func(p *pack, x *sight) { x.pack(p) }, &sight{1, 2, []sighting{{3, true, 4, 5, 6, 7, 8, 9, "10", "11", []byte("12"), []byte("13"), "14", broker.DelayedID{UntilMillis: 15, Seq: 16}}}})
	travel(t, "scan", func(p *pack, x *scan) { x.pack(p) }, &scan{1, 2, 3, []scanned{{4, 5, true, "6", "7", "8", "9", 10, 11}}})
	travel(t, "redrive", packRedrive, &redriveState{
		id: "1", spec: redriveSpec{"2", "3", "4", true, "5", "6", "7", "8", true, []string{"9"}, 10, 11, 12, true}, state: "13", reason: "14", scanned: 15, matched: 16, moved: 17, skipped: 18,
		targets: []tally{{"19", "20", 21}}, left: []tally{{"22", "23", 24}}, began: time.UnixMilli(25), ended: time.UnixMilli(26),
	})
	told := report{epoch: 1, generation: 2, full: true, node: node, queues: []toldQueue{queue}, left: []uint64{3, 4}}
	travel(t, "report", func(p *pack, r *report) { r.pack(p) }, &told)
}

// TestOlderNodesAreUnderstood: a row that has fewer fields, or more, is read as far as both sides know it.
func TestOlderNodesAreUnderstood(t *testing.T) {
	type row struct{ a, b uint64 }
	old := func(p *pack, r *row) { p.uint(&r.a) }
	now := func(p *pack, r *row) { p.uint(&r.a); p.uint(&r.b) }
	rows := []row{{1, 2}, {3, 4}}
	for name, c := range map[string]struct {
		write, read func(*pack, *row)
		want        []row
	}{"older sender": {old, now, []row{{1, 0}, {3, 0}}}, "older reader": {now, old, []row{{1, 0}, {3, 0}}}} {
		out := &pack{}
		packRows(out, &rows, c.write)
		after := uint64(77)
		out.uint(&after)
		var got []row
		in := unpack(out.out)
		packRows(in, &got, c.read)
		after = 0
		if in.uint(&after); in.in.Err() != nil || after != 77 || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, then %d, %v", name, got, after, in.in.Err())
		}
	}
}

// cluster is n nodes.
func cluster(t testing.TB, n int, change ...func(*Options)) *fixture {
	f := newFixture(t, change...)
	for i := 2; i <= n; i++ {
		f.join(fmt.Sprint("rabbit@n", i))
	}
	return f
}

// pass lets time pass, and what is due happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestLargeAnswers: lists that do not fit into one message come whole, and nothing of them is kept.
func TestLargeAnswers(t *testing.T) {
	f := cluster(t, 2)
	b := f.nodes[1].broker
	const n = 9000
	for i := range n {
		b.connections = append(b.connections, broker.Connection{Name: fmt.Sprint("c", i), User: "guest", State: strings.Repeat("x", 300)})
	}
	var rows []struct{ Name, Node string }
	if err := json.Unmarshal([]byte(f.get("/api/connections")), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != n || rows[n-1].Name != fmt.Sprint("c", n-1) || rows[0].Node != "rabbit@n2" {
		t.Errorf("%d rows, from %+v", len(rows), rows[0])
	}
	s := f.nodes[1].s
	if len(s.answers.kept) != 0 {
		t.Errorf("%d answers are kept that were taken", len(s.answers.kept))
	}
	for range answersKept + 2 { // askers that go away
		if _, err := s.answer(question{kind: askConnections}.encode()); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.answers.kept) != answersKept {
		t.Errorf("%d answers are kept", len(s.answers.kept))
	}
	kept := s.answers.kept[0]
	if _, err := s.answers.part(kept.id, uint64(len(kept.body))); err == nil {
		t.Error("a part beyond the end was answered")
	}
	if _, err := s.answers.part(1<<40, 1); err == nil {
		t.Error("a part of no answer was answered")
	}
	if _, err := s.answers.first(make([]byte, answerBytesMax+1)); err == nil {
		t.Error("an answer beyond the limit was given")
	}
}

// TestSilentNode: a node that is heard and does not answer costs a list at most patience, once; the sampler goes on, and other nodes' things stay fresh.
func TestSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := cluster(t, 3)
		f.declare("a", "q", 3)
		f.host.mark(f.host.hung, 2, true)
		pass(3 * time.Second)
		f.nodes[2].host.set("a", "q", func(st *quorum.QueueStatus) { st.Counts.Ready = 3 })
		pass(2*time.Second + tickPatience)
		paths := []string{
			"/api/queues", "/api/connections", "/api/channels", "/api/consumers", "/api/nodes", "/api/overview", "/api/vhosts", "/api/exchanges", "/api/queues/a/q", "/metrics",
		}
		began := time.Now()
		for range 2 {
			for _, path := range paths {
				f.get(path)
			}
		}
		if took := time.Since(began); took > patience {
			t.Errorf("%d lists took %v", 2*len(paths), took)
		}
		if got := f.get("/api/queues/a?columns=messages"); got != `[{"messages":3}]` {
			t.Error("while another node is silent:", got)
		}
		at := f.s.sampler.snapshot().at
		pass(samplePeriod + tickPatience)
		if f.s.sampler.snapshot().at.Equal(at) {
			t.Error("the sampler stands still")
		}
		f.host.mark(f.host.hung, 2, false)
		pass(4 * time.Second)
		if got := f.get("/api/nodes/rabbit@n2?columns=running"); got != `{"running":true}` {
			t.Error("after it came back:", got)
		}
	})
}

// TestListOfExchangesAsksNoQueue: what waits in delayed exchanges is told by the nodes that lead their relays, once for the whole list; who wants one exchange gets the number of this moment.
func TestListOfExchangesAsksNoQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := cluster(t, 2)
		two := f.nodes[1]
		for i := range 20 {
			name := fmt.Sprint("x", i)
			two.host.delayedExchange("a", name)
			two.host.set("a", name, func(st *quorum.QueueStatus) { st.Counts.Delayed = uint64(i) })
		}
		f.host.delayedExchange("a", "here")
		f.host.set("a", "here", func(st *quorum.QueueStatus) { st.Counts.Delayed = 30 })
		pass(2 * samplePeriod)
		told, asked := f.host.toldSoFar(), f.host.askedSoFar()+two.host.askedSoFar()
		list := f.get("/api/exchanges/a?columns=name,messages_delayed")
		for _, want := range []string{`{"name":"x0","messages_delayed":0}`, `{"name":"x19","messages_delayed":19}`, `{"name":"here","messages_delayed":30}`, `{"name":"amq.fanout"}`} {
			if !strings.Contains(list, want) {
				t.Errorf("%s is not in %s", want, list)
			}
		}
		if told := f.host.toldSoFar() - told; told > 1 {
			t.Errorf("the list asked %d times", told)
		}
		if n := f.host.askedSoFar() + two.host.askedSoFar() - asked; n != 0 {
			t.Errorf("%d queues were looked at", n)
		}
		two.host.set("a", "x19", func(st *quorum.QueueStatus) { st.Counts.Delayed = 40 })
		if got := f.get("/api/exchanges/a/x19?columns=messages_delayed"); got != `{"messages_delayed":40}` {
			t.Error("now it has", got)
		}
	})
}

// TestListsAskOtherNodesSeldom: other nodes are asked once a second by the sampler, and for a list at most once a second, however many look.
func TestListsAskOtherNodesSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := cluster(t, 3)
		pass(samplePeriod)
		before := f.host.toldSoFar()
		for range 50 {
			for _, path := range []string{"/api/queues", "/api/queues/a", "/api/overview", "/api/nodes", "/metrics"} {
				f.get(path)
			}
		}
		if told := f.host.toldSoFar() - before; told != 0 {
			t.Errorf("lists of what is sampled asked %d times", told)
		}
		for range 50 {
			f.get("/api/connections")
			f.get("/api/channels")
		}
		if told := f.host.toldSoFar() - before; told != 4 {
			t.Errorf("lists of connections and channels asked %d times, want each of 2 nodes twice", told)
		}
		before = f.host.toldSoFar()
		pass(samplePeriod)
		if told := f.host.toldSoFar() - before; told != 2 {
			t.Errorf("a tick asked %d times", told)
		}
	})
}

// TestReportsTellChanges: a node tells the others what changed, and that it does not lead a queue any more; everything to one that knows nothing.
func TestReportsTellChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.many(50)
		f.declare("a", "q")
		f.host.set("a", "q", func(*quorum.QueueStatus) {})
		pass(3 * samplePeriod)
		ask := func(epoch, since uint64) report {
			t.Helper()
			out := &pack{}
			f.s.sampler.report(out, epoch, since)
			var r report
			in := unpack(out.out)
			if r.pack(in); in.in.Err() != nil {
				t.Fatal(in.in.Err())
			}
			return r
		}
		all := ask(0, 0)
		if !all.full || len(all.queues) != 6 {
			t.Fatalf("everything is %d queues", len(all.queues))
		}
		pass(samplePeriod)
		if r := ask(all.epoch, all.generation); r.full || len(r.queues) != 0 || len(r.left) != 0 || r.generation != all.generation+1 {
			t.Errorf("nothing happened, and told are %d queues, full %t", len(r.queues), r.full)
		}
		f.host.set("a", "q", func(st *quorum.QueueStatus) { st.Counts.Ready = 1 })
		pass(samplePeriod)
		if r := ask(all.epoch, all.generation); len(r.queues) != 1 || r.queues[0].status.Counts.Ready != 1 {
			t.Errorf("one queue changed, and told are %d", len(r.queues))
		}
		f.host.set("a", "q", func(st *quorum.QueueStatus) { st.Leader = 2 })
		pass(samplePeriod)
		r := ask(all.epoch, all.generation)
		if id := f.host.Catalogue().View.Queue("a", "q").ID; len(r.queues) != 0 || len(r.left) != 1 || meta.QueueID(r.left[0]) != id {
			t.Errorf("another node leads, and told are %d queues and %v", len(r.queues), r.left)
		}
		if r := ask(all.epoch+1, all.generation); !r.full || len(r.queues) != 5 {
			t.Errorf("another run of the node was known, and told are %d queues", len(r.queues))
		}
		pass((leftKept + 1) * samplePeriod)
		if r := ask(all.epoch, all.generation); !r.full {
			t.Error("after a minute not everything is told")
		}
		f.s.Close()
		if len(f.s.sampler.left) != 0 {
			t.Errorf("%d queues are remembered that were led once", len(f.s.sampler.left))
		}
	})
}

// TestOtherNodesAreForgotten: what was known of deleted queues, of nodes that are replaced, and of lists that nobody looks at takes no memory.
func TestOtherNodesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := cluster(t, 2)
		f.declare("a", "q", 2)
		two := f.nodes[1]
		two.host.set("a", "q", func(st *quorum.QueueStatus) { st.Counts.Ready = 1 })
		two.connect([]string{"c", "guest", "a"})
		f.get("/api/connections")
		pass(2*samplePeriod + tickPatience)
		if got := f.get("/api/overview?columns=queue_totals.messages"); got != `{"queue_totals":{"messages":1}}` {
			t.Fatal(got)
		}
		f.host.apply(meta.Command{Op: meta.OpDeleteQueue, Queue: meta.Queue{ID: f.host.Catalogue().View.Queue("a", "q").ID}})
		pass(lookedAt + samplePeriod)
		f.s.Close()
		if p := f.s.sampler; len(p.claims) != 0 || len(p.queues) != 0 || len(f.s.peers.connections.of) != 0 {
			t.Errorf("remembered are %d claims, %d queues, %d lists of connections", len(p.claims), len(p.queues), len(f.s.peers.connections.of))
		}
	})
}

// TestSlowStatus: a replica that comes up and has to ask for its queue's state does not hold the tick up for all queues.
func TestSlowStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.many(100)
		f.s.Close()
		f.host.delay(time.Second)
		began := time.Now()
		f.s.sampler.tick(began)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("a tick took %v", took)
		}
		if n := len(f.s.sampler.snapshot().queues); n != 100 {
			t.Errorf("%d queues are known", n)
		}
	})
}

// TestMetricsAreOfTheNode: a node's metrics are about the queues that it leads and the clients that it serves, so that sums over nodes are right.
func TestMetricsAreOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := cluster(t, 2)
		f.declare("a", "mine", 1, 2)
		f.declare("a", "other", 1, 2)
		f.declare("a", "asleep", 1, 2)
		two := f.nodes[1]
		f.host.set("a", "mine", func(st *quorum.QueueStatus) { st.Counts.Ready = 1 })
		f.host.set("a", "other", func(st *quorum.QueueStatus) { st.Leader, st.Counts.Ready, st.BodyBytesInMemory = 2, 10, 7 })
		two.host.set("a", "other", func(st *quorum.QueueStatus) { st.Counts.Ready = 10 })
		two.host.set("a", "mine", func(st *quorum.QueueStatus) { st.Leader, st.Counts.Ready = 1, 1 })
		f.setTotals([]string{"published=5", "connections=1"})
		two.setTotals([]string{"published=7", "connections=2"})
		pass(2*samplePeriod + tickPatience)
		want := func(f *fixture, metric, value string) {
			t.Helper()
			if body, _ := scrape(t, f.handler, ""); values(body)[metric] != value {
				t.Errorf("%s is %q, want %s", metric, values(body)[metric], value)
			}
		}
		want(f, "rabbitmq_queue_messages_ready", "1")
		want(two, "rabbitmq_queue_messages_ready", "10")
		want(f, "rabbitmq_queues", "2") // and the one that nobody leads yet
		want(two, "rabbitmq_queues", "1")
		want(f, "rabbitmq_connections", "1")
		want(two, "rabbitmq_connections", "2")
		want(f, `warren_raft_groups{state="running"}`, "2")
		want(f, "warren_body_bytes_in_memory", "7")
	})
}

// FuzzAnswers: whatever another node sends, it is read without a panic, and what is read is bounded by what was sent.
func FuzzAnswers(f *testing.F) {
	s := newFixture(f).s
	f.Add(question{kind: askFacts}.encode())
	f.Add(question{kind: askConnections, connection: "c"}.encode())
	f.Add(question{kind: askPart, answer: 1, part: 1 << 62}.encode())
	out := &pack{}
	s.sampler.report(out, 0, 0)
	f.Add(out.out)
	f.Fuzz(func(t *testing.T, data []byte) {
		if answer, err := s.answer(data); err == nil && len(answer) == 0 {
			t.Error("an empty answer is no answer")
		}
		var r report
		if r.pack(unpack(data)); len(r.queues) > len(data) || len(r.left) > len(data) {
			t.Errorf("%d queues of %d bytes", len(r.queues), len(data))
		}
		var list []shipped[broker.Connection]
		packRows(unpack(data), &list, packConnection)
		if bytes.Equal(data, nil) && len(list) > 0 {
			t.Error("connections out of nothing")
		}
	})
}
