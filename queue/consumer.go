package queue

import "sort"

// consumer is a subscription of a session. What it has outstanding is counted here; the deliveries themselves are the session's.
type consumer struct {
	session *session
	// prev and next link the consumers of one priority that wait for messages; waiting tells whether it is linked.
	prev, next *consumer

	id          ConsumerID
	priority    int32
	prefetch    uint32
	windowBytes uint32
	windowCount uint32
	timeout     Limit // how long it may keep a delivery, in milliseconds; absent: as the queue says

	// unsettled counts its outstanding deliveries that need an acknowledgement, undrained its outstanding deliveries with d above the session's drained.
	unsettled      uint32
	undrained      uint32
	undrainedBytes uint64

	noAck     bool
	exclusive bool
	waiting   bool
	// barred tells that nothing but the session's limit keeps it from waiting.
	barred bool
	// passive tells that it stands by: the queue gives messages to one consumer at a time, and that is another one, or will be.
	passive bool
	// joined is its number among all consumers that the queue ever had.
	joined uint64
	// epoch is that of its last take-over, 0 if it had none.
	epoch uint64

	// place is scratch for snapshots.
	place int
}

// hasCredit tells whether the consumer may get some message now. Whether it may get the one at the head depends on its size: see fits.
func (c *consumer) hasCredit() bool {
	return c.hasOwnCredit() && (c.noAck || c.session.unsettled < c.session.limit)
}

// hasOwnCredit is hasCredit but for the limit of the session.
func (c *consumer) hasOwnCredit() bool {
	limit := c.prefetch
	if mutant == mutantPrefetchOffByOne && limit > 0 {
		limit++
	}
	return !c.passive && (limit == 0 || c.unsettled < limit) && c.undrained < c.windowCount && (c.undrained == 0 || c.undrainedBytes < uint64(c.windowBytes))
}

// keepsLimits tells whether what the consumer has outstanding may be.
func (c *consumer) keepsLimits() bool {
	return (c.prefetch == 0 || c.unsettled <= c.prefetch) && c.undrained <= c.windowCount && (c.undrained <= 1 || c.undrainedBytes <= uint64(c.windowBytes))
}

// fits tells whether a message of that size fits into the byte window of a consumer that has credit. An empty window takes any one message.
func (c *consumer) fits(bytes uint32) bool {
	return c.undrained == 0 || c.undrainedBytes+uint64(bytes) <= uint64(c.windowBytes)
}

// line is the consumers of one priority: how many there are, and those with credit in the order in which they get the next messages.
type line struct {
	priority    int32
	size        int
	first, last *consumer
}

func (l *line) push(c *consumer) {
	c.prev, c.next = l.last, nil
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
	c.waiting = true
}

func (l *line) unlink(c *consumer) {
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next, c.waiting = nil, nil, false
}

// roster is all consumers of a queue by priority, the highest first. It decides who is next: the highest priority with credit, in turn among equals.
type roster struct {
	lines     []line
	size      int
	waiting   int
	hungry    int // sessions that have barred consumers and are not marked as wanting more
	exclusive bool
}

// line returns the place of a priority's line, or where it belongs.
func (r *roster) line(priority int32) (int, bool) {
	if len(r.lines) == 1 && r.lines[0].priority == priority {
		return 0, true
	}
	i := sort.Search(len(r.lines), func(i int) bool { return r.lines[i].priority <= priority })
	return i, i < len(r.lines) && r.lines[i].priority == priority
}

func (r *roster) join(c *consumer) {
	i, ok := r.line(c.priority)
	if !ok {
		r.lines = append(r.lines, line{})
		copy(r.lines[i+1:], r.lines[i:])
		r.lines[i] = line{priority: c.priority}
	}
	r.lines[i].size++
	r.size++
	r.exclusive = r.exclusive || c.exclusive
}

func (r *roster) leave(c *consumer) {
	i, _ := r.line(c.priority)
	if c.waiting {
		r.lines[i].unlink(c)
		r.waiting--
	}
	r.bar(c, false)
	r.lines[i].size--
	r.size--
	if c.exclusive {
		r.exclusive = false
	}
	if r.lines[i].size == 0 {
		r.lines = append(r.lines[:i], r.lines[i+1:]...)
	}
}

// place has a consumer wait if it has credit: one that did not stands at the end of its line.
func (r *roster) place(c *consumer) {
	has := c.hasCredit()
	if has != c.waiting {
		i, _ := r.line(c.priority)
		if has {
			r.lines[i].push(c)
			r.waiting++
		} else {
			r.lines[i].unlink(c)
			r.waiting--
		}
	}
	if c.barred || c.session.limit != NoLimit {
		r.bar(c, !has && c.hasOwnCredit())
	}
}

// placeAll does so for the consumers of a session whose limit has come to bind, or does not bind any more.
func (r *roster) placeAll(s *session) {
	for _, c := range s.consumers {
		r.place(c)
	}
}

// bar notes whether only the session's limit keeps a consumer from waiting.
func (r *roster) bar(c *consumer, barred bool) {
	if c.barred == barred {
		return
	}
	s := c.session
	before := s.isHungry()
	c.barred = barred
	if barred {
		s.barred++
	} else {
		s.barred--
	}
	r.count(s, before)
}

// mark notes whether a session is marked as wanting more.
func (r *roster) mark(s *session, wants bool) {
	before := s.isHungry()
	s.wants = wants
	r.count(s, before)
}

// count follows a change of what isHungry says of a session.
func (r *roster) count(s *session, before bool) {
	switch now := s.isHungry(); {
	case now && !before:
		r.hungry++
	case before && !now:
		r.hungry--
	}
}

// served moves a consumer that just got a message to the end of its line, or out of it.
func (r *roster) served(c *consumer) {
	i, _ := r.line(c.priority)
	if mutant == mutantRoundRobinStuck && c.hasCredit() {
		return
	}
	r.lines[i].unlink(c)
	if c.hasCredit() {
		r.lines[i].push(c)
	} else {
		r.waiting--
		r.bar(c, c.hasOwnCredit())
	}
	if s := c.session; s.unsettled == s.limit && !c.noAck {
		r.placeAll(s)
	}
}

// pick returns the consumer that gets a message of that size next, nil if there is none.
func (r *roster) pick(bytes uint32) *consumer {
	if r.waiting == 0 {
		return nil
	}
	for i := range r.lines {
		for c := r.lines[i].first; c != nil; c = c.next {
			if c.fits(bytes) {
				return c
			}
		}
	}
	return nil
}

// subscribe carries out OpSubscribe.
func (m *Machine) subscribe(p *pipeline, cmd *Command) Reply {
	s := p.session(cmd.Session)
	if s != nil && cmd.Consumer <= s.lastConsumer {
		return Reply{Code: CodeStale}
	}
	exclusive := cmd.Flags&FlagExclusive != 0
	if exclusive && m.cfg.SingleActive {
		return Reply{Code: CodeExclusive}
	}
	if m.roster.exclusive || exclusive && m.roster.size > 0 {
		return Reply{Code: CodeExclusive}
	}
	if m.roster.size >= m.bounds.consumers || s == nil && m.sessions >= m.bounds.sessions {
		return Reply{Code: CodeLimit}
	}
	if s == nil {
		s = m.openSession(p, cmd.Session)
	}
	c := &consumer{
		session: s, id: cmd.Consumer, priority: cmd.ConsumerPriority, prefetch: cmd.Prefetch,
		windowBytes: cmd.WindowBytes, windowCount: min(cmd.WindowCount, WindowCountMax),
		noAck: cmd.Flags&FlagNoAck != 0, exclusive: exclusive, timeout: cmd.Timeout,
	}
	if c.windowBytes == 0 {
		c.windowBytes = WindowBytesDefault
	}
	if c.windowCount == 0 {
		c.windowCount = WindowCountDefault
	}
	s.lastConsumer = c.id
	s.consumers = append(s.consumers, c) // ids rise, so the order holds
	m.succession.join(c)
	m.roster.join(c)
	if cmd.Flags&FlagLimited != 0 && s.limit == NoLimit {
		s.limit = 0
		m.roster.placeAll(s)
	}
	m.roster.place(c)
	m.elect()
	m.hadConsumer, m.unusedDue, m.lastUse = true, false, m.seenMillis
	return Reply{}
}

// cancel carries out OpCancel. What the consumer has outstanding stays with the session.
func (m *Machine) cancel(p *pipeline, cmd *Command) Reply {
	s := p.session(cmd.Session)
	if s == nil {
		return Reply{}
	}
	m.removeConsumer(s, cmd.Consumer)
	return Reply{A: s.lastD}
}

// removeConsumer removes a consumer, if it is there.
func (m *Machine) removeConsumer(s *session, id ConsumerID) {
	for i, c := range s.consumers {
		if c.id == id {
			s.consumers = append(s.consumers[:i], s.consumers[i+1:]...)
			s.recent = nil
			m.dismiss(c)
			m.elect()
			return
		}
	}
}

// dismiss removes a consumer. When all are gone that go, elect must follow.
func (m *Machine) dismiss(c *consumer) {
	m.succession.leave(c)
	m.roster.leave(c)
	m.lastUse = m.seenMillis
	if m.roster.size == 0 && m.cfg.AutoDelete {
		m.unusedDue = true
	}
}
