package exchange

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
)

// dealt routes keys through an exchange and returns the name of the queue that each got, "" for none.
func (w *world) dealt(exchange string, keys int) []string {
	w.t.Helper()
	to := make([]string, keys)
	for i := range to {
		ids, _ := w.router.VHost("/").RouteString(exchange, fmt.Sprintf("key-%d", i), nil, nil)
		switch len(ids) {
		case 0:
		case 1:
			to[i] = w.m.View().QueueByID(ids[0]).Name
		default:
			w.t.Fatalf("key %d goes to %d queues", i, len(ids))
		}
	}
	return to
}

// weighted binds queues to the exchange "c" with weights; queues and exchange are made if they are missing.
func (w *world) weighted(weights map[string]int) {
	names := make([]string, 0, len(weights))
	for name := range weights {
		names = append(names, name)
	}
	slices.Sort(names)
	w.exchange("c", meta.TypeConsistentHash, nil)
	for _, name := range names {
		w.queue(name)
		w.bind(meta.OpBind, "c", meta.ToQueue, name, fmt.Sprint(weights[name]), nil)
	}
	w.update()
}

func TestSharesAreThoseOfTheWeights(t *testing.T) {
	const keys = 60_000
	for _, weights := range []map[string]int{
		{"only": 3},
		{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1},
		{"a": 1, "b": 2, "c": 3, "d": 10},
		{"small": 1, "large": 10_000, "half": 5_000},
	} {
		w := newWorld(t)
		w.weighted(weights)
		got := make(map[string]int)
		for _, name := range w.dealt("c", keys) {
			got[name]++
		}
		total := 0
		for _, weight := range weights {
			total += weight
		}
		for name, weight := range weights {
			share := float64(weight) / float64(total)
			want, deviation := share*keys, math.Sqrt(keys*share*(1-share))
			if math.Abs(float64(got[name])-want) > 5*deviation+1e-9 {
				t.Errorf("%v: %s got %d of %d, want %.0f +- %.0f", weights, name, got[name], keys, want, 5*deviation)
			}
		}
	}
}

// A queue that is bound takes its share from the others and moves nothing between them; one that is unbound or deleted gives its messages to the others and moves nothing else.
func TestOnlyMessagesOfABindingMoveWithIt(t *testing.T) {
	const keys = 3000
	r := rand.New(rand.NewPCG(7, 7))
	w := newWorld(t)
	w.weighted(map[string]int{"q0": 1, "q1": 5, "q2": 20})
	bound := map[string]string{"q0": "1", "q1": "5", "q2": "20"}
	before := w.dealt("c", keys)
	for step := range 60 {
		changed := fmt.Sprintf("q%d", r.IntN(12))
		key, wasBound := bound[changed]
		switch {
		case !wasBound:
			w.queue(changed)
			bound[changed] = fmt.Sprint(1 + r.IntN(30))
			w.bind(meta.OpBind, "c", meta.ToQueue, changed, bound[changed], nil)
		case r.IntN(2) == 0:
			w.bind(meta.OpUnbind, "c", meta.ToQueue, changed, key, nil)
			delete(bound, changed)
		default:
			w.deleteQueue(changed)
			delete(bound, changed)
		}
		w.update()
		now := w.dealt("c", keys)
		moved := 0
		for i := range now {
			if now[i] == before[i] {
				continue
			}
			moved++
			if !wasBound && now[i] != changed || wasBound && before[i] != changed {
				t.Fatalf("step %d: %s changed, but key %d moved from %q to %q", step, changed, i, before[i], now[i])
			}
		}
		if moved == 0 && len(bound) > 0 {
			t.Fatalf("step %d: %s changed and no message moved", step, changed)
		}
		before = now
	}
}

// Where a message goes depends on the names and weights alone: not on the order of bindings, on what was there before, or on the ids of queues.
func TestHashesAreTheSameEverywhere(t *testing.T) {
	weights := map[string]int{"a": 1, "b": 2, "c": 3, "d": 4}
	w := newWorld(t)
	w.weighted(weights)
	want := w.dealt("c", 2000)
	other := newWorld(t)
	for _, name := range []string{"old", "d", "c", "b", "a"} {
		other.queue(name)
	}
	other.exchange("c", meta.TypeConsistentHash, nil)
	other.bind(meta.OpBind, "c", meta.ToQueue, "old", "50", nil)
	for _, name := range []string{"c", "a", "d", "b"} {
		other.bind(meta.OpBind, "c", meta.ToQueue, name, fmt.Sprint(weights[name]), nil)
		other.update()
	}
	other.deleteQueue("b")
	other.update()
	other.queue("b")
	other.bind(meta.OpBind, "c", meta.ToQueue, "b", "2", nil)
	other.bind(meta.OpUnbind, "c", meta.ToQueue, "old", "50", nil)
	other.update()
	if got := other.dealt("c", 2000); !slices.Equal(got, want) {
		t.Fatal("two routers with the same bindings differ")
	}
}

func TestWhatIsHashed(t *testing.T) {
	w := newWorld(t)
	for _, x := range []struct{ name, arg, value string }{
		{"header", meta.ArgHashHeader, "customer"}, {"message", meta.ArgHashProperty, "message_id"}, {"correlation", meta.ArgHashProperty, "correlation_id"},
		{"timestamp", meta.ArgHashProperty, "timestamp"},
	} {
		w.exchange(x.name, meta.TypeConsistentHash, amqp.Table{{Key: x.arg, Value: amqp.Longstr(x.value)}})
		for i := range 20 {
			name := fmt.Sprintf("q%d", i)
			w.queue(name)
			w.bind(meta.OpBind, x.name, meta.ToQueue, name, "1", nil)
		}
	}
	w.update()
	for name, set := range map[string]func(*amqp.Properties, int){
		"header": func(p *amqp.Properties, n int) {
			p.SetHeaders(amqp.Table{{Key: "customer", Value: amqp.Longstr(fmt.Sprint(n))}})
		},
		"message":     func(p *amqp.Properties, n int) { p.SetMessageID(fmt.Sprint(n)) },
		"correlation": func(p *amqp.Properties, n int) { p.SetCorrelationID(fmt.Sprint(n)) },
		"timestamp":   func(p *amqp.Properties, n int) { p.SetTimestamp(uint64(n)) },
	} {
		reached, without := make(map[meta.QueueID]bool), make(map[meta.QueueID]bool)
		route := func(m *Message, key string) meta.QueueID {
			ids, _ := w.router.VHost("/").RouteString(name, key, m, nil)
			if len(ids) != 1 {
				t.Fatalf("%s: routed to %v", name, ids)
			}
			return ids[0]
		}
		for i := range 200 {
			var p amqp.Properties
			set(&p, i)
			m := withProperties(t, &p)
			first := route(m, "some")
			reached[first] = true
			if again := route(m, fmt.Sprint(i)); again != first {
				t.Errorf("%s: the routing key counts", name)
			}
			without[route(nil, fmt.Sprint(i))] = true
			without[route(withProperties(t, new(amqp.Properties)), fmt.Sprint(i))] = true
		}
		if len(reached) < 15 {
			t.Errorf("%s: 200 values reach %d of 20 queues", name, len(reached))
		}
		if len(without) != 1 {
			t.Errorf("%s: messages without it reach %d queues, want one", name, len(without))
		}
	}
	header := func(v amqp.Value) meta.QueueID {
		ids, _ := w.router.VHost("/").RouteString("header", "", withHeaders(t, amqp.Table{{Key: "customer", Value: v}}), nil)
		return ids[0]
	}
	for i := range 50 {
		if header(amqp.Int32(int32(i))) != header(amqp.Int64(int64(i))) {
			t.Fatalf("%d as int32 and as int64 go different ways", i)
		}
	}
}

func TestRandomReachesEveryDestinationAlike(t *testing.T) {
	const messages, queues = 20_000, 8
	r := rand.New(rand.NewPCG(3, 4))
	w := newWorld(t)
	w.router = Compile(w.m.View(), Node{Random: r.Uint64, Local: func(id meta.QueueID) bool { return id%2 == 0 }})
	w.exchange("r", meta.TypeRandom, nil)
	w.exchange("l", meta.TypeLocalRandom, nil)
	for i := range queues {
		name := fmt.Sprint(i)
		w.queue(name)
		w.bind(meta.OpBind, "r", meta.ToQueue, name, "one", nil)
		w.bind(meta.OpBind, "r", meta.ToQueue, name, "another", nil)
		w.bind(meta.OpBind, "l", meta.ToQueue, name, "", nil)
	}
	w.update()
	for _, x := range []struct {
		name string
		want int
	}{{"r", queues}, {"l", queues / 2}} {
		got := make(map[meta.QueueID]int)
		for range messages {
			ids, _ := w.router.VHost("/").RouteString(x.name, "", nil, nil)
			if len(ids) != 1 {
				t.Fatalf("%s: routed to %v", x.name, ids)
			}
			got[ids[0]]++
		}
		if len(got) != x.want {
			t.Errorf("%s reaches %d queues, want %d", x.name, len(got), x.want)
		}
		for id, n := range got {
			if mean := messages / x.want; n < mean*8/10 || n > mean*12/10 {
				t.Errorf("%s: queue %d got %d messages, others %d", x.name, id, n, mean)
			}
		}
	}
}
