package management

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/quorum"
)

// contractSpans are the ranges that the web UI asks for.
var contractSpans = []span{{60, 5}, {600, 5}, {3600, 60}, {28_800, 600}, {86_400, 1800}}

// noted is a history with everything that was noted in it, which tells what samples should be.
type noted struct {
	history
	at     []int64
	values []counters
}

func (n *noted) add(unix int64, c counters) {
	n.history.add(unix, &c, true)
	n.at, n.values = append(n.at, unix), append(n.values, c)
}

// want looks each sample up: the first value noted in its slot or, if that was missed, the last one before.
func (n *noted) want(s span, now int64) (out []pastSample) {
	seconds := tierShapes[len(tierShapes)-1].seconds
	for i := len(tierShapes) - 1; i >= 0; i-- {
		if tierShapes[i].seconds*tierShapes[i].kept >= s.age {
			seconds = tierShapes[i].seconds
		}
	}
	for at := now - now%s.incr; at >= now-now%s.incr-s.age && at >= n.at[0]; at -= s.incr {
		slot, v := at/seconds, n.values[0]
		for i := len(n.at) - 1; i >= 0; i-- {
			if n.at[i]/seconds > slot {
				continue
			}
			v = n.values[i]
			for i > 0 && n.at[i-1]/seconds == n.at[i]/seconds {
				i--
				v = n.values[i]
			}
			break
		}
		out = append(out, pastSample{uint64(at) * 1000, v})
	}
	return out
}

// TestHistoryIsWhatWasNoted: over a day of bursts, pauses and missed rounds, every range is what a list of everything that was noted says.
func TestHistoryIsWhatWasNoted(t *testing.T) {
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 1))
		n, unix, c := new(noted), int64(1_700_000_000)/1800*1800, counters{}
		n.add(unix, c)
		busy := true
		for range 20_000 {
			unix += 5
			switch random.IntN(200) {
			case 0:
				busy = !busy
			case 1:
				unix += 5 * random.Int64N(300)
			}
			if busy && random.IntN(4) > 0 {
				c[random.IntN(countersMax)] += random.Uint64N(1 << random.IntN(40))
				c[3] = random.Uint64N(10)
			}
			n.add(unix, c)
			if random.IntN(500) > 0 {
				continue
			}
			for _, s := range contractSpans {
				if got, want := n.samples(s, time.Unix(unix, 0)), n.want(s, unix); !slices.Equal(got, want) {
					t.Fatalf("seed %d, %v at %d:\n%v\nwant\n%v", seed, s, unix, got, want)
				}
			}
		}
	}
}

// TestRestingHistoriesTakeNothing: what has not moved for a day is one sample again, and as long as it does not move it always was.
func TestRestingHistoriesTakeNothing(t *testing.T) {
	var h history
	const begin = 1_700_000_000
	h.add(begin, &counters{1}, true)
	h.add(begin+5, &counters{1}, true)
	if h.tiers != nil {
		t.Fatal("a history is made of nothing")
	}
	h.add(begin+10, &counters{2}, true)
	if h.tiers == nil {
		t.Fatal("a change is forgotten")
	}
	end := int64(begin + 10)
	for ; h.tiers != nil && end < begin+2*historyAgeMax; end += 5 {
		h.add(end, &counters{2}, true)
	}
	if end < begin+historyAgeMax-1800 || end > begin+historyAgeMax+1800 {
		t.Errorf("it is forgotten after %d s", end-begin)
	}
	if got := h.samples(span{60, 30}, time.Unix(end, 0)); len(got) != 3 || got[0].counters != (counters{2}) {
		t.Error(got)
	}
}

// TestHistoryMemory: ten thousand queues that never rest take what HistoryBytesMax says, for however long; those for which there is no room have no samples rather than wrong ones.
func TestHistoryMemory(t *testing.T) {
	const queues = 10_000
	all := make([]history, queues)
	bytes := int64(0)
	worst := int64(0)
	unix := int64(1_700_000_000)
	for round := range 60_000 / 5 { // more than ten minutes of the finest tier, more than an hour of the next, all of the others
		unix += 5
		room := bytes < limits.HistoryBytesMax
		step := 1
		if round > 150 {
			step = 97 // a part of them tells what the others would do
		}
		sum, n := int64(0), int64(0)
		for i := 0; i < queues; i += step {
			v := uint64(round * (i%7 + 1))
			all[i].add(unix, &counters{queuePublished: v, queueDelivered: v, queueAcked: v, queueReady: v % 3, queueMessages: v % 5, queueUnacked: v % 2}, room)
			sum += all[i].bytes()
			n++
		}
		bytes = sum * queues / n
		worst = max(worst, bytes)
	}
	t.Logf("%d bytes per queue, %d MiB at most", bytes/queues, worst>>20)
	var with, without runtime.MemStats
	counted := int64(0)
	for i := range all {
		counted += all[i].bytes()
	}
	runtime.GC()
	runtime.ReadMemStats(&with)
	runtime.KeepAlive(all)
	all = nil
	runtime.GC()
	runtime.ReadMemStats(&without)
	if heap := int64(with.HeapAlloc - without.HeapAlloc); heap > counted*5/4 {
		t.Errorf("%d bytes are counted, %d are there", counted, heap)
	}
	if worst > limits.HistoryBytesMax {
		t.Errorf("%d MiB", worst>>20)
	}
	var late history
	late.add(unix, &counters{1}, false)
	late.add(unix+5, &counters{2}, false)
	if got := late.samples(span{60, 5}, time.Unix(unix+7, 0)); late.tiers != nil || len(got) != 1 || got[0].counters != (counters{2}) {
		t.Error("without room:", got)
	}
}

// details are what a number's _details say.
type details struct {
	Rate, Avg, AvgRate *float64
	Samples            []struct{ Sample, Timestamp uint64 }
}

// TestSamplesOfEverything: each kind of object has samples in the ranges of its parameters, the newest first.
func TestSamplesOfEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.declare("a", "q")
		f.connect([]string{"c", "guest", "a"})
		for i := range uint64(14) {
			f.host.set("a", "q", func(st *quorum.QueueStatus) { st.Counts.Ready, st.Counts.Enqueued = i, 10*i })
			f.broker.mu.Lock()
			f.broker.totals.Published = 100 * i
			f.broker.connections[0].ReceivedBytes = 1000 * i
			f.broker.channels[0].Counts.Published = 7 * i
			f.broker.mu.Unlock()
			time.Sleep(5 * time.Second)
			synctest.Wait()
		}
		for _, c := range []struct {
			path, parameters, key string
			step                  uint64
		}{
			{"/api/overview", "msg_rates", "message_stats.publish_details", 100},
			{"/api/overview", "lengths", "queue_totals.messages_ready_details", 1},
			{"/api/queues/a/q", "lengths", "messages_details", 1},
			{"/api/queues/a/q", "msg_rates", "message_stats.publish_details", 10},
			{"/api/connections/c", "data_rates", "recv_oct_details", 1000},
			{"/api/channels/c%20(1)", "msg_rates", "message_stats.publish_details", 7},
			{"/api/exchanges/a/amq.fanout", "msg_rates", "message_stats.publish_in_details", 100},
			{"/api/nodes/rabbit%40test", "node_stats", "mem_used_details", 0},
			{"/api/nodes/rabbit%40test", "node_stats", "queue_declared_details", 0},
		} {
			var object map[string]json.RawMessage
			if err := json.Unmarshal([]byte(f.get(fmt.Sprintf("%s?%s_age=60&%s_incr=5&columns=%s", c.path, c.parameters, c.parameters, c.key))), &object); err != nil {
				t.Fatal(err)
			}
			outer, inner, nested := strings.Cut(c.key, ".")
			raw := object[outer]
			if nested {
				var below map[string]json.RawMessage
				_ = json.Unmarshal(raw, &below)
				raw = below[inner]
			}
			var d details
			if err := json.Unmarshal([]byte(strings.ReplaceAll(string(raw), "avg_rate", "avgrate")), &d); err != nil {
				t.Fatalf("%s: %v in %s", c.path, err, raw)
			}
			if len(d.Samples) != 13 || d.Avg == nil || d.AvgRate == nil || d.Rate == nil {
				t.Errorf("%s %s: %s", c.path, c.key, raw)
				continue
			}
			for i := range 12 {
				newer, older := d.Samples[i], d.Samples[i+1]
				if newer.Timestamp-older.Timestamp != 5000 || newer.Timestamp%5000 != 0 || c.step != 0 && i > 0 && newer.Sample-older.Sample != c.step {
					t.Errorf("%s %s: sample %d: %s", c.path, c.key, i, raw)
					break
				}
			}
		}
		if got := f.get("/api/queues/a/q?lengths_age=60&columns=messages_details"); got != `{"messages_details":{"rate":0.0}}` && !strings.Contains(got, `{"rate":0.2}`) {
			t.Error("half a pair asks for samples:", got)
		}
		f.want(f.do("guest", http.MethodGet, "/api/overview?lengths_age=x&lengths_incr=5", ""), 400, `["not_integer","x"]`)
		f.want(f.do("guest", http.MethodGet, "/api/overview?lengths_age=60&lengths_incr=0", ""), 400, "must be at least 1")
		f.want(f.do("guest", http.MethodGet, "/api/overview?lengths_age=86400&lengths_incr=1", ""), 400, "at most 1000 samples")
	})
}

// TestSamplesFromOtherNodes: what is at another node has samples, and those of an exchange are the sum over all nodes.
func TestSamplesFromOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		two := f.join("rabbit@two")
		f.declare("a", "q", 2)
		two.connect([]string{"c", "guest", "a"})
		for i := range uint64(8) {
			two.host.set("a", "q", func(st *quorum.QueueStatus) { st.Counts.Ready = i })
			two.broker.mu.Lock()
			two.broker.connections[0].ReceivedBytes, two.broker.totals.Published = i, i
			two.broker.mu.Unlock()
			f.broker.mu.Lock()
			f.broker.totals.Published = 10 * i
			f.broker.mu.Unlock()
			time.Sleep(5 * time.Second)
			synctest.Wait()
		}
		for path, want := range map[string]string{
			"/api/connections/c?data_rates_age=10&data_rates_incr=5&columns=recv_oct_details.samples.sample":                        `[{"sample":7},{"sample":6},{"sample":5}]`,
			"/api/queues/a/q?lengths_age=10&lengths_incr=5&columns=messages_details.samples.sample":                                 `[{"sample":7},{"sample":6},{"sample":5}]`,
			"/api/exchanges/a/amq.fanout?msg_rates_age=10&msg_rates_incr=5&columns=message_stats.publish_in_details.samples.sample": `[{"sample":77},{"sample":66},{"sample":55}]`,
			"/api/nodes/rabbit%40two?node_stats_age=10&node_stats_incr=5&columns=channel_closed_details.samples.sample":             `[{"sample":0},{"sample":0},{"sample":0}]`,
		} {
			if got := f.get(path); !strings.Contains(got, want) {
				t.Errorf("%s: %s\nwant %s", path, got, want)
			}
		}
	})
}

func BenchmarkHistoryAdd(b *testing.B) {
	var h history
	c, unix := counters{}, int64(1_700_000_000)
	b.ReportAllocs()
	for b.Loop() {
		unix += 5
		c[0]++
		c[5] += 3
		h.add(unix, &c, true)
	}
}
