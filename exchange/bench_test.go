package exchange

import (
	"fmt"
	"testing"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
)

const manyBindings = 10_000

// crowd makes 10,000 queues, each bound to a direct, a fanout, a topic and a headers exchange.
func crowd(t testing.TB, n int) *world {
	w := newWorld(t)
	w.exchange("d", "direct", nil)
	w.exchange("f", "fanout", nil)
	w.exchange("t", "topic", nil)
	w.exchange("h", "headers", nil)
	w.exchange("r", "x-random", nil)
	w.exchange("c10", "x-consistent-hash", nil)
	w.exchange("c1000", "x-consistent-hash", nil)
	for i := range n {
		name := fmt.Sprintf("queue.%05d", i)
		w.queue(name)
		w.bind(meta.OpBind, "d", meta.ToQueue, name, fmt.Sprintf("key.%d", i), nil)
		w.bind(meta.OpBind, "f", meta.ToQueue, name, "", nil)
		w.bind(meta.OpBind, "t", meta.ToQueue, name, fmt.Sprintf("site.%d.*.#", i), nil)
		w.bind(meta.OpBind, "r", meta.ToQueue, name, "", nil)
		if i < 10 {
			w.bind(meta.OpBind, "c10", meta.ToQueue, name, "5", nil)
		}
		if i < 1000 {
			w.bind(meta.OpBind, "c1000", meta.ToQueue, name, "1", nil)
		}
		if i < 100 {
			w.bind(meta.OpBind, "h", meta.ToQueue, name, "", amqp.Table{{Key: "site", Value: amqp.Int32(int32(i))}})
		}
	}
	w.bind(meta.OpBind, "t", meta.ToQueue, "queue.00000", "#.error", nil)
	w.bind(meta.OpBind, "t", meta.ToQueue, "queue.00001", "site.*.temp.#", nil)
	w.update()
	return w
}

// routes are what the benchmarks publish: exchange, key, and how many queues get it.
func routes(n int) []struct {
	name, exchange, key string
	queues              int
} {
	return []struct {
		name, exchange, key string
		queues              int
	}{
		{"default", "", "queue.00777", 1},
		{"direct", "d", "key.777", 1},
		{"direct-unroutable", "d", "key.none", 0},
		{"topic", "t", "site.777.temp.high", 2},
		{"topic-unroutable", "t", "none.777.temp", 0},
		{"topic-three", "t", "site.777.temp.indoor.error", 3},
		{"headers-100", "h", "", 1},
		{"fanout", "f", "any", n},
		{"random", "r", "any", 1},
		{"consistent-hash-10", "c10", "customer.4711", 1},
		{"consistent-hash-1000", "c1000", "customer.4711", 1},
	}
}

func BenchmarkRoute(b *testing.B) {
	w := crowd(b, manyBindings)
	h := w.router.VHost("/")
	m := withHeaders(b, amqp.Table{{Key: "other", Value: amqp.Longstr("x")}, {Key: "site", Value: amqp.Int64(77)}})
	for _, r := range routes(manyBindings) {
		exchange, key := []byte(r.exchange), []byte(r.key)
		b.Run(r.name, func(b *testing.B) {
			dst := make([]meta.QueueID, 0, manyBindings)
			b.ReportAllocs()
			for b.Loop() {
				dst, _ = h.Route(exchange, key, m, dst[:0])
			}
			if len(dst) != r.queues {
				b.Fatalf("routed to %d queues, want %d", len(dst), r.queues)
			}
		})
	}
}

func TestRoutingDoesNotAllocate(t *testing.T) {
	const n = 1000
	w := crowd(t, n)
	w.exchange("first", "fanout", nil)
	w.bind(meta.OpBind, "first", meta.ToExchange, "t", "", nil)
	w.bind(meta.OpBind, "first", meta.ToExchange, "d", "", nil)
	w.update()
	h := w.router.VHost("/")
	m := withHeaders(t, amqp.Table{{Key: "site", Value: amqp.Int64(77)}})
	dst := make([]meta.QueueID, 0, n)
	for _, r := range append(routes(n), struct {
		name, exchange, key string
		queues              int
	}{"chain", "first", "site.777.temp.high", 2}) {
		exchange, key := []byte(r.exchange), []byte(r.key)
		if allocs := testing.AllocsPerRun(100, func() { dst, _ = h.Route(exchange, key, m, dst[:0]) }); allocs != 0 {
			t.Errorf("%s allocates %v times", r.name, allocs)
		}
		if len(dst) != r.queues {
			t.Errorf("%s is routed to %d queues, want %d", r.name, len(dst), r.queues)
		}
		if allocs := testing.AllocsPerRun(100, func() { dst, _ = h.RouteString(r.exchange, r.key, m, dst[:0]) }); allocs != 0 {
			t.Errorf("%s as strings allocates %v times", r.name, allocs)
		}
	}
}

// One more binding among 10,000, with the View and the Router that follow.
func BenchmarkBindAndUpdate(b *testing.B) {
	w := crowd(b, manyBindings)
	for _, exchange := range []string{"d", "t", "f"} {
		b.Run(exchange, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				key := fmt.Sprintf("site.x%d.#", i)
				w.bind(meta.OpBind, exchange, meta.ToQueue, "queue.00005", key, nil)
				w.update()
				i++
			}
		})
	}
}

// One more queue among 10,000 and their bindings: nothing may be compiled again.
func BenchmarkDeclareAndUpdate(b *testing.B) {
	w := crowd(b, manyBindings)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		w.queue(fmt.Sprintf("new.%d", i))
		w.update()
		i++
	}
}

func BenchmarkCompile10k(b *testing.B) {
	v := crowd(b, manyBindings).m.View()
	b.ReportAllocs()
	for b.Loop() {
		Compile(v, Node{})
	}
}
