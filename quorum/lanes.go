package quorum

import (
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/queue"
)

// The order in which what a pipeline has collected is sent. Batches of commands that store messages follow each other; the swift one, of what consumers say, goes between any two of them.

// lane returns the batch that a command goes to: the swift one if it overtakes what waits, which nothing of its own session may do. Called with p.mu held.
func (p *pipeline) lane(s *Session, op queue.Op, records bool) *batch {
	if s.recorded.Load() {
		mark, marked := p.serials[s.id]
		switch {
		case marked && mark <= p.sent && overtakes(op) && p.isJammed():
			if p.swift == nil {
				p.swift, p.before = newBatch(), p.openSerial()
			}
			if p.swift.count < limits.BatchCommandsMax {
				return p.swift
			}
			fallthrough
		case marked || records:
			p.serials[s.id] = p.openSerial()
		}
	}
	if p.open == nil {
		p.open = newBatch()
	}
	return p.open
}

// overtakes tells whether a command goes ahead of what others publish: those that a consumer's next deliveries wait for, and those that end it.
func overtakes(op queue.Op) bool {
	switch op {
	case queue.OpDrained, queue.OpSettle, queue.OpCredit, queue.OpCancel, queue.OpSessionClose:
		return true
	}
	return false
}

// isJammed tells whether what is collected now has to wait for more than its own sync. Called with p.mu held.
func (p *pipeline) isJammed() bool {
	return len(p.full) > 0 || p.open != nil && p.flying >= limits.PipelineFlightBytes
}

// openSerial is the serial of the open batch, or of the next one if there is none. Called with p.mu held.
func (p *pipeline) openSerial() uint64 { return p.sent + uint64(len(p.full)) + 1 }

// next takes the next batch into flight if the window has room. Called with p.mu held.
func (p *pipeline) next() *batch {
	if len(p.flight) >= limits.PipelineWindowBatches || p.gone {
		return nil
	}
	b := p.nextOpen()
	if b == nil {
		return nil
	}
	p.lastK++
	b.k = p.lastK
	p.flight = append(p.flight, b)
	p.flying += len(b.buf)
	if len(p.flight) == 1 {
		p.oldest.Store(p.host.clock.monotonicMillis())
	}
	return b
}

// nextOpen takes what is sent next out of what waits, nil if it has to wait: the swift batch, and between two of those another one, unless that might have a later command of the same session.
// Called with p.mu held.
func (p *pipeline) nextOpen() *batch {
	waits := (len(p.full) > 0 || p.open != nil) && p.flying < limits.PipelineFlightBytes
	if p.swift != nil && (!p.swiftly || !waits || p.sent+1 >= p.before) {
		b := p.swift
		p.swift, p.swiftly = nil, true
		return b
	}
	if !waits {
		return nil
	}
	p.sent++
	p.swiftly = false
	if len(p.full) == 0 {
		b := p.open
		p.open = nil
		return b
	}
	b := p.full[0]
	p.full[0] = nil
	p.full = p.full[1:]
	if len(p.full) == 0 {
		p.full = nil
	}
	return b
}

// takeAll takes everything that was not answered, in order. Called with p.mu held.
func (p *pipeline) takeAll() []*batch {
	all := append([]*batch(nil), p.flight...)
	if p.swift != nil {
		all = append(all, p.swift)
	}
	all = append(all, p.full...)
	if p.open != nil {
		all = append(all, p.open)
	}
	p.flight, p.flying, p.swift, p.full, p.open = nil, 0, nil, nil, nil
	p.oldest.Store(0)
	clear(p.serials)
	return all
}
