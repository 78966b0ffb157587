package queue

import (
	"github.com/warrenmq/warren/internal/codec"
)

// What comes back to a queue may have to wait before it is tried again. The wait grows with the tries: by RetryMin for each failure, as RabbitMQ has it; by a factor for each time that somebody had the message; or
// as a list says. Jitter makes it shorter by chance, so that what failed together does not come again together; the chance is made of position and try, for replicas must agree.

// RetryType says which messages wait before they are tried again. The numbers stand in logs: only add at the end.
type RetryType uint8

const (
	// RetryAtOnce: none.
	RetryAtOnce RetryType = 0
	// RetryAll: all that come back.
	RetryAll RetryType = 1
	// RetryFailed: those that come back as a failure.
	RetryFailed RetryType = 2
	// RetryReturned: those that come back and count as no failure.
	RetryReturned RetryType = 3
)

// comeback tells why an unacked message comes back; not persisted.
type comeback uint8

// The values are not persisted.
const (
	// unseen: no client was shown it, or nobody knows.
	unseen comeback = 0
	// returned: a client gave it back.
	returned comeback = 1
	// failure: a client failed at it.
	failure comeback = 2
)

// delayMax is the longest wait, in milliseconds: a thousand years.
const delayMax = 1000 * 366 * 24 * 3600 * 1000

// scheduleMax is how many waits a Schedule may have.
const scheduleMax = 64

// Schedule is a list of waits in milliseconds, encoded; the zero value is none.
type Schedule string

// ScheduleOf makes a Schedule of at most 64 waits, each at most a thousand years; what is beyond is left out or cut.
func ScheduleOf(millis []uint64) Schedule {
	var b []byte
	for _, n := range millis[:min(len(millis), scheduleMax)] {
		b = codec.AppendUvarint(b, min(n, delayMax))
	}
	return Schedule(b)
}

// Millis lists the waits.
func (s Schedule) Millis() (list []uint64) {
	for r := codec.NewReader([]byte(s)); r.Len() > 0; {
		list = append(list, r.Uvarint())
	}
	return list
}

// at returns the wait before try n, from 1. The last one is for all further tries.
func (s Schedule) at(n uint32) uint64 {
	list := s.Millis()
	if mutant == mutantScheduleOffByOne {
		n++
	}
	return list[min(max(n, 1), uint32(len(list)))-1]
}

// readSchedule reads a Schedule that AppendBytes appended.
func readSchedule(r *codec.Reader) Schedule {
	s := Schedule(r.Bytes())
	list := codec.NewReader([]byte(s))
	var millis []uint64
	for list.Len() > 0 && list.Err() == nil && len(millis) <= scheduleMax {
		millis = append(millis, list.Uvarint())
	}
	if ScheduleOf(millis) != s { // equal ones have one form
		r.Fail(codec.ErrMalformed)
	}
	return s
}

// retryDelay is how long a message that comes back waits, in milliseconds.
func (m *Machine) retryDelay(x *record, how comeback) int64 {
	if t := m.cfg.Retry; t == RetryAtOnce || how == unseen || t == RetryFailed && how != failure || t == RetryReturned && how != returned {
		return 0
	}
	delay := m.backoff(x)
	if percent, ok := m.cfg.RetryJitter.Get(); ok && mutant != mutantJitterForgotten {
		delay -= chance(uint64(x.seq), x.acquired) % (delay*min(percent, 100)/100 + 1)
	}
	return int64(delay)
}

// backoff is retryDelay without jitter.
func (m *Machine) backoff(x *record) uint64 {
	if s := m.cfg.RetrySchedule; s != "" {
		return s.at(x.acquired)
	}
	first, ok := m.cfg.RetryMin.Get()
	if !ok {
		return 0
	}
	first = min(first, delayMax)
	most, bound := m.cfg.RetryMax.Get()
	factor, grows := m.cfg.RetryMultiplier.Get()
	switch {
	case !bound && grows:
		most = delayMax
	case !bound:
		most = first
	}
	most = min(most, delayMax)
	if tries := max(1, uint64(x.failures)); !grows {
		if first > most/tries {
			return most
		}
		return first * tries
	}
	delay := min(first, most)
	for n := uint32(1); n < x.acquired && factor > 1 && delay > 0 && delay < most; n++ {
		if delay > most/factor {
			return most
		}
		delay *= factor
	}
	return delay
}

// chance is a number that is as good as any for a try of a message, and the same on every replica: the last steps of SplitMix64.
func chance(seq uint64, try uint32) uint64 {
	z := seq*0x9e3779b97f4a7c15 + uint64(try)*0xd1342543de82ef95
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
