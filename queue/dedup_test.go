package queue

import "fmt"

// What scripts, random histories and the oracle know of deduplication. To the oracle an id is held by a message as long as it is somewhere in the queue, or stands in a list that is put in order before every look.

type oID struct {
	id    DedupID
	since int64
}

// isWindow tells whether ids count for a time or a number of others.
func (o *oracle) isWindow() bool { return o.cfg.DedupTTL != 0 || o.cfg.DedupSize != 0 }

// forgetWindow drops what left the window.
func (o *oracle) forgetWindow() {
	size := int(o.b.ids)
	if n, ok := o.cfg.DedupSize.Get(); ok {
		size = min(size, int(n))
	}
	for len(o.window) > size {
		o.window = o.window[1:]
	}
	ttl, ends := o.cfg.DedupTTL.Get()
	for ends && len(o.window) > 0 && o.window[0].since+int64(ttl) <= o.seen {
		o.window = o.window[1:]
	}
}

func (o *oracle) isDuplicate(id DedupID) bool {
	if !o.cfg.Deduplicate {
		return false
	}
	o.forgetWindow()
	for _, w := range o.window {
		if w.id == id {
			return true
		}
	}
	for _, x := range o.messages {
		if x.holds && x.id == id && x.place != oDead {
			return true
		}
	}
	return false
}

// staysDuplicate tells whether an id counts whatever is settled.
func (o *oracle) staysDuplicate(id DedupID) bool {
	held := false
	for _, x := range o.messages {
		held = held || x.holds && x.id == id && x.place != oReady && x.place != oDelayed && x.place != oDead
	}
	return o.isDuplicate(id) && (o.isWindow() || !held)
}

func (o *oracle) accept(x *oMessage) {
	switch {
	case !o.cfg.Deduplicate:
	case o.isWindow():
		o.window = append(o.window, oID{x.id, o.seen})
	default:
		x.holds = true
	}
}

// changeDedup begins anew if the kind changes.
func (o *oracle) changeDedup(to *Config) {
	if to.Deduplicate != o.cfg.Deduplicate || (to.DedupTTL != 0 || to.DedupSize != 0) != o.isWindow() {
		o.window = nil
		for _, x := range o.messages {
			x.holds = false
		}
	}
}

// deduplicate has a Config deduplicate, mostly.
func (g *generator) deduplicate(c *Config) {
	if c.Deduplicate = g.IntN(6) > 0; !c.Deduplicate {
		return
	}
	if g.IntN(2) == 0 {
		c.DedupTTL = LimitOf([]uint64{1, 1000, 3000, 10000}[g.IntN(4)])
	}
	if g.IntN(3) == 0 {
		c.DedupSize = LimitOf([]uint64{1, 2, 3, 100}[g.IntN(4)])
	}
}

// identify gives a message an id, of which there are few.
func (g *generator) identify(c *Command) {
	if g.dedup && g.IntN(4) > 0 {
		c.Flags, c.ID = c.Flags|FlagDedup, scriptID(uint64(g.IntN(9)))
	}
}

// idsString lists the ids that count, each with its message or the time since when it stands in the window.
func (m *Machine) idsString() (text string) {
	m.eachID(func(k *known) {
		if m.cfg.isWindow() {
			text += fmt.Sprintf(" %d since %d", k.id.Low, k.since)
		} else {
			text += fmt.Sprintf(" %d:#%d", k.id.Low, k.holder)
		}
	})
	return text
}
