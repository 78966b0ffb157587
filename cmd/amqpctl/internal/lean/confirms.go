package lean

import (
	"encoding/binary"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
)

// settlementBytes is the payload of basic.ack and basic.nack: method id, tag, bits; bit 0 is "multiple" in both.
const settlementBytes = 4 + 8 + 1

// Confirms follows the broker's answers to published messages, numbered from 1. At most a window of numbers may be without an answer. It belongs
// to the goroutine that reads.
type Confirms struct {
	settled  []bool // by number modulo the window
	answered uint64
}

// NewConfirms makes room for a window of messages.
func NewConfirms(window int) *Confirms { return &Confirms{settled: make([]bool, window)} }

// Answered returns the largest number up to which all are answered.
func (c *Confirms) Answered() uint64 { return c.answered }

// Settle takes the payload of basic.ack or basic.nack when numbers up to `published` are out, and calls each for every number that it answers. An
// answer to a number that is not out is an Internal error.
func (c *Confirms) Settle(payload []byte, published uint64, each func(seq uint64)) error {
	window := uint64(len(c.settled))
	if len(payload) < settlementBytes || window == 0 {
		return exit.Errorf(exit.Internal, "the broker sent a confirm that cannot be")
	}
	tag, multiple := binary.BigEndian.Uint64(payload[4:]), payload[12]&1 != 0
	if tag == 0 && multiple {
		tag = published
	}
	first := tag
	if multiple {
		first = c.answered + 1
	}
	if tag == 0 || tag > published || tag <= c.answered && !multiple || !multiple && c.settled[tag%window] {
		return exit.Errorf(exit.Internal, "the broker confirmed number %d, which is not outstanding (of %d to %d)", tag, c.answered+1, published)
	}
	for seq := first; seq <= tag; seq++ {
		if slot := seq % window; !c.settled[slot] {
			c.settled[slot] = true
			each(seq)
		}
	}
	for c.answered < published && c.settled[(c.answered+1)%window] {
		c.answered++
		c.settled[c.answered%window] = false
	}
	return nil
}
