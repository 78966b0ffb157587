package management

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"time"

	"github.com/warrenmq/warren/config/limits"
)

// Charts over up to a day come from histories: of each thing its counters every 5 seconds for the last 10 minutes, every minute for an hour, every 10 minutes for 8 hours, every half an hour for
// a day. A history keeps the newest sample and, backwards, what changed; of a thing at which nothing ever happens it keeps one sample and nothing else.

// historyPeriod is how often histories are noted, always at the same seconds of the clock, so that those of several nodes can be summed up.
const historyPeriod = 5 * time.Second

// tierShapes are the parts of a history, the finest first. Each has one more sample than intervals.
var tierShapes = [...]struct{ seconds, kept int64 }{{5, 120}, {60, 60}, {600, 48}, {1800, 48}}

// historyAgeMax is what the coarsest part reaches back to, in seconds.
const historyAgeMax = 86_400

// history is a thing's counters over time.
type history struct {
	since, at int64    // when it was first and last noted, in seconds
	last      counters // as noted last
	// tiers is nil while nothing has changed since then, or for as long as the tiers reach back.
	tiers *[len(tierShapes)]tier
}

// tier is one part of a history.
type tier struct {
	last   counters
	slot   int64  // of last, in units of the tier
	deltas []byte // from one sample to the next, the oldest first: a mask of the counters that changed, then by how much
	n      int64  // deltas
	// changes is how many of them are not empty.
	changes int64
}

// add notes a sample. Without room for more, a history in which something begins to move is forgotten.
func (h *history) add(unix int64, c *counters, room bool) {
	if h.since == 0 || h.tiers == nil && *c != h.last && !room {
		h.since, h.at, h.last = unix, unix, *c
		return
	}
	if h.tiers == nil {
		if *c == h.last {
			h.at = unix
			return
		}
		h.tiers = new([len(tierShapes)]tier)
		for i, shape := range tierShapes {
			h.tiers[i] = tier{last: h.last, slot: h.at / shape.seconds}
		}
	}
	h.at, h.last = unix, *c
	changes := int64(0)
	for i, shape := range tierShapes {
		t := &h.tiers[i]
		t.add(unix/shape.seconds, c, shape.kept)
		changes += t.changes
	}
	if changes == 0 {
		h.tiers = nil
	}
}

// add notes the sample of a slot, if it is a new one. Nothing is known to have changed in slots that were missed.
func (t *tier) add(slot int64, c *counters, kept int64) {
	if slot <= t.slot {
		return
	}
	for range min(slot-t.slot-1, kept) {
		t.deltas = append(t.deltas, 0)
		t.n++
	}
	mask := uint64(0)
	for i := range c {
		if c[i] != t.last[i] {
			mask |= 1 << i
		}
	}
	t.deltas = binary.AppendUvarint(t.deltas, mask)
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		t.deltas = binary.AppendVarint(t.deltas, int64(c[i]-t.last[i]))
	}
	if mask != 0 {
		t.changes++
	}
	t.n++
	t.last, t.slot = *c, slot
	for ; t.n > kept; t.n-- {
		mask, size := readDelta(t.deltas, nil)
		if mask != 0 {
			t.changes--
		}
		t.deltas = t.deltas[size:]
	}
}

// readDelta reads the first of some deltas, takes it off c if there is one, and returns its mask and length.
func readDelta(b []byte, c *counters) (mask uint64, size int) {
	mask, size = binary.Uvarint(b)
	for m := mask; m != 0; m &= m - 1 {
		d, n := binary.Varint(b[size:])
		size += n
		if c != nil {
			c[bits.TrailingZeros64(m)] -= uint64(d)
		}
	}
	return mask, size
}

// values returns the samples of a tier, the newest first.
func (t *tier) values() []counters {
	starts := make([]int, 0, t.n)
	for at := 0; at < len(t.deltas); {
		starts = append(starts, at)
		_, size := readDelta(t.deltas[at:], nil)
		at += size
	}
	out := make([]counters, 1, t.n+1)
	out[0] = t.last
	for i := len(starts) - 1; i >= 0; i-- {
		c := out[len(out)-1]
		readDelta(t.deltas[starts[i]:], &c)
		out = append(out, c)
	}
	return out
}

// bytes is about what a history takes.
func (h *history) bytes() int64 {
	const itself, tiers = 16 + countersMax*8 + 8, int64(len(tierShapes)) * (countersMax*8 + 48)
	if h.tiers == nil {
		return itself
	}
	sum := itself + tiers
	for i := range h.tiers {
		sum += int64(cap(h.tiers[i].deltas))
	}
	return sum
}

// span is a range of samples: up to age seconds back, one every incr seconds. The zero span asks for none.
type span struct{ age, incr int64 }

// pastSample is a sample with its time in milliseconds.
type pastSample struct {
	at uint64
	counters
}

// samples returns what a span asks for, the newest first; nothing from before the history began.
func (h *history) samples(s span, now time.Time) []pastSample {
	if h == nil || h.since == 0 || s.incr == 0 {
		return nil
	}
	values, seconds, newest := []counters{h.last}, int64(1), now.Unix()
	if h.tiers != nil {
		i := 0
		for i < len(tierShapes)-1 && tierShapes[i].seconds*tierShapes[i].kept < s.age {
			i++
		}
		t := &h.tiers[i]
		values, seconds = t.values(), tierShapes[i].seconds
		newest = min(newest, (t.slot+1)*seconds-1)
	}
	last := newest - newest%s.incr
	var out []pastSample
	for at := last; at >= last-s.age && at >= h.since; at -= s.incr {
		back := int64(0)
		if h.tiers != nil {
			back = min(max((newest/seconds)-at/seconds, 0), int64(len(values))-1)
		}
		out = append(out, pastSample{uint64(at) * 1000, values[back]})
	}
	return out
}

// spans are those of a request by what they are for: lengths of queues, rates of messages, bytes of connections, what nodes use.
type spans struct{ lengths, messages, bytes, node span }

// readSpans reads the parameters of samples; a pair of which one is missing asks for none.
func (c *call) readSpans() error {
	for _, f := range [...]struct {
		key string
		to  *span
	}{{"lengths", &c.spans.lengths}, {"msg_rates", &c.spans.messages}, {"data_rates", &c.spans.bytes}, {"node_stats", &c.spans.node}} {
		if !c.query.Has(f.key+"_age") || !c.query.Has(f.key+"_incr") {
			continue
		}
		var s span
		for key, to := range map[string]*int64{f.key + "_age": &s.age, f.key + "_incr": &s.incr} {
			n, err := strconv.ParseInt(c.query.Get(key), 10, 64)
			if err != nil {
				return badRequestWords("not_integer", c.query.Get(key))
			}
			*to = n
		}
		if s.age < 1 || s.incr < 1 || s.age/s.incr > limits.SamplesMax {
			return badRequestf("%s_age and %s_incr must be at least 1 and ask for at most %d samples", f.key, f.key, limits.SamplesMax)
		}
		s.age = min(s.age, historyAgeMax)
		*f.to = s
	}
	return nil
}

// past is what a span asks for of one thing, looked up when it is wanted.
type past struct {
	load   func() []pastSample
	loaded bool
	list   []pastSample
}

func (p *past) samples() []pastSample {
	if !p.loaded {
		p.list, p.loaded = p.load(), true
	}
	return p.list
}

// trend is how the numbers of a thing move: the present rates, and samples if the request asks for them.
type trend struct {
	rates *rates
	past  *past
}

// trendOf is a trend with the samples of a span.
func trendOf(r *rates, s span, load func() []pastSample) trend {
	if s.incr == 0 {
		return trend{rates: r}
	}
	return trend{r, &past{load: load}}
}

// Counter writes a number, under key_details how it moves. The indexes name the counters whose sum it is.
func (w *writer) Counter(key string, v uint64, t trend, indexes ...int) {
	if w.found {
		return
	}
	w.Uint(key, v)
	w.details(key+"_details", t, indexes)
}

// details writes the rate, and if there are samples these with their average, and the average rate over all of them.
func (w *writer) details(key string, t trend, indexes []int) {
	if !w.Object(key) {
		return
	}
	rate := 0.0
	for _, i := range indexes {
		rate += t.rates.of(i)
	}
	w.Float("rate", rate)
	if t.past != nil && (w.want("avg") || w.want("avg_rate") || w.want("samples")) {
		w.samples(t.past.samples(), indexes)
	}
	w.End()
}

func (w *writer) samples(list []pastSample, indexes []int) {
	of := func(s *pastSample) (v uint64) {
		for _, i := range indexes {
			v += s.counters[i]
		}
		return v
	}
	average, averageRate := 0.0, 0.0
	for i := range list {
		average += float64(of(&list[i])) / float64(len(list))
	}
	if n := len(list); n > 1 {
		newest, oldest := &list[0], &list[n-1]
		averageRate = float64(int64(of(newest)-of(oldest))) * 1000 / float64(newest.at-oldest.at)
	}
	w.Float("avg", average)
	w.Float("avg_rate", averageRate)
	if w.Array("samples") {
		for i := range list {
			w.Object("")
			w.Uint("sample", of(&list[i]))
			w.Uint("timestamp", list[i].at)
			w.End()
		}
		w.EndArray()
	}
}

func packPast(p *pack, list *[]pastSample) {
	packRows(p, list, func(p *pack, s *pastSample) {
		p.uint(&s.at)
		p.counters(&s.counters)
	})
}
