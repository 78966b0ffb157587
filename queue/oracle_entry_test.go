package queue

// This half of the oracle is about log entries: order and fences of batches, single commands, seals, counts and the answer to an attach. The other half is about messages.

func (o *oracle) begin() {
	o.out, o.returns, o.gathers, o.releases, o.assign = nil, o.b.returns, o.b.gathers, o.b.releases, o.b.assignments
	o.deaths, o.lists = o.b.deaths, o.lists[:0]
}

// see takes over the time of an entry.
func (o *oracle) see(now int64) {
	if now <= o.seen {
		return
	}
	o.seen = now
	if o.lastUse == 0 {
		o.lastUse = now
	}
	o.expire()
}

func (o *oracle) batch(now int64, id PipelineID, k uint64, commands []Command) answer {
	if dead, ok := o.dead[id.Node]; ok && id.Boot.Counter <= dead {
		return answer{result: Result{Verdict: VerdictFenced, DeadBoot: dead}}
	}
	lower := 0
	for _, p := range o.pipelines {
		if p.id.Node == id.Node && p.id.Boot.Counter == id.Boot.Counter && p.id.Boot.Nonce != id.Boot.Nonce {
			return answer{result: Result{Verdict: VerdictFenced, DeadBoot: id.Boot.Counter}}
		}
		if p.id.Node == id.Node && (p.id.Boot.Counter < id.Boot.Counter || p.id.Gen < id.Gen) {
			lower++
		}
	}
	p, last := o.pipeline(id), o.lastK(id)
	switch {
	case o.evicted(id):
		return answer{result: Result{Verdict: VerdictEvicted}}
	case k <= last:
		r := Result{Verdict: VerdictRepeat, Next: last + 1}
		if k+limitsWindow > last {
			r.Exceptions = p.outcomes[k-1]
		}
		return answer{result: r}
	case k > last+1:
		return answer{result: Result{Verdict: VerdictGap, Next: last + 1}}
	case o.sealed:
		return answer{result: Result{Verdict: VerdictSealed, Next: last + 1}}
	case p == nil && len(o.pipelines)-lower >= o.b.pipelines:
		return answer{result: Result{Verdict: VerdictLimit, Next: 1}}
	}
	o.begin()
	o.see(now)
	if p == nil {
		if id.Boot.Counter > 0 {
			o.nodeGone(id.Node, id.Boot.Counter-1)
		}
		for i, lower := range o.pipelines {
			if lower.id.Node == id.Node {
				o.endAll(lower)
				o.pipelines = append(o.pipelines[:i:i], o.pipelines[i+1:]...)
				o.work()
				break
			}
		}
		p = &oPipeline{id: id}
		o.pipelines = append(o.pipelines, p)
		o.after()
	}
	var xs []Exception
	for i := range commands {
		if reply := o.command(p, &commands[i], uint32(i)); reply != (Reply{}) {
			xs = append(xs, Exception{Index: uint32(i), Reply: reply})
		}
		o.after()
	}
	p.outcomes = append(p.outcomes, xs)
	return answer{result: Result{Verdict: VerdictApplied, Next: k + 1, Exceptions: xs}, effects: o.out}
}

const limitsWindow = 4

func (o *oracle) single(now int64, c *Command) answer {
	o.begin()
	o.see(now)
	var reply Reply
	switch c.Op {
	case OpTick:
		o.work()
		o.timeOut()
	case OpConfigure:
		if reply.Code = CodeStale; c.Config.Version > o.cfg.Version {
			o.forgetWindow()
			o.changeDedup(&c.Config)
			reply.Code, o.cfg = CodeOK, c.Config
			o.takeTurns()
			o.due = o.due && o.cfg.AutoDelete
			if o.cfg.Draining {
				o.retire()
			}
		}
	case OpSeal:
		reply = o.seal(c.Condition)
	case OpUnseal:
		if reply.Code = CodeStale; o.sealed && c.To == o.seals && !o.cfg.Draining {
			reply.Code, o.sealed = CodeOK, false
		}
	case OpNodeGone:
		reply = o.nodeGone(c.Node, c.Boot.Counter)
	case OpResolve:
		reply = o.resolve(c.Envelope)
	case OpDone:
		reply = o.doneWith(c.Peer, c.To)
	case OpRun:
		reply = o.runOf(c)
	case OpForget:
		id := oMark{c.Peer, c.PeerEpoch}
		if _, known := o.marks[id]; !known {
			reply.Code = CodeStale
		}
		delete(o.marks, id)
	case OpTxAsk, OpTxEnd, OpTxDone:
		reply = o.aboutTx(c)
	case OpEvict:
		reply.Code = CodeStale
		if p := o.pipeline(PipelineID{c.Node, c.Boot, c.Gen}); p != nil && !p.evicted {
			reply.Code, p.evicted = CodeOK, true
			o.endAll(p)
			o.out = append(o.out, Effect{Kind: KindEvicted, Node: c.Node, BootCounter: c.Boot.Counter})
			o.work()
		}
	}
	o.after()
	return answer{reply: reply, effects: o.out}
}

func (o *oracle) seal(cond Condition) Reply {
	c := o.sum()
	ready := c.Ready
	switch {
	case o.sealed:
	case cond&IfExpired != 0 && !o.isUnused():
		return Reply{Code: CodeInUse}
	case cond&IfUnused != 0 && len(o.consumers) > 0, cond&IfAutoDelete != 0 && (!o.cfg.AutoDelete || !o.hadConsumer || len(o.consumers) > 0):
		return Reply{Code: CodeInUse}
	case cond&IfEmpty != 0 && ready+c.Unacked+o.fetched()+uint64(o.count(oStaged))+c.Delayed > 0, cond&IfAutoDelete != 0 && o.count(oReturning) > 0:
		return Reply{Code: CodeNotEmpty}
	case len(o.decided) > 0:
		return Reply{Code: CodeDeciding}
	default:
		o.sealed = true
		o.seals++
	}
	if o.cfg.Relay {
		ready = uint64(len(o.unresolved()))
		if xs := o.asleep(); len(xs) > 0 && xs[0].until <= o.seen {
			ready++
		}
	}
	return Reply{A: o.seals, B: ready, C: uint64(o.count(oDead))}
}

// fetched counts what is outstanding without acknowledgement.
func (o *oracle) fetched() (n uint64) {
	for _, x := range o.in(oOut) {
		if x.noAck {
			n++
		}
	}
	return n
}

func (o *oracle) isUnused() bool {
	expires, ok := o.cfg.Expires.Get()
	c := o.sum()
	return ok && len(o.consumers) == 0 && !o.cfg.Draining && !(o.cfg.ExpiresIfEmpty && c.Ready+c.Unacked+o.fetched()+uint64(o.count(oStaged))+c.Delayed > 0) && o.lastUse+int64(expires) <= o.seen
}

func (o *oracle) isAtRest() bool {
	for _, x := range o.messages {
		if x.place != oReady && x.place != oDelayed {
			return false
		}
	}
	unused := o.cfg.AutoDelete && o.hadConsumer && len(o.consumers) == 0
	return len(o.sessions) == 0 && len(o.reserved) == 0 && len(o.decided) == 0 && len(o.dropped) == 0 && !o.sealed && !unused
}

func (o *oracle) nodeGone(node NodeID, counter uint64) Reply {
	if dead, ok := o.dead[node]; ok && counter <= dead {
		return Reply{Code: CodeStale}
	}
	o.dead[node] = counter
	var kept []*oPipeline
	for _, p := range o.pipelines {
		if p.id.Node != node || p.id.Boot.Counter > counter {
			kept = append(kept, p)
			continue
		}
		o.endAll(p)
	}
	o.pipelines = kept
	o.work()
	return Reply{}
}

func (o *oracle) endAll(p *oPipeline) {
	o.orphan(p.id, func(SessionID) bool { return true })
	o.together = true
	for _, s := range append([]*oSession(nil), o.sessions...) {
		if s.pipeline == p {
			o.end(s, 0)
		}
	}
	o.together = false
	o.takeTurns()
}

func (o *oracle) evicted(id PipelineID) bool {
	for _, p := range o.pipelines {
		if p.id.Node == id.Node && p.id.Boot == id.Boot && (p.id.Gen > id.Gen || p.id.Gen == id.Gen && p.evicted) {
			return true
		}
	}
	return false
}

// sum counts everything.
func (o *oracle) sum() Counts {
	c := o.counts
	c.NextSeq, c.Consumers = o.next, uint64(len(o.consumers))
	for _, x := range o.messages {
		switch {
		case x.place == oDelayed:
			c.Delayed, c.DelayedBytes = c.Delayed+1, c.DelayedBytes+uint64(x.bytes)
			continue
		case x.place == oDead:
			c.Dead, c.DeadBytes = c.Dead+1, c.DeadBytes+uint64(x.bytes)
			if x.reason.isMove() {
				c.Moving++
			}
			continue
		case x.place == oReady:
			c.Ready, c.ReadyBytes = c.Ready+1, c.ReadyBytes+uint64(x.bytes)
		case x.place == oOut && x.noAck, x.place == oStaged:
			continue
		default:
			c.Unacked, c.UnackedBytes = c.Unacked+1, c.UnackedBytes+uint64(x.bytes)
		}
		if x.persistent {
			c.Persistent, c.PersistentBytes = c.Persistent+1, c.PersistentBytes+uint64(x.bytes)
		}
	}
	return c
}

// sync answers an attach.
func (o *oracle) sync(p *oPipeline, answered uint64, marks map[SessionID]uint64) SyncState {
	st := SyncState{Known: true, LastK: o.lastK(p.id), DeadBoot: o.dead[p.id.Node], Evicted: o.evicted(p.id)}
	for k := answered + 1; k <= st.LastK; k++ {
		if k+limitsWindow > st.LastK {
			st.Outcomes = append(st.Outcomes, BatchOutcome{k, p.outcomes[k-1]})
		}
	}
	for id := SessionID(0); id < 100; id++ {
		s := o.session(p, id)
		if s == nil {
			continue
		}
		sy := SessionSync{Session: id, LastD: s.lastD, LostSome: s.lostSome}
		if s.lostSome {
			sy.Seen = min(marks[id], s.lastD)
			for _, x := range o.outstanding(s, 1, sy.Seen) {
				sy.Kept = append(sy.Kept, x.d)
			}
		}
		if s.wants {
			sy.Ready = max(1, uint64(o.count(oReady)))
		}
		for _, k := range o.consumers {
			if k.session == s {
				sy.Consumers = append(sy.Consumers, k.id)
			}
		}
		for _, x := range o.outstanding(s, marks[id]+1, s.lastD) {
			sy.Deliveries = append(sy.Deliveries, o.delivery(x))
		}
		st.Sessions = append(st.Sessions, sy)
	}
	return st
}

// hasWork tells whether a tick has something to do.
func (o *oracle) hasWork() bool {
	for _, x := range o.in(oDelayed) {
		if x.until <= o.seen {
			return true
		}
	}
	for _, s := range o.sessions {
		if s.check != 0 && s.check <= o.seen {
			return true
		}
	}
	_, k := o.assignable()
	return len(o.dropped) > 0 || o.count(oReturning) > 0 || k != nil || o.mustGo() != nil || len(o.dueNow()) > 0
}

// nextDeath is when the next message expires, 0 if none does.
func (o *oracle) nextDeath() (next int64) {
	for _, x := range o.in(oDelayed) {
		if next == 0 || x.until < next {
			next = x.until
		}
	}
	for _, s := range o.sessions {
		if s.check != 0 && (next == 0 || s.check < next) {
			next = s.check
		}
	}
	ttl, ok := o.cfg.MessageTTL.Get()
	for _, x := range o.in(oReady) {
		for _, due := range []int64{x.due, x.born + int64(ttl)} {
			if due != 0 && (due == x.due || ok) && (next == 0 || due < next) {
				next = due
			}
		}
	}
	return next
}
