package totalqueue

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// examplesMax bounds how many cases of one kind of violation are described; all are counted.
const examplesMax = 8

// Violations is one kind of broken promise.
type Violations struct {
	// Count is how often it happened.
	Count int
	// Examples describe the first of them.
	Examples []string
}

func (v *Violations) add(format string, args ...any) {
	v.Count++
	if len(v.Examples) < examplesMax {
		v.Examples = append(v.Examples, fmt.Sprintf(format, args...))
	}
}

// Verdict is the account of a test.
type Verdict struct {
	// Lost are confirmed messages that no consumer got to acknowledge.
	Lost Violations
	// Vanished are messages without a confirm that a consumer saw, did not acknowledge, and that did not come back: delivered before they were kept.
	Vanished Violations
	// Invented are messages and answers that nobody asked for.
	Invented Violations
	// Corrupt are bodies that do not fit their checksum or their properties.
	Corrupt Violations
	// Unflagged are repeated deliveries that the broker did not mark.
	Unflagged Violations
	// Reordered are deliveries out of order.
	Reordered Violations

	// Attempted, Confirmed, Nacked and Returned count publishes; Unanswered are those the broker said nothing about.
	Attempted, Confirmed, Nacked, Returned, Unanswered int
	// Recovered counts unanswered and nacked messages that arrived all the same, per queue.
	Recovered int
	// Deliveries counts every delivery, Redeliveries those with the flag.
	Deliveries, Redeliveries int
}

// Verdict sums up. Call it when every queue has been drained and every drained message noted as acknowledged.
func (l *Ledger) Verdict() Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.wrong
	for _, name := range slices.Sorted(maps.Keys(l.publishers)) {
		p := l.publishers[name]
		v.countAnswers(p)
		for _, queue := range p.queues {
			v.judge(p, queue, l.queues[queue].streams[name])
		}
	}
	return v
}

func (v *Verdict) countAnswers(p *Publisher) {
	v.Attempted += len(p.attempts)
	for _, at := range p.attempts {
		switch at.answer {
		case confirmed:
			v.Confirmed++
		case nacked:
			v.Nacked++
		case returned:
			v.Returned++
		case unanswered:
			v.Unanswered++
		}
	}
}

// judge finds what one queue lost of one publisher.
func (v *Verdict) judge(p *Publisher, queue string, st *stream) {
	for i, at := range p.attempts {
		var s sight
		if i < len(st.sights) {
			s = st.sights[i]
		}
		id := ID{Publisher: p.name, Seq: uint64(i + 1)}
		switch {
		case s.times == 0 && at.answer == confirmed:
			v.Lost.add("queue %s: %s was confirmed and never came", queue, id)
		case s.times > 0 && !s.acked && at.answer == confirmed:
			v.Lost.add("queue %s: %s was confirmed, delivered %d times, never acknowledged, and did not come back", queue, id, s.times)
		case s.times > 0 && !s.acked:
			v.Vanished.add("queue %s: %s was not confirmed, delivered %d times, never acknowledged, and did not come back", queue, id, s.times)
		case s.times > 0 && at.answer != confirmed:
			v.Recovered++
		}
	}
}

// kinds lists the violations under their names.
func (v *Verdict) kinds() []struct {
	name string
	of   *Violations
} {
	return []struct {
		name string
		of   *Violations
	}{{"lost", &v.Lost}, {"vanished", &v.Vanished}, {"invented", &v.Invented}, {"corrupt", &v.Corrupt}, {"unflagged duplicate", &v.Unflagged}, {"reordered", &v.Reordered}}
}

// Err returns nil if every promise was kept, else an error that counts and describes the violations.
func (v Verdict) Err() error {
	var b strings.Builder
	for _, k := range v.kinds() {
		if k.of.Count == 0 {
			continue
		}
		fmt.Fprintf(&b, "%d %s:\n", k.of.Count, k.name)
		for _, e := range k.of.Examples {
			fmt.Fprintf(&b, "  %s\n", e)
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return errors.New(b.String() + v.String())
}

// String counts publishes and deliveries in one line.
func (v Verdict) String() string {
	return fmt.Sprintf("published %d: confirmed %d, nacked %d, returned %d, unanswered %d (%d of those without a confirm arrived); delivered %d, of which redelivered %d",
		v.Attempted, v.Confirmed, v.Nacked, v.Returned, v.Unanswered, v.Recovered, v.Deliveries, v.Redeliveries)
}
