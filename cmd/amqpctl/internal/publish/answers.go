package publish

import (
	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/lean"
)

// read takes the broker's answers until the connection ends.
func (p *Publisher) read() {
	defer close(p.done)
	for {
		closed, err := p.batch()
		if err == nil && !closed {
			select {
			case p.moved <- struct{}{}:
			default:
			}
			if err = p.conn.Frames.Fill(); err != nil {
				err = exit.Wrap(err, "connection lost")
			}
		}
		if closed || err != nil {
			p.mu.Lock()
			p.failure = err
			p.mu.Unlock()
			return
		}
	}
}

// batch handles every frame that is here. closed tells that the broker agreed to close.
func (p *Publisher) batch() (closed bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		f, ok, err := p.conn.Frames.Next()
		if !ok || err != nil {
			return false, err
		}
		switch f.Method() {
		case amqp.MethodBasicAck:
			err = p.confirms.Settle(f.Payload, p.sent, func(uint64) { p.acked++ })
		case amqp.MethodBasicNack:
			err = p.confirms.Settle(f.Payload, p.sent, func(seq uint64) {
				p.refused++
				p.bad(seq)
			})
		case amqp.MethodBasicReturn:
			p.returned++
			// The confirm of a returned message follows the return, so it is one of those that have no answer yet.
			p.bad(p.confirms.Answered() + 1)
		case amqp.MethodConnectionBlocked:
			var m amqp.ConnectionBlocked
			if err = m.Decode(f.Payload); err == nil {
				p.blocking = m.Reason
			}
		case amqp.MethodConnectionUnblocked:
			p.blocking = ""
		case amqp.MethodConnectionCloseOk:
			return true, nil
		default:
			err = lean.Closed(f) // the content of a returned message is skipped: the sender knows it
		}
		if err != nil {
			return false, err
		}
	}
}

func (p *Publisher) bad(seq uint64) {
	if p.badFirst == 0 || seq < p.badFirst {
		p.badFirst = seq
	}
}
