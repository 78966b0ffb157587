package bench

import (
	"encoding/binary"
	"time"
)

// stampBytes is the size of the stamp at the front of every body, and so the smallest body.
//
//	0        4                    12       14         16
//	| seq    | sent, nanoseconds  | run    | producer | filler ...
//
// The first twelve octets are those of RabbitMQ's PerfTest (sequence, then time), so its consumers understand them.
const stampBytes = 16

// stamp is what a body says about itself. Seq is the low half of the producer's sequence number, which starts at 1.
type stamp struct {
	seq       uint32
	sentNanos int64
	run       uint16
	producer  uint16
}

// put writes the stamp to the front of a body.
func (s stamp) put(body []byte) {
	_ = body[stampBytes-1]
	binary.BigEndian.PutUint32(body[0:], s.seq)
	binary.BigEndian.PutUint64(body[4:], uint64(s.sentNanos))
	binary.BigEndian.PutUint16(body[12:], s.run)
	binary.BigEndian.PutUint16(body[14:], s.producer)
}

// readStamp reads the front of a body.
func readStamp(body []byte) stamp {
	_ = body[stampBytes-1]
	return stamp{
		seq: binary.BigEndian.Uint32(body[0:]), sentNanos: int64(binary.BigEndian.Uint64(body[4:])),
		run: binary.BigEndian.Uint16(body[12:]), producer: binary.BigEndian.Uint16(body[14:]),
	}
}

// clock gives wall-clock nanoseconds that never step: read once from the wall and continued on the monotonic clock. Two processes on one machine
// so measure latencies between each other.
type clock struct {
	start time.Time
	wall  int64
}

func newClock() clock {
	now := time.Now()
	return clock{start: now, wall: now.UnixNano()}
}

func (c clock) now() int64 { return c.wall + int64(time.Since(c.start)) }
