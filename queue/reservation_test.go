package queue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/internal/script"
)

// What scripts, random histories and the oracle know of transactions over several queues.

// oReservation is messages that were staged and deliveries that were settled, all set aside for the word of another queue.
type oReservation struct {
	home     QueueID
	since    int64
	orphan   bool
	messages []*oMessage
	settled  []*oMessage
	outcomes []Outcome
}

// oDecision is a committed transaction and who is not known to know it.
type oDecision struct {
	since  int64
	orphan bool
	left   map[QueueID]bool
}

func (o *oracle) prepare(id TxID, s *oSession, c *Command) {
	r := &oReservation{home: c.Peer, since: o.seen, messages: s.stagedAs}
	for _, settle := range s.staged {
		if settle.Op != OpTxSettle {
			continue
		}
		for _, x := range o.outstanding(s, settle.From, settle.To) {
			if settle.Consumer != 0 && settle.Consumer != x.consumer || x.noAck {
				continue
			}
			x.place = oReserved
			r.settled, r.outcomes = append(r.settled, x), append(r.outcomes, settle.Outcome)
			o.takeTurns()
		}
	}
	s.stagedAs = nil
	o.reserved[id] = r
}

func (o *oracle) decide(id TxID, c *Command) {
	d := &oDecision{since: o.seen, left: map[QueueID]bool{}}
	for r := codec.NewReader(c.Envelope); r.Len() > 0; {
		d.left[QueueID(r.Uvarint())] = true
	}
	o.decided[id] = d
}

func (o *oracle) finishTx(id TxID) {
	if o.decided[id] != nil {
		o.forgetDecision(id)
	}
	o.endReserved(id, true)
}

func (o *oracle) forgetDecision(id TxID) {
	if delete(o.decided, id); len(o.decided) == 0 && o.cfg.AutoDelete && o.hadConsumer && len(o.consumers) == 0 && o.count(oReturning) == 0 {
		o.emit(Effect{Kind: KindUnused})
	}
}

func (o *oracle) endReserved(id TxID, commit bool) bool {
	r := o.reserved[id]
	if r == nil {
		return false
	}
	delete(o.reserved, id)
	if commit {
		for i, x := range r.settled {
			x.holds = x.holds && r.outcomes[i] != OutcomeAck && r.outcomes[i] != OutcomeDiscard
		}
		o.enterAll(r.messages)
		for i, x := range r.settled {
			o.settleAs(x, r.outcomes[i])
		}
		return true
	}
	for _, x := range r.messages {
		o.remove(x)
		o.dropped[x.seq] = true
	}
	for _, x := range r.settled {
		x.place, x.failed = oReturning, false
	}
	o.work()
	return true
}

// aboutTx carries out commands outside pipelines.
func (o *oracle) aboutTx(c *Command) Reply {
	id := TxID{c.Node, c.Boot, c.Session, c.Tx}
	d := o.decided[id]
	switch c.Op {
	case OpTxEnd:
		if !o.endReserved(id, c.To == TxCommitted) {
			return Reply{Code: CodeStale}
		}
		return Reply{}
	case OpTxDone:
		if d == nil || !d.left[c.Peer] {
			return Reply{Code: CodeStale}
		}
		if delete(d.left, c.Peer); len(d.left) == 0 {
			o.forgetDecision(id)
		}
		return Reply{}
	}
	if d != nil {
		return Reply{A: TxCommitted}
	}
	for _, s := range slices.Clone(o.sessions) {
		if p := s.pipeline.id; p.Node == id.Node && p.Boot == id.Boot && s.id == id.Session && s.tx == id.N {
			o.dropTx(s)
			if s.lastConsumer == 0 && s.lastD == 0 {
				o.forget(s)
			}
		}
	}
	o.work()
	return Reply{}
}

// orphan notes that sessions of an incarnation have ended.
func (o *oracle) orphan(p PipelineID, ended func(SessionID) bool) {
	hit := func(id TxID, orphan *bool) {
		if id.Node == p.Node && id.Boot == p.Boot && ended(id.Session) && !*orphan {
			*orphan, o.orphaned = true, true
		}
	}
	for id, r := range o.reserved {
		hit(id, &r.orphan)
	}
	for id, d := range o.decided {
		hit(id, &d.orphan)
	}
}

// openTxs lists the transactions that are not over, in order.
func (o *oracle) openTxs() (ids []TxID) {
	for id := range o.reserved {
		ids = append(ids, id)
	}
	for id := range o.decided {
		if o.reserved[id] == nil {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b TxID) int {
		if a.less(b) {
			return -1
		}
		return 1
	})
	return ids
}

// openTxCommand makes a random command about a transaction over several queues, if there is any.
func (g *generator) openTxCommand() (Command, bool) {
	ids := g.o.openTxs()
	for _, s := range g.o.sessions { // those that are staged are asked for, too
		if s.tx > 0 {
			ids = append(ids, TxID{s.pipeline.id.Node, s.pipeline.id.Boot, s.id, s.tx})
		}
	}
	if len(ids) == 0 || g.IntN(3) > 0 {
		return Command{}, false
	}
	id := ids[g.IntN(len(ids))]
	if g.IntN(10) == 0 {
		id.N++
	}
	c := Command{Op: OpTxAsk + Op(g.IntN(3)), Node: id.Node, Boot: id.Boot, Session: id.Session, Tx: id.N}
	switch c.Op {
	case OpTxEnd:
		c.To = uint64(g.IntN(2))
	case OpTxDone:
		c.Peer = 101 + QueueID(g.IntN(3))
	}
	return c, true
}

func queuesString(list []byte) string {
	var parts []string
	for r := codec.NewReader(list); r.Len() > 0; {
		parts = append(parts, fmt.Sprint(r.Uvarint()))
	}
	return strings.Join(parts, ",")
}

func parseQueues(l *script.Line, key string) (list []byte) {
	for _, q := range strings.Split(l.Text(key, "101"), ",") {
		list = AppendQueue(list, QueueID(l.ParseInt(q)))
	}
	return list
}

// openTxCommandString renders tx-ask node=1 boot=1 session=1 tx=1, tx-end ... commit or abort, tx-done ... queue=101.
func openTxCommandString(c *Command) string {
	s := fmt.Sprintf("tx-%s node=%d boot=%d nonce=%d session=%d tx=%d", map[Op]string{OpTxAsk: "ask", OpTxEnd: "end", OpTxDone: "done"}[c.Op], c.Node, c.Boot.Counter, c.Boot.Nonce, c.Session, c.Tx)
	switch {
	case c.Op == OpTxDone:
		s += fmt.Sprintf(" queue=%d", c.Peer)
	case c.Op == OpTxEnd && c.To == TxCommitted:
		s += " commit"
	case c.Op == OpTxEnd:
		s += " abort"
	}
	return s
}

func parseOpenTxCommand(l *script.Line) Command {
	c := Command{Op: map[string]Op{"tx-ask": OpTxAsk, "tx-end": OpTxEnd, "tx-done": OpTxDone}[l.Verb], Node: NodeID(l.Int("node", 1)),
		Boot: Boot{Counter: uint64(l.Int("boot", 1)), Nonce: uint64(l.Int("nonce", 0))}, Session: SessionID(l.Int("session", 1)), Tx: TxNumber(l.Int("tx", 1))}
	switch {
	case c.Op == OpTxDone:
		c.Peer = QueueID(l.Int("queue", 101))
	case l.Has("commit"):
		c.To = TxCommitted
	}
	return c
}

func txString(what string, id TxID, since int64, orphan bool) string {
	s := fmt.Sprintf("%s n%d.%d.%d/s%d/%d since=%d", what, id.Node, id.Boot.Counter, id.Boot.Nonce, id.Session, id.N, since)
	if orphan {
		s += " orphan"
	}
	return s
}

// openTxString shows what is reserved and what is decided.
func (m *Machine) openTxString() string {
	var b strings.Builder
	for _, r := range m.reservations {
		fmt.Fprintf(&b, "%s home=%d:", txString("reserved", r.id, r.since, r.orphan), r.home)
		for i := range r.messages {
			fmt.Fprintf(&b, " #%d", r.messages[i].seq)
		}
		for i := range r.settled {
			fmt.Fprintf(&b, " %s=#%d", outcomeNames[r.settled[i].outcome], r.settled[i].record.seq)
		}
		b.WriteString("\n")
	}
	for _, d := range m.decisions {
		fmt.Fprintf(&b, "%s left=%v\n", txString("decided", d.id, d.since, d.orphan), d.left)
	}
	return b.String()
}

func (o *oracle) openTxString() string {
	var b strings.Builder
	ids := o.openTxs()
	for _, id := range ids {
		if r := o.reserved[id]; r != nil {
			fmt.Fprintf(&b, "%s home=%d:", txString("reserved", id, r.since, r.orphan), r.home)
			for _, x := range r.messages {
				fmt.Fprintf(&b, " #%d", x.seq)
			}
			for i, x := range r.settled {
				fmt.Fprintf(&b, " %s=#%d", outcomeNames[r.outcomes[i]], x.seq)
			}
			b.WriteString("\n")
		}
	}
	for _, id := range ids {
		if d := o.decided[id]; d != nil {
			var left []QueueID
			for q := range d.left {
				left = append(left, q)
			}
			slices.Sort(left)
			fmt.Fprintf(&b, "%s left=%v\n", txString("decided", id, d.since, d.orphan), left)
		}
	}
	return b.String()
}
