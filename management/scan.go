package management

import (
	"context"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/message"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// A scan goes through the ready messages of a queue, page by page, and tells of each where it stands and how it died last. Bodies stay where they are.

// scanned is one message. Without a death died, reason, times and diedMillis are empty; one that could not be read has unreadable set and no more.
type scanned struct {
	priority, seq     uint64
	unreadable        bool
	key, id           string // routing key, of before the last death, and property message_id
	died, reason      string // where and why it died last
	times, diedMillis uint64 // how often it died so, and when for the first time
}

// scan is a page: next and moving are those of quorum.Seen.
type scan struct {
	total, next, moving uint64
	messages            []scanned
}

func (x *scan) pack(p *pack) {
	p.uints(&x.total, &x.next, &x.moving)
	packRows(p, &x.messages, func(p *pack, m *scanned) {
		p.uints(&m.priority, &m.seq)
		p.bool(&m.unreadable)
		for _, s := range [...]*string{&m.key, &m.id, &m.died, &m.reason} {
			p.text(s)
		}
		p.uints(&m.times, &m.diedMillis)
	})
}

// fromHead is the place before all messages.
var fromHead = quorum.Place{Priority: 256}

// scan looks at up to count messages behind a place. The error is a failure.
func (s *Server) scan(ctx context.Context, q *meta.Queue, behind quorum.Place, count int) (page *scan, err error) {
	err = s.lookAnywhere(ctx, q, func(ctx context.Context, node meta.NodeID) (err error) {
		if node == s.opt.Host.Node() {
			page, err = s.scanOwn(ctx, q.ID, behind, count)
			return err
		}
		body, err := s.peers.ask(ctx, node, question{kind: askScan, id: uint64(q.ID), priority: uint64(behind.Priority), after: uint64(behind.Seq), count: uint64(count)})
		if err != nil {
			return err
		}
		in := unpack(body)
		page = new(scan)
		page.pack(in)
		return in.in.Err()
	})
	return page, err
}

// answerScan scans for another node.
func (s *Server) answerScan(p *pack, q *question) error {
	ctx, cancel := context.WithTimeout(s.peers.ctx, askTimeout)
	defer cancel()
	page, err := s.scanOwn(ctx, meta.QueueID(q.id), quorum.Place{Priority: int(min(q.priority, 256)), Seq: queue.Seq(q.after)}, int(min(q.count, limits.PeekMessagesMax)))
	if err == nil {
		page.pack(p)
	}
	return err
}

// scanOwn looks at this node's replica.
func (s *Server) scanOwn(ctx context.Context, id meta.QueueID, behind quorum.Place, count int) (*scan, error) {
	page := new(scan)
	seen, err := s.opt.Host.Peek(ctx, id, quorum.Look{Behind: &behind, Count: count}, func(_ int, m *queue.Peeked, envelope []byte) bool {
		x := scanned{priority: uint64(m.Priority), seq: uint64(m.Place)}
		x.read(envelope)
		page.messages = append(page.messages, x)
		return true
	})
	page.total, page.next, page.moving = seen.Total, uint64(seen.Next), seen.Moving
	return page, err
}

// read takes from a message what a scan tells.
func (m *scanned) read(envelope []byte) {
	e, err := message.Parse(envelope)
	if err != nil {
		m.unreadable = true
		return
	}
	m.key = string(e.RoutingKey)
	if v, err := amqp.ScanProperties(e.Properties); err == nil {
		id, _ := v.MessageID()
		m.id = string(id)
	}
	if deaths, err := message.ParseDeaths(e.Deaths); err == nil && len(deaths.List) > 0 {
		d := &deaths.List[0]
		m.died, m.reason, m.times, m.diedMillis = d.Queue, d.Reason, d.Count, uint64(max(d.TimeMillis, 0))
		if len(d.Keys) > 0 {
			m.key = d.Keys[0]
		}
	}
}

// place is where the message stands.
func (m *scanned) place() quorum.Place {
	return quorum.Place{Priority: int(m.priority), Seq: queue.Seq(m.seq)}
}
