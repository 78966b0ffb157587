package management

import (
	"time"

	"github.com/warrenmq/warren/config/limits"
)

// Rates are taken over the last samples, so that they are what a person sees happen now: the difference to the oldest kept sample, by the time in between.

const (
	// samplePeriod is how often everything is sampled.
	samplePeriod = time.Second
	// samplesKept is how many samples a series keeps: a rate is over the last five seconds.
	samplesKept = 6
	// countersMax is how many counters a series has at most.
	countersMax = 16
)

// counters are one sample of the numbers of one thing. What an index means is the series' own.
type counters [countersMax]uint64

// series keeps the last samples of one thing. While nothing changes it keeps one sample and no ring.
type series struct {
	last    counters
	changed time.Time // when a counter moved last
	ring    *[samplesKept]sample
	next    int // ring index that is written next
	count   int
}

type sample struct {
	at time.Time
	counters
}

// add notes a sample. The first one is where counting begins.
func (s *series) add(at time.Time, c *counters) {
	if *c != s.last || s.changed.IsZero() {
		if s.ring == nil && !s.changed.IsZero() {
			s.ring = new([samplesKept]sample)
			s.push(at.Add(-samplePeriod), &s.last)
		}
		s.changed = at
		s.last = *c
	}
	if s.ring == nil {
		return
	}
	s.push(at, c)
	if s.oldest().counters == *c {
		s.ring, s.next, s.count = nil, 0, 0
	}
}

func (s *series) push(at time.Time, c *counters) {
	s.ring[s.next] = sample{at, *c}
	s.next = (s.next + 1) % samplesKept
	s.count = min(s.count+1, samplesKept)
}

func (s *series) oldest() *sample {
	return &s.ring[(s.next-s.count+samplesKept)%samplesKept]
}

func (s *series) newest() *sample {
	return &s.ring[(s.next-1+samplesKept)%samplesKept]
}

// rates are changes per second, of gauges also downwards.
type rates [countersMax]float64

// rates returns the present rates, nil if all are zero.
func (s *series) rates() *rates {
	if s.ring == nil || s.count < 2 {
		return nil
	}
	from, to := s.oldest(), s.newest()
	seconds := to.at.Sub(from.at).Seconds()
	if seconds <= 0 {
		return nil
	}
	out := new(rates)
	for i := range out {
		out[i] = float64(int64(to.counters[i]-from.counters[i])) / seconds
	}
	return out
}

// of returns one rate; of nil it is 0.
func (r *rates) of(i int) float64 {
	if r == nil {
		return 0
	}
	return r[i]
}

// sampled are the things of this node's clients: connections, channels, exchanges. Every tick visits them while somebody looks at them, else every historyPeriod if there are not too many.
type sampled struct {
	wanted time.Time
	things map[string]*sampledThing
	slot   int64 // of the last round that was noted in histories
	bytes  int64 // of the histories
}

// sampledThing is what is remembered of one thing.
type sampledThing struct {
	series
	history
}

// lookedAt is how long after the last look every tick samples.
const lookedAt = 5 * time.Minute

// due tells whether to sample so many things now. What is not sampled is forgotten.
func (g *sampled) due(now time.Time, things int) bool {
	switch {
	case !g.wanted.IsZero() && now.Sub(g.wanted) < lookedAt:
		return true
	case things > limits.SampledMax:
		g.things, g.bytes = nil, 0
		return false
	}
	return now.Unix()/int64(historyPeriod/time.Second) != g.slot
}

// add notes samples of the things that there are; others are forgotten.
func (g *sampled) add(at time.Time, things int, each func(yield func(key string, c *counters))) {
	old := g.things
	g.things = make(map[string]*sampledThing, things)
	slot := at.Unix() / int64(historyPeriod/time.Second)
	noted, room := slot == g.slot, g.bytes < limits.HistoryBytesMax
	g.slot = slot
	if !noted {
		g.bytes = 0
	}
	each(func(key string, c *counters) {
		t := old[key]
		if t == nil {
			t = new(sampledThing)
		}
		t.series.add(at, c)
		if !noted {
			t.history.add(slot*int64(historyPeriod/time.Second), c, room)
			g.bytes += t.history.bytes()
		}
		g.things[key] = t
	})
}

// rates returns the present rates, nil if they are not known (yet) or zero.
func (t *sampledThing) rates() *rates {
	if t == nil {
		return nil
	}
	return t.series.rates()
}

// samples returns those that a span asks for.
func (t *sampledThing) samples(s span) []pastSample {
	if t == nil {
		return nil
	}
	return t.history.samples(s, time.Now())
}
