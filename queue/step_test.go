package queue

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/internal/machine"
	"github.com/warrenmq/warren/internal/script"
)

// step is one log entry of a test: a batch, or one command that travels alone. It stands in scripts as one line, the commands of a batch parted by semicolons.
type step struct {
	pipeline PipelineID
	// offset is added to the k that is due: 0 is the next batch, -1 repeats the last one, 1 leaves a gap.
	offset   int64
	commands []Command
	// restart stands for no entry: the machine goes through a snapshot.
	restart bool
}

func (s *step) isBatch() bool { return !s.restart && s.commands[0].Op.IsBatched() }

// answer is what a step leads to.
type answer struct {
	result  Result // of a batch
	reply   Reply  // of a single command
	effects []Effect
}

// runner applies steps to a machine by way of their encoded form.
type runner struct {
	m     *Machine
	index uint64
	// still stops the clock.
	still bool
	// entries are the encoded steps so far, for replays.
	entries [][]byte
}

// stepMillis is the time between two steps.
const stepMillis = 1000

// now is the stamp of the next step.
func (r *runner) now() int64 {
	if r.still {
		return stepMillis
	}
	return stepMillis * int64(r.index+1)
}

// encode gives the step the next stamp and the k that is due.
func (r *runner) encode(s *step) []byte {
	now := r.now()
	if !s.isBatch() {
		return AppendCommandEntry(nil, now, &s.commands[0])
	}
	b := Batch{Pipeline: s.pipeline, K: uint64(int64(r.m.LastK(s.pipeline)) + 1 + s.offset), NowMillis: now, Count: len(s.commands)}
	for i := range s.commands {
		b.Commands = AppendCommand(b.Commands, &s.commands[i])
	}
	return AppendBatch(nil, &b)
}

// run applies a step. The answer is the caller's.
func (r *runner) run(s *step) (answer, error) {
	if s.restart {
		m, err := restore(r.m.AppendSnapshot(nil), r.m.bounds)
		if err == nil {
			r.m = m
		}
		return answer{}, err
	}
	entry := r.encode(s)
	r.entries = append(r.entries, entry)
	r.index++
	return applyEntry(r.m, r.index, entry)
}

// applyEntry does what a shell does with a log entry.
func applyEntry(m *Machine, index uint64, entry []byte) (a answer, err error) {
	var e Entry
	if err := DecodeEntry(entry, &e); err != nil {
		return a, err
	}
	at := machine.Stamp{Index: index, NowMillis: e.NowMillis}
	if e.Kind == EntryCommand {
		a.reply, a.effects = m.Apply(at, &e.Command, nil)
		return a, nil
	}
	if err := ValidateBatch(entry); err != nil {
		return a, err
	}
	a.result, a.effects = m.ApplyBatch(at, &e.Batch, nil)
	a.result.Exceptions = append([]Exception(nil), a.result.Exceptions...)
	return a, nil
}

var verdictNames = map[Verdict]string{VerdictApplied: "applied", VerdictRepeat: "repeat", VerdictGap: "gap", VerdictFenced: "fenced", VerdictSealed: "sealed", VerdictLimit: "limit", VerdictEvicted: "evicted"}

var codeNames = map[Code]string{CodeOK: "ok", CodeRejected: "rejected", CodeEmpty: "empty", CodeExclusive: "exclusive", CodeInUse: "in-use", CodeNotEmpty: "not-empty",
	CodeLimit: "limit", CodeStale: "stale", CodeGap: "gap", CodeSealed: "sealed", CodeSingleActive: "single-active", CodeNoConsumers: "no-consumers", CodeDeciding: "deciding", CodeDuplicate: "duplicate", CodeNotOutstanding: "not-outstanding"}

var conditionNames = []struct {
	name string
	c    Condition
}{{"if-unused", IfUnused}, {"if-empty", IfEmpty}, {"if-auto-delete", IfAutoDelete}, {"if-expired", IfExpired}}

// How scripts name Config.limits and Config.switches.
var (
	limitNames  = [...]string{"ttl", "length", "bytes", "delivery-limit", "expires", "retry-min", "retry-max", "timeout", "dedup-ttl", "dedup-size", "retry-multiplier", "retry-jitter", "aging"}
	switchNames = [...]string{"count-returns", "dead-letter", "park", "expires-if-empty", "single-active", "relay", "dedup", "draining"}
)

var outcomeNames = map[Outcome]string{OutcomeAck: "ack", OutcomeReturn: "return", OutcomeReturnCounted: "counted", OutcomeDiscard: "discard", OutcomeReturnFresh: "fresh"}

// String renders an answer as it stands in scripts: what is not usual, a line each.
func (a *answer) String() string {
	var b strings.Builder
	if v := a.result.Verdict; v > VerdictApplied {
		fmt.Fprintf(&b, "%s next=%d dead=%d\n", verdictNames[v], a.result.Next, a.result.DeadBoot)
	}
	for _, x := range a.result.Exceptions {
		fmt.Fprintf(&b, "reply[%d] %s\n", x.Index, replyString(x.Reply))
	}
	if !a.reply.IsPlain() {
		fmt.Fprintf(&b, "reply %s\n", replyString(a.reply))
	}
	for _, e := range a.effects {
		b.WriteString(e.String() + "\n")
	}
	return b.String()
}

// equals tells whether two answers are the same to scripts: those that are equal in all are not rendered.
func (a *answer) equals(b *answer) bool {
	x, y := &a.result, &b.result
	return x.Verdict == y.Verdict && x.Next == y.Next && x.DeadBoot == y.DeadBoot && a.reply == b.reply && slices.Equal(x.Exceptions, y.Exceptions) && slices.Equal(a.effects, b.effects) ||
		a.String() == b.String()
}

func replyString(r Reply) string { return fmt.Sprintf("%s %d %d %d", codeNames[r.Code], r.A, r.B, r.C) }

// String renders a step as a script line.
func (s *step) String() string {
	if s.restart {
		return "restart"
	}
	var parts []string
	for i := range s.commands {
		text := commandString(&s.commands[i])
		if i == 0 && s.isBatch() {
			text += fmt.Sprintf(" at=%d.%d.%d.%d", s.pipeline.Node, s.pipeline.Boot.Counter, s.pipeline.Boot.Nonce, s.pipeline.Gen)
			if s.offset != 0 {
				text += fmt.Sprintf(" k=%+d", s.offset)
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func commandString(c *Command) string {
	var b strings.Builder
	word := func(on bool, w string) {
		if on {
			b.WriteString(" " + w)
		}
	}
	pair := func(key string, v int64) {
		if v != 0 {
			fmt.Fprintf(&b, " %s=%d", key, v)
		}
	}
	switch c.Op {
	case OpEnqueue:
		b.WriteString(enqueueString(c))
	case OpSubscribe:
		b.WriteString(subscribeString(c))
	case OpCancel:
		fmt.Fprintf(&b, "cancel s%d c%d", c.Session, c.Consumer)
	case OpDrained:
		fmt.Fprintf(&b, "drained s%d to=%d", c.Session, c.To)
	case OpGet:
		fmt.Fprintf(&b, "get s%d", c.Session)
		word(c.Flags&FlagNoAck != 0, "noack")
	case OpSettle:
		fmt.Fprintf(&b, "settle s%d %s from=%d to=%d", c.Session, outcomeNames[c.Outcome], c.From, c.To)
		pair("consumer", int64(c.Consumer))
	case OpTxEnqueue, OpTxSettle, OpTxCommit, OpTxPrepare, OpTxDecide, OpTxFinish:
		b.WriteString(txCommandString(c))
	case OpPurge, OpQuery, OpTouch, OpTick:
		b.WriteString(map[Op]string{OpPurge: "purge", OpQuery: "query", OpTouch: "touch", OpTick: "tick"}[c.Op])
	case OpSessionClose:
		fmt.Fprintf(&b, "close s%d", c.Session)
		pair("to", int64(c.To))
	case OpUnschedule, OpExpedite:
		b.WriteString(pickString(c))
	case OpCredit:
		fmt.Fprintf(&b, "credit s%d", c.Session)
		if c.Limit != NoLimit {
			fmt.Fprintf(&b, " limit=%d", c.Limit)
		}
	case OpConfigure:
		b.WriteString(configString(&c.Config))
	case OpSeal:
		b.WriteString("seal")
		for _, x := range conditionNames {
			word(c.Condition&x.c != 0, x.name)
		}
	case OpUnseal:
		fmt.Fprintf(&b, "unseal token=%d", c.To)
	case OpNodeGone:
		fmt.Fprintf(&b, "gone node=%d boot=%d", c.Node, c.Boot.Counter)
	case OpResolve, OpDone, OpRun, OpMove, OpForget:
		b.WriteString(outboxCommandString(c))
	case OpTxAsk, OpTxEnd, OpTxDone:
		b.WriteString(openTxCommandString(c))
	case OpEvict:
		fmt.Fprintf(&b, "evict node=%d boot=%d nonce=%d gen=%d", c.Node, c.Boot.Counter, c.Boot.Nonce, c.Gen)
	}
	return b.String()
}

// configString renders a Config as the script command that sets it.
func configString(c *Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "configure version=%d max=%d default=%d", c.Version, c.PriorityMax, c.PriorityDefault)
	if c.AutoDelete {
		b.WriteString(" auto-delete")
	}
	for i, l := range c.limits() {
		if n, ok := l.Get(); ok {
			fmt.Fprintf(&b, " %s=%d", limitNames[i], n)
		}
	}
	if c.Overflow != 0 {
		fmt.Fprintf(&b, " overflow=%d", c.Overflow)
	}
	if c.Retry != 0 {
		fmt.Fprintf(&b, " retry=%d", c.Retry)
	}
	for i, on := range c.switches() {
		if *on {
			b.WriteString(" " + switchNames[i])
		}
	}
	for i, n := range c.RetrySchedule.Millis() {
		b.WriteString([]string{",", " retry-schedule="}[1-min(i, 1)])
		fmt.Fprint(&b, n)
	}
	return b.String()
}

func parseConfig(l *script.Line) Config {
	c := Config{Version: uint64(l.Int("version", 1)), PriorityMax: uint8(l.Int("max", 0)), PriorityDefault: uint8(l.Int("default", 0)),
		AutoDelete: l.Has("auto-delete"), Overflow: Overflow(l.Int("overflow", 0)), Retry: RetryType(l.Int("retry", 0))}
	for i, limit := range c.limits() {
		*limit = parseLimit(l, limitNames[i])
	}
	for i, on := range c.switches() {
		*on = l.Has(switchNames[i])
	}
	if list := l.Text("retry-schedule", ""); list != "" {
		var millis []uint64
		for _, n := range strings.Split(list, ",") {
			millis = append(millis, uint64(l.ParseInt(n)))
		}
		c.RetrySchedule = ScheduleOf(millis)
	}
	return c
}

func parseLimit(l *script.Line, name string) Limit {
	if n := l.Int(name, -1); n >= 0 {
		return LimitOf(uint64(n))
	}
	return 0
}

// outboxCommandString renders commands about outboxes: resolve 1=100,101 2= ...; done queue=100 to=3 (or gone); run queue=7 epoch=1 from=1 sizes=1,2p,3/7 (p: persistent, /7: with the id 7).
func outboxCommandString(c *Command) string {
	var b strings.Builder
	switch c.Op {
	case OpMove:
		return moveString(c)
	case OpResolve:
		b.WriteString("resolve")
		for r := codec.NewReader(c.Envelope); r.Len() > 0; {
			fmt.Fprintf(&b, " %d=", r.Uvarint())
			for i := range r.Count(1) {
				if i > 0 {
					b.WriteString(",")
				}
				fmt.Fprint(&b, r.Uvarint())
			}
		}
	case OpForget:
		fmt.Fprintf(&b, "forget queue=%d epoch=%d", c.Peer, c.PeerEpoch)
	case OpDone:
		fmt.Fprintf(&b, "done queue=%d", c.Peer)
		if c.To == DoneGone {
			b.WriteString(" gone")
		} else {
			fmt.Fprintf(&b, " to=%d", c.To)
		}
	case OpRun:
		fmt.Fprintf(&b, "run queue=%d epoch=%d from=%d sizes=", c.Peer, c.PeerEpoch, c.From)
		var e Command
		for i, rest := 0, c.Envelope; len(rest) > 0; i++ {
			rest, _ = DecodeCommand(rest, &e)
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprint(&b, e.BodyBytes)
			if e.Flags&FlagPersistent != 0 {
				b.WriteString("p")
			}
			if e.Flags&FlagDedup != 0 {
				fmt.Fprintf(&b, "/%d", e.ID.Low)
			}
		}
	}
	return b.String()
}

func parseOutboxCommand(l *script.Line) Command {
	switch l.Verb {
	case "resolve":
		c := Command{Op: OpResolve}
		for _, pair := range l.Pairs("") {
			var targets []QueueID
			for _, t := range strings.Split(pair[1], ",") {
				if t != "" {
					targets = append(targets, QueueID(l.ParseInt(t)))
				}
			}
			c.Envelope = AppendTargets(c.Envelope, uint64(l.ParseInt(pair[0])), targets)
		}
		return c
	case "move":
		return parseMove(l)
	case "forget":
		return Command{Op: OpForget, Peer: QueueID(l.Int("queue", 0)), PeerEpoch: uint64(l.Int("epoch", 1))}
	case "done":
		c := Command{Op: OpDone, Peer: QueueID(l.Int("queue", 0)), To: uint64(l.Int("to", 0))}
		if l.Has("gone") {
			c.To = DoneGone
		}
		return c
	}
	c := Command{Op: OpRun, Peer: QueueID(l.Int("queue", 0)), PeerEpoch: uint64(l.Int("epoch", 1)), From: uint64(l.Int("from", 1))}
	for _, size := range strings.Split(l.Text("sizes", "0"), ",") {
		e := Command{Op: OpEnqueue}
		if s, id, ok := strings.Cut(size, "/"); ok {
			e.Flags, size = FlagDedup, s
			e.ID = scriptID(uint64(l.ParseInt(id)))
		}
		if p, ok := strings.CutSuffix(size, "p"); ok {
			e.Flags, size = e.Flags|FlagPersistent, p
		}
		e.BodyBytes = uint32(l.ParseInt(size))
		c.Envelope = AppendCommand(c.Envelope, &e)
	}
	return c
}

func parseEnqueue(l *script.Line, flags Flags) Command {
	c := Command{Op: OpEnqueue, BodyBytes: uint32(l.Int("size", 0)), Flags: flags}
	if p := l.Int("priority", -1); p >= 0 {
		c.Flags, c.Priority = c.Flags|FlagHasPriority, uint8(p)
	}
	if e := l.Int("expiration", -1); e >= 0 {
		c.Flags, c.Expiration = c.Flags|FlagHasExpiration, uint64(e)
	}
	for _, word := range [...]string{"delay", "until"} {
		if d := l.Int(word, -1); d >= 0 {
			c.Flags, c.Delay, c.DelayUntil = c.Flags|FlagDelay, uint64(d), word == "until"
		}
	}
	if id := l.Int("id", -1); id >= 0 {
		c.Flags, c.ID = c.Flags|FlagDedup, scriptID(uint64(id))
	}
	return c
}

// scriptID is the id that scripts call n.
func scriptID(n uint64) DedupID { return DedupID{High: n % 3, Low: n} }

func enqueueString(c *Command) string {
	var b strings.Builder
	b.WriteString("enqueue")
	if c.BodyBytes != 0 {
		fmt.Fprintf(&b, " size=%d", c.BodyBytes)
	}
	if c.Flags&FlagHasPriority != 0 {
		fmt.Fprintf(&b, " priority=%d", c.Priority)
	}
	if c.Flags&FlagHasExpiration != 0 {
		fmt.Fprintf(&b, " expiration=%d", c.Expiration)
	}
	if c.Flags&FlagDelay != 0 {
		fmt.Fprintf(&b, " %s=%d", map[bool]string{false: "delay", true: "until"}[c.DelayUntil], c.Delay)
	}
	if c.Flags&FlagDedup != 0 {
		fmt.Fprintf(&b, " id=%d", c.ID.Low)
	}
	for _, f := range []struct {
		flag Flags
		word string
	}{{FlagPersistent, " persistent"}, {FlagRedelivered, " redelivered"}, {FlagImmediate, " immediate"}} {
		if c.Flags&f.flag != 0 {
			b.WriteString(f.word)
		}
	}
	return b.String()
}

func subscribeString(c *Command) string {
	s := fmt.Sprintf("subscribe s%d c%d", c.Session, c.Consumer)
	for _, f := range []struct {
		key string
		v   int64
	}{{"prefetch", int64(c.Prefetch)}, {"bytes", int64(c.WindowBytes)}, {"count", int64(c.WindowCount)}, {"priority", int64(c.ConsumerPriority)}} {
		if f.v != 0 {
			s += fmt.Sprintf(" %s=%d", f.key, f.v)
		}
	}
	if n, ok := c.Timeout.Get(); ok {
		s += fmt.Sprintf(" timeout=%d", n)
	}
	for _, f := range []struct {
		flag Flags
		word string
	}{{FlagNoAck, " noack"}, {FlagExclusive, " exclusive"}, {FlagLimited, " limited"}} {
		if c.Flags&f.flag != 0 {
			s += f.word
		}
	}
	return s
}

// parseStep reads a script line. The pipeline is at=node.boot.nonce.gen, 1.1.0.1 unless told; k=+1 or k=-1 is an offset; times=n repeats a command within the batch.
func parseStep(t *testing.T, lines []*script.Line) step {
	t.Helper()
	s := step{pipeline: PipelineID{Node: 1, Boot: Boot{Counter: 1}, Gen: 1}}
	for i, l := range lines {
		if l.Verb == "restart" {
			return step{restart: true}
		}
		if i == 0 {
			s.offset = l.Int("k", 0)
			for j, part := range strings.Split(l.Text("at", "1.1.0.1"), ".") {
				n, err := strconv.ParseUint(part, 10, 64)
				if err != nil {
					l.Fatalf("%v", err)
				}
				switch j {
				case 0:
					s.pipeline.Node = NodeID(n)
				case 1:
					s.pipeline.Boot.Counter = n
				case 2:
					s.pipeline.Boot.Nonce = n
				case 3:
					s.pipeline.Gen = n
				}
			}
		}
		c := parseCommand(t, l)
		for range l.Int("times", 1) {
			s.commands = append(s.commands, c)
		}
	}
	return s
}

func parseCommand(t *testing.T, l *script.Line) Command {
	t.Helper()
	flag := func(word string, f Flags) Flags {
		if l.Has(word) {
			return f
		}
		return 0
	}
	session := func() SessionID { return SessionID(l.ParseInt(strings.TrimPrefix(l.Arg(0), "s"))) }
	to := uint64(l.Int("to", 0))
	switch l.Verb {
	case "tx-enqueue", "tx-settle", "tx-commit", "tx-prepare", "tx-decide", "tx-finish", "tx-ask", "tx-end", "tx-done":
		return parseTxCommand(t, l)
	case "enqueue":
		return parseEnqueue(l, flag("persistent", FlagPersistent)|flag("redelivered", FlagRedelivered)|flag("immediate", FlagImmediate))
	case "subscribe":
		return Command{Op: OpSubscribe, Session: session(), Consumer: ConsumerID(l.ParseInt(strings.TrimPrefix(l.Arg(1), "c"))), Prefetch: uint32(l.Int("prefetch", 0)),
			WindowBytes: uint32(l.Int("bytes", 0)), WindowCount: uint32(l.Int("count", 0)), ConsumerPriority: int32(l.Int("priority", 0)), Timeout: parseLimit(l, "timeout"),
			Flags: flag("noack", FlagNoAck) | flag("exclusive", FlagExclusive) | flag("limited", FlagLimited)}
	case "cancel":
		return Command{Op: OpCancel, Session: session(), Consumer: ConsumerID(l.ParseInt(strings.TrimPrefix(l.Arg(1), "c")))}
	case "drained":
		return Command{Op: OpDrained, Session: session(), To: to}
	case "get":
		return Command{Op: OpGet, Session: session(), Flags: flag("noack", FlagNoAck)}
	case "settle":
		c := Command{Op: OpSettle, Session: session(), From: uint64(l.Int("from", int64(to))), Consumer: ConsumerID(l.Int("consumer", 0))}
		c.To = uint64(l.Int("to", int64(c.From)))
		for o, name := range outcomeNames {
			if name == l.Arg(1) {
				c.Outcome = o
			}
		}
		return c
	case "purge", "query", "touch", "tick":
		return Command{Op: map[string]Op{"purge": OpPurge, "query": OpQuery, "touch": OpTouch, "tick": OpTick}[l.Verb]}
	case "close":
		return Command{Op: OpSessionClose, Session: session(), To: to}
	case "unschedule", "expedite":
		return parsePick(l)
	case "credit":
		return Command{Op: OpCredit, Session: session(), Limit: uint32(l.Int("limit", NoLimit))}
	case "configure":
		return Command{Op: OpConfigure, Config: parseConfig(l)}
	case "seal":
		c := Command{Op: OpSeal}
		for _, x := range conditionNames {
			if l.Has(x.name) {
				c.Condition |= x.c
			}
		}
		return c
	case "unseal":
		return Command{Op: OpUnseal, To: uint64(l.Int("token", 0))}
	case "gone":
		return Command{Op: OpNodeGone, Node: NodeID(l.Int("node", 1)), Boot: Boot{Counter: uint64(l.Int("boot", 1))}}
	case "resolve", "done", "run", "move", "forget":
		return parseOutboxCommand(l)
	case "evict":
		return Command{Op: OpEvict, Node: NodeID(l.Int("node", 1)), Boot: Boot{Counter: uint64(l.Int("boot", 1)), Nonce: uint64(l.Int("nonce", 0))}, Gen: uint64(l.Int("gen", 1))}
	}
	l.Fatalf("unknown verb")
	return Command{}
}
