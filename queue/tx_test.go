package queue

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warrenmq/warren/internal/script"
)

// What scripts, random histories and the oracle know of transactions. To the oracle a transaction is a list of commands that wait.

// txCommandString renders tx-enqueue s1 tx=1 ..., tx-settle s1 ack tx=1 ... (otherwise as enqueue and settle) tx-commit s1 tx=1 count=2, tx-prepare
// s1 tx=1 count=2 home=100, tx-decide s1 tx=1 count=2 others=101,102 and tx-finish s1 tx=1.
func txCommandString(c *Command) string {
	plain := *c
	switch c.Op {
	case OpTxEnqueue:
		plain.Op = OpEnqueue
		return fmt.Sprintf("tx-enqueue s%d tx=%d%s", c.Session, c.Tx, strings.TrimPrefix(commandString(&plain), "enqueue"))
	case OpTxSettle:
		plain.Op = OpSettle
		return fmt.Sprintf("tx-%s tx=%d", commandString(&plain), c.Tx)
	}
	switch s := fmt.Sprintf(" s%d tx=%d", c.Session, c.Tx); c.Op {
	case OpTxPrepare:
		return fmt.Sprintf("tx-prepare%s count=%d home=%d", s, c.To, c.Peer)
	case OpTxDecide:
		return fmt.Sprintf("tx-decide%s count=%d others=%s", s, c.To, queuesString(c.Envelope))
	case OpTxFinish:
		return "tx-finish" + s
	default:
		return fmt.Sprintf("tx-commit%s count=%d", s, c.To)
	}
}

func parseTxCommand(t *testing.T, l *script.Line) Command {
	t.Helper()
	var c Command
	switch verb := l.Verb; verb {
	case "tx-ask", "tx-end", "tx-done":
		return parseOpenTxCommand(l)
	case "tx-enqueue":
		l.Verb = "enqueue"
		c = parseCommand(t, l)
		c.Op = OpTxEnqueue
	case "tx-settle":
		l.Verb = "settle"
		c = parseCommand(t, l)
		c.Op = OpTxSettle
	case "tx-prepare":
		c = Command{Op: OpTxPrepare, To: uint64(l.Int("count", 0)), Peer: QueueID(l.Int("home", 100))}
	case "tx-decide":
		c = Command{Op: OpTxDecide, To: uint64(l.Int("count", 0)), Envelope: parseQueues(l, "others")}
	case "tx-finish":
		c = Command{Op: OpTxFinish}
	default:
		c = Command{Op: OpTxCommit, To: uint64(l.Int("count", 0))}
	}
	c.Session, c.Tx = SessionID(l.ParseInt(strings.TrimPrefix(l.Arg(0), "s"))), TxNumber(l.Int("tx", 1))
	return c
}

// String shows what is staged.
func (t *tx) String() string {
	if t == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, " tx=%d(", t.n)
	for i := range t.messages {
		b.WriteString(" " + t.messages[i].String())
	}
	for _, r := range t.settlements {
		fmt.Fprintf(&b, " %s=%d..%d", outcomeNames[r.outcome], r.from, r.to)
	}
	return b.String() + " )"
}

// tx stages into a transaction and mostly commits it, now or when it comes by again.
func (g *generator) tx(id PipelineID) []Command {
	session := SessionID(1 + g.IntN(3))
	var lastD, staged uint64
	n := TxNumber(1)
	if p := g.o.pipeline(id); p != nil {
		if s := g.o.session(p, session); s != nil {
			lastD, n, staged = s.lastD, max(s.tx, 1), uint64(len(s.staged))
		}
	}
	if m := g.IntN(12); m < 2 {
		n, staged = n+TxNumber(m), 0
	}
	var many []Command
	for range g.IntN(4) {
		c := Command{Op: OpTxEnqueue, Session: session, Tx: n, BodyBytes: uint32(g.IntN(3) * 7), Flags: Flags(g.IntN(2))}
		if g.priorities && g.IntN(2) == 0 {
			c.Flags, c.Priority = c.Flags|FlagHasPriority, uint8(g.IntN(6))
		}
		if g.limits && g.IntN(4) == 0 {
			c.Flags, c.Expiration = c.Flags|FlagHasExpiration, []uint64{0, 1000, 5000}[g.IntN(3)]
		}
		g.identify(&c)
		if g.limits {
			g.delay(&c, 4)
		}
		if g.IntN(3) == 0 {
			from := 1 + uint64(g.IntN(int(lastD)+1))
			c = Command{Op: OpTxSettle, Session: session, Tx: n, Outcome: Outcome(1 + g.IntN(5)), From: from, To: from + uint64(g.IntN(4))}
			if g.IntN(4) > 0 {
				g.aimAtOutstanding(id, &c)
			}
		}
		many = append(many, c)
	}
	many = append(many, g.answer(id, session, n)...)
	if g.IntN(3) > 0 || len(many) == 0 {
		count := staged + uint64(len(many))
		c := Command{Op: OpTxCommit, Session: session, Tx: n, To: count - min(count, uint64(g.IntN(6)/5))}
		switch g.IntN(4) {
		case 0:
			c.Op, c.Peer = OpTxPrepare, 100
		case 1:
			c.Op, c.Envelope = OpTxDecide, AppendQueue(AppendQueue(nil, 101), 102+QueueID(g.IntN(2)))
		}
		many = append(many, c)
	}
	if ids := g.o.openTxs(); len(ids) > 0 && g.IntN(3) == 0 {
		if open := ids[g.IntN(len(ids))]; open.Node == id.Node && open.Boot == id.Boot {
			many = append(many, Command{Op: OpTxFinish, Session: open.Session, Tx: open.N})
		}
	}
	return many
}

// answer acknowledges, now and then, a message that holds an id, and publishes another one with it.
func (g *generator) answer(id PipelineID, session SessionID, n TxNumber) []Command {
	p := g.o.pipeline(id)
	if p == nil || !g.dedup || g.IntN(3) > 0 {
		return nil
	}
	s := g.o.session(p, session)
	if s == nil {
		return nil
	}
	for _, x := range g.o.outstanding(s, 1, s.lastD) {
		if x.holds && !x.noAck {
			return []Command{
				{Op: OpTxSettle, Session: session, Tx: n, Outcome: OutcomeAck, From: x.d, To: x.d},
				{Op: OpTxEnqueue, Session: session, Tx: n, Flags: FlagDedup, ID: x.id},
			}
		}
	}
	return nil
}

func (o *oracle) stage(p *oPipeline, s *oSession, c *Command, index uint32) Reply {
	if s == nil {
		if len(o.sessions) == o.b.sessions {
			return Reply{Code: CodeLimit}
		}
		s = o.open(p, c.Session)
	}
	if s.tx != 0 && c.Tx < s.tx {
		return Reply{Code: CodeStale}
	}
	if c.Tx > s.tx {
		o.dropTx(s)
	}
	if len(s.staged) == o.b.txCommands {
		return Reply{Code: CodeLimit}
	}
	s.tx = c.Tx
	copied := *c
	s.staged = append(s.staged, &copied)
	if c.Op == OpTxEnqueue {
		x := o.message(c)
		x.place = oStaged
		o.next++
		o.messages = append(o.messages, x)
		o.emit(Effect{Kind: KindStore, Index: index, Seq: x.seq})
		s.stagedAs = append(s.stagedAs, x)
	}
	return Reply{}
}

func (o *oracle) commit(p *oPipeline, s *oSession, c *Command) Reply {
	if s == nil || s.tx == 0 || c.Tx < s.tx {
		o.work()
		return Reply{Code: CodeStale}
	}
	id := TxID{p.id.Node, p.id.Boot, c.Session, c.Tx}
	var barred bool
	switch c.Op {
	case OpTxPrepare:
		barred = o.reserved[id] != nil || len(o.reserved) == o.b.reservations
	case OpTxDecide:
		barred = o.decided[id] != nil || len(o.decided) == o.b.decisions
	}
	count, bytes := uint64(0), uint64(0)
	for _, x := range s.stagedAs {
		if !x.identified || !o.staysDuplicate(x.id) {
			count, bytes = count+1, bytes+uint64(x.bytes)
		}
	}
	var reply Reply
	switch {
	case c.Tx != s.tx || c.To != uint64(len(s.staged)):
		reply.Code = CodeStale
	case barred:
		reply.Code = CodeLimit
	case o.cfg.Overflow != DropHead && !o.cfg.Relay && count > 0 && o.over(count, bytes):
		reply.Code = CodeRejected
		o.counts.Rejected += uint64(len(s.stagedAs))
	case o.lacks(s):
		reply.Code = CodeNotOutstanding
	case c.Op == OpTxPrepare:
		o.prepare(id, s, c)
	default:
		for _, settle := range s.staged {
			if settle.Op == OpTxSettle && (settle.Outcome == OutcomeAck || settle.Outcome == OutcomeDiscard) {
				for _, x := range o.outstanding(s, settle.From, settle.To) {
					x.holds = x.holds && (x.noAck || settle.Consumer != 0 && settle.Consumer != x.consumer)
				}
			}
		}
		o.enterAll(s.stagedAs)
		if c.Op == OpTxDecide {
			o.decide(id, c)
		}
		for _, settle := range s.staged {
			if settle.Op == OpTxSettle {
				o.settle(s, settle)
			}
		}
		s.stagedAs = nil
	}
	o.dropTx(s)
	if reply.Code != CodeOK {
		o.work()
	}
	if s.lastConsumer == 0 && s.lastD == 0 {
		o.forget(s)
	}
	return reply
}

// aimAtOutstanding has a settlement be about deliveries that the session has, if it has any: neighbours, as a client's are.
func (g *generator) aimAtOutstanding(id PipelineID, c *Command) {
	p := g.o.pipeline(id)
	if p == nil {
		return
	}
	s := g.o.session(p, c.Session)
	if s == nil {
		return
	}
	xs := g.o.outstanding(s, 1, s.lastD)
	if len(xs) == 0 {
		return
	}
	i := g.IntN(len(xs))
	c.From, c.To = xs[i].d, xs[i].d
	for _, x := range xs[i+1:] {
		if x.d != c.To+1 || g.IntN(3) == 0 {
			break
		}
		c.To = x.d
	}
}

// lacks tells whether something is acknowledged or rejected that the session has not.
func (o *oracle) lacks(s *oSession) bool {
	for _, c := range s.staged {
		final := c.Op == OpTxSettle && (c.Outcome == OutcomeAck || c.Outcome == OutcomeDiscard)
		if final && c.Consumer == 0 && uint64(len(o.outstanding(s, c.From, c.To))) < c.To-c.From+1 {
			return true
		}
	}
	return false
}

// enterAll has staged messages become messages of the queue.
func (o *oracle) enterAll(messages []*oMessage) {
	for _, x := range messages {
		if x.identified && o.isDuplicate(x.id) {
			o.counts.Duplicates++
			o.remove(x)
			o.release(x.seq)
			continue
		}
		if x.identified {
			o.accept(x)
		}
		o.counts.Enqueued++
		if k := o.taker(x); k != nil {
			o.give(x, k)
		} else if x.later {
			x.place = oDelayed
		} else if o.cfg.Relay {
			o.relay(x)
		} else {
			x.place = oReady
		}
	}
}

func (o *oracle) dropTx(s *oSession) {
	for _, x := range s.stagedAs {
		o.remove(x)
		o.dropped[x.seq] = true
	}
	s.tx, s.staged, s.stagedAs = 0, nil, nil
}

func (o *oracle) forget(s *oSession) {
	for i := range o.sessions {
		if o.sessions[i] == s {
			o.sessions = append(o.sessions[:i:i], o.sessions[i+1:]...)
			return
		}
	}
}
