package queue

import (
	"fmt"

	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/internal/script"
)

// What scripts and random histories know of messages that are to become ready later.

// pickString renders unschedule n=2, or expedite 5000=3 6000=4: those of a time and with a seq.
func pickString(c *Command) string {
	s := map[Op]string{OpUnschedule: "unschedule", OpExpedite: "expedite"}[c.Op]
	if c.To > 0 {
		s += fmt.Sprintf(" n=%d", c.To)
	}
	for r := codec.NewReader(c.Envelope); r.Len() > 0; {
		s += fmt.Sprintf(" %d=%d", r.Uvarint(), r.Uvarint())
	}
	return s
}

func parsePick(l *script.Line) Command {
	c := Command{Op: map[string]Op{"unschedule": OpUnschedule, "expedite": OpExpedite}[l.Verb], To: uint64(l.Int("n", 0))}
	for _, pair := range l.Pairs("") {
		if pair[0][0] >= '0' && pair[0][0] <= '9' {
			c.Envelope = AppendDelayed(c.Envelope, l.ParseInt(pair[0]), Seq(l.ParseInt(pair[1])))
		}
	}
	return c
}

// delay has one in so many messages become ready later.
func (g *generator) delay(c *Command, of int) {
	if g.IntN(of) > 0 {
		return
	}
	c.Flags |= FlagDelay
	if c.DelayUntil = g.IntN(2) == 0; c.DelayUntil {
		c.Delay = uint64(max(0, g.o.seen+int64(g.IntN(9)-2)*stepMillis/2))
		return
	}
	c.Delay = []uint64{0, 1, 999, 1000, 1001, 2000, 5000, 20000}[g.IntN(8)]
}

// pick drops or hurries delayed messages.
func (g *generator) pick() Command {
	c := Command{Op: OpUnschedule + Op(g.IntN(2)), To: uint64(1 + g.IntN(3))}
	if g.IntN(2) == 0 {
		return c
	}
	var list []byte
	for _, x := range g.o.asleep() {
		if g.IntN(2) == 0 {
			list = AppendDelayed(list, x.until-int64(g.IntN(8)/7), x.seq)
		}
	}
	if len(list) > 0 {
		c.To, c.Envelope = 0, list
	}
	return c
}
