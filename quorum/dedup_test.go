package quorum

import (
	"strings"
	"testing"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

func idOf(t *testing.T, v amqp.Value) (queue.DedupID, bool) {
	t.Helper()
	raw, err := amqp.ParseRawTable(amqp.Table{{Key: "a", Value: amqp.Int8(1)}, {Key: meta.HeaderDedup, Value: v}}.AppendEntries(nil))
	if err != nil {
		t.Fatal(err)
	}
	return dedupID(raw)
}

// TestDedupIDs: which values are the same id. The ids themselves stand in logs and never change.
func TestDedupIDs(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	groups := [][]amqp.Value{
		{amqp.Longstr("1"), amqp.Bytes("1")},
		{amqp.Int8(1), amqp.Uint8(1), amqp.Int16(1), amqp.Uint16(1), amqp.Int32(1), amqp.Uint32(1), amqp.Int64(1)},
		{amqp.Float32(1), amqp.Float64(1)},
		{amqp.Bool(true)}, {amqp.Bool(false)}, {amqp.Longstr("")}, {amqp.Int8(-1), amqp.Int64(-1)}, {amqp.Longstr(long)}, {amqp.Longstr(long + "y")}, {amqp.Timestamp(1)}, {amqp.Decimal(0, 1)},
		{amqp.Array(amqp.Int8(1))}, {amqp.Nested(amqp.Table{{Key: "k", Value: amqp.Int8(1)}})},
	}
	seen := map[queue.DedupID]int{}
	for i, same := range groups {
		for _, v := range same {
			id, ok := idOf(t, v)
			if other, met := seen[id]; !ok || met && other != i {
				t.Errorf("%v has the id %x (%t), as group %d", v, id, ok, other)
			}
			seen[id] = i
		}
	}
	if len(seen) != len(groups) {
		t.Errorf("%d ids for %d groups", len(seen), len(groups))
	}
	if id, _ := idOf(t, amqp.Longstr("k1")); id != (queue.DedupID{High: 0x39b9f1eb8f7d3388, Low: 0xf4f9d586f66e99fd}) {
		t.Errorf("k1 has the id %x", id)
	}
	if _, ok := idOf(t, amqp.Void()); ok {
		t.Error("a void is an id")
	}
	if _, ok := dedupID(nil); ok {
		t.Error("no headers give an id")
	}
	raw := amqp.RawTable(amqp.Table{{Key: meta.HeaderDedup, Value: amqp.Longstr(long)}}.AppendEntries(nil))
	if n := testing.AllocsPerRun(100, func() { dedupID(raw) }); n != 0 {
		t.Errorf("%v allocations for an id", n)
	}
}

// TestDedupConfig: the arguments that ask for deduplication, and the policies that count before them.
func TestDedupConfig(t *testing.T) {
	const on, ttl, size = "x-message-deduplication", "x-cache-ttl", "x-cache-size"
	for _, c := range []struct {
		args, policy amqp.Table
		want         queue.Config
	}{
		{nil, nil, queue.Config{}},
		{amqp.Table{{Key: on, Value: amqp.Bool(true)}}, nil, queue.Config{Deduplicate: true}},
		{amqp.Table{{Key: on, Value: amqp.Longstr("true")}}, nil, queue.Config{Deduplicate: true}},
		{amqp.Table{{Key: on, Value: amqp.Int32(1)}}, nil, queue.Config{Deduplicate: true}},
		{amqp.Table{{Key: on, Value: amqp.Longstr("false")}}, nil, queue.Config{}},
		{amqp.Table{{Key: on, Value: amqp.Int8(0)}, {Key: ttl, Value: amqp.Int32(5)}}, nil, queue.Config{}},
		{amqp.Table{{Key: on, Value: amqp.Bool(true)}, {Key: size, Value: amqp.Int32(5)}}, nil, queue.Config{Deduplicate: true}},
		{amqp.Table{{Key: on, Value: amqp.Bool(true)}, {Key: ttl, Value: amqp.Longstr("2000")}}, nil, queue.Config{Deduplicate: true, DedupTTL: queue.LimitOf(2000)}},
		{amqp.Table{{Key: on, Value: amqp.Bool(true)}, {Key: ttl, Value: amqp.Int64(7)}, {Key: size, Value: amqp.Int8(5)}}, nil, queue.Config{Deduplicate: true, DedupTTL: queue.LimitOf(7), DedupSize: queue.LimitOf(5)}},
		{nil, amqp.Table{{Key: on, Value: amqp.Bool(true)}, {Key: ttl, Value: amqp.Int64(7)}}, queue.Config{Deduplicate: true, DedupTTL: queue.LimitOf(7)}},
		{amqp.Table{{Key: on, Value: amqp.Bool(true)}}, amqp.Table{{Key: on, Value: amqp.Bool(false)}}, queue.Config{}},
		{amqp.Table{{Key: on, Value: amqp.Bool(true)}, {Key: ttl, Value: amqp.Int64(7)}}, amqp.Table{{Key: ttl, Value: amqp.Int64(9)}}, queue.Config{Deduplicate: true, DedupTTL: queue.LimitOf(9)}},
	} {
		q := meta.Queue{Name: "q", Type: meta.TypeClassic, Arguments: meta.NewArguments(c.args), Policies: meta.Attached{Definition: meta.NewArguments(c.policy)}}
		if got := queueConfig(&q); got != c.want {
			t.Errorf("%v under %v: %+v, want %+v", c.args, c.policy, got, c.want)
		}
	}
	x := meta.Exchange{Name: "x", Type: meta.TypeDeduplication, Arguments: meta.NewArguments(amqp.Table{{Key: size, Value: amqp.Longstr("9")}})}
	relay := meta.RelayCommand(&x, nil).Queue
	if got, want := queueConfig(&relay), (queue.Config{Relay: true, Deduplicate: true, DedupSize: queue.LimitOf(9)}); got != want {
		t.Errorf("the relay of an exchange: %+v, want %+v", got, want)
	}
	x.Arguments = meta.NewArguments(amqp.Table{{Key: size, Value: amqp.Int32(9)}, {Key: ttl, Value: amqp.Int32(2000)}, {Key: meta.ArgDelayedType, Value: amqp.Longstr(x.Type)}})
	x.Type = meta.TypeDelayed
	relay = meta.RelayCommand(&x, nil).Queue
	if got, want := queueConfig(&relay), (queue.Config{Relay: true, Deduplicate: true, DedupSize: queue.LimitOf(9), DedupTTL: queue.LimitOf(2000)}); got != want {
		t.Errorf("the relay of an exchange that delays, too: %+v, want %+v", got, want)
	}
}
