package queue

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var seedsFlag = flag.Int("queue.seeds", 0, "number of random histories of TestModel (0: the environment's QUEUE_SEEDS, else as many as fit into some 15 s)")

var firstSeedFlag = flag.Int("queue.first", 0, "the first seed of TestModel, so that several processes share many")

// viewSteps is at how many steps of a history one has its views compared: they cost more than all else, and what is wrong with one stays wrong for a while.
const viewSteps = 3

const (
	modelSeedsDefault = 2500
	modelSteps        = 120

	// modelGCPercent is for histories that leave little behind each: collecting after every 4 MB costs a fifth of the time.
	modelGCPercent = 1000
)

func modelSeeds() int {
	if *seedsFlag > 0 {
		return *seedsFlag
	}
	if n, err := strconv.Atoi(os.Getenv("QUEUE_SEEDS")); err == nil && n > 0 {
		return n
	}
	if testing.Short() {
		return modelSeedsDefault / 10
	}
	return modelSeedsDefault
}

// TestModel holds the machine against the oracle over random histories. A history that fails is shrunk and printed as a script.
func TestModel(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(modelGCPercent))
	for seed := *firstSeedFlag; seed < *firstSeedFlag+modelSeeds(); seed++ {
		if (seed+1)%10_000 == 0 {
			t.Logf("seed %d", seed+1) // with -v long runs show how far they are
		}
		if h, err := explore(uint64(seed)); err != nil {
			small, err := h.shrink()
			t.Fatalf("seed %d: %v\n%s", seed, err, small)
		}
	}
}

// history is a random test: limits and steps.
type history struct {
	b     bounds
	steps []step
}

// String renders a history as a script to put into testdata.
func (h *history) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "bounds pipelines=%d sessions=%d consumers=%d txCommands=%d returns=%d gathers=%d releases=%d assignments=%d deaths=%d lanes=%d marks=%d reservations=%d decisions=%d letters=%d ids=%d garbage=%d sweeps=%d window=%d\n", h.b.pipelines, h.b.sessions, h.b.consumers, h.b.txCommands, h.b.returns, h.b.gathers, h.b.releases, h.b.assignments, h.b.deaths, h.b.lanes, h.b.marks, h.b.reservations, h.b.decisions, h.b.letters, h.b.ids, h.b.garbage, h.b.sweeps, h.b.window)
	for i := range h.steps {
		s.WriteString(h.steps[i].String() + "\n")
	}
	return s.String() + "state\n----\n"
}

// run plays the history.
func (h *history) run() error {
	p := newTrial(h.b, newOracle(h.b))
	for i := range h.steps {
		if err := p.play(&h.steps[i], i == len(h.steps)-1); err != nil {
			return fmt.Errorf("step %d: %s: %w", i, &h.steps[i], err)
		}
	}
	return nil
}

// explore plays the history of a seed while it is made, so that one oracle does for both. It returns what was played.
func explore(seed uint64) (*history, error) {
	g, h := newGenerator(seed)
	p := newTrial(h.b, g.o)
	for i := range modelSteps {
		h.steps = append(h.steps, g.step())
		if err := p.play(&h.steps[i], i == modelSteps-1); err != nil {
			return h, fmt.Errorf("step %d: %s: %w", i, &h.steps[i], err)
		}
	}
	return h, nil
}

// trial plays steps on a machine, on one that goes through snapshots, and on the oracle.
type trial struct {
	r       *runner
	through *Machine
	o       *oracle
	n       int    // steps so far
	a, b    []byte // snapshots of the two machines
}

func newTrial(b bounds, o *oracle) *trial {
	return &trial{r: &runner{m: newMachine(Config{}, b)}, through: newMachine(Config{}, b), o: o}
}

func (p *trial) play(s *step, last bool) (err error) {
	p.n++
	r, o := p.r, p.o
	if s.restart {
		p.through, err = restore(p.through.AppendSnapshot(nil), r.m.bounds)
		return err
	}
	if s.isBatch() && int64(r.m.LastK(s.pipeline))+1+s.offset < 1 {
		return nil // a repeat of nothing
	}
	want := o.play(r.now(), s)
	got, err := r.run(s)
	if err == nil {
		err = compare(r.m, o, &got, &want)
	}
	if err == nil && (p.n%viewSteps == 1 || last) {
		err = compareViews(r.m, o)
	}
	if err != nil {
		return err
	}
	also, err := applyEntry(p.through, r.index, r.entries[len(r.entries)-1])
	if err != nil || !also.equals(&got) {
		return fmt.Errorf("after a restore (%v):\n%swithout:\n%s", err, also.String(), got.String())
	}
	p.a, p.b = r.m.AppendSnapshot(p.a[:0]), p.through.AppendSnapshot(p.b[:0])
	if !bytes.Equal(p.a, p.b) {
		return fmt.Errorf("equal states give different snapshots:\n%x\n%x", p.a, p.b)
	}
	return nil
}

// play has the oracle do a step that is no restart.
func (o *oracle) play(now int64, s *step) answer {
	if s.isBatch() {
		return o.batch(now, s.pipeline, uint64(int64(o.lastK(s.pipeline))+1+s.offset), s.commands)
	}
	return o.single(now, &s.commands[0])
}

// compare holds one step's outcome and the state after it against the oracle's.
func compare(m *Machine, o *oracle, got, want *answer) error {
	if !got.equals(want) {
		return fmt.Errorf("answered\n%swant\n%s", got, want)
	}
	if got.result.Next != want.result.Next || got.result.DeadBoot != want.result.DeadBoot {
		return fmt.Errorf("answered %+v, want %+v", got.result, want.result)
	}
	if err := m.Check(); err != nil {
		return err
	}
	if a, b := m.Counts(), o.sum(); a != b {
		return fmt.Errorf("counts %+v, want %+v", a, b)
	}
	next, some := o.seen, o.hasWork()
	if !some {
		next = o.nextDeath()
		some = next != 0
	}
	if millis, due := m.NextDeadline(); m.dedup.sweeping {
		if !due || millis != o.seen {
			return fmt.Errorf("next deadline: %d %t while ids are looked for", millis, due)
		}
	} else if due != some || due && max(millis, o.seen) != max(next, o.seen) {
		return fmt.Errorf("next deadline: %d %t, want %d %t", millis, due, next, some)
	}
	if want := o.cfg.Draining && o.count(oDead) == 0 && len(o.decided) == 0; m.Drained() != want {
		return fmt.Errorf("drained: %t", !want)
	}
	if due, ok := m.Expiry(); (ok && due <= o.seen) != o.isUnused() {
		return fmt.Errorf("expiry: %d %t", due, ok)
	}
	if unused := o.cfg.AutoDelete && o.hadConsumer && len(o.consumers) == 0 && o.count(oReturning) == 0; unused != m.Unused() {
		return fmt.Errorf("unused: %t", !unused)
	}
	if want := o.isAtRest(); m.AtRest() != want {
		return fmt.Errorf("at rest: %t", !want)
	}
	if token, sealed := m.Sealed(); sealed != o.sealed || sealed && token != o.seals {
		return fmt.Errorf("sealed: %t %d", sealed, token)
	}
	i := 0
	for q := range m.Live {
		if i == len(o.messages) || o.messages[i].seq != q {
			return fmt.Errorf("live: message %d", q)
		}
		i++
	}
	if i != len(o.messages) {
		return fmt.Errorf("live: %d messages, want %d", i, len(o.messages))
	}
	return nil
}

// compareViews holds what others see of the state against the oracle's: looks at messages, the outbox, open transactions, the answers to attaches.
func compareViews(m *Machine, o *oracle) error {
	if err := comparePeeks(m, o); err != nil {
		return err
	}
	if a, b := m.outboxString(), o.outboxString(); a != b {
		return fmt.Errorf("outbox %s, want %s", a, b)
	}
	if a, b := m.openTxString(), o.openTxString(); a != b {
		return fmt.Errorf("transactions\n%swant\n%s", a, b)
	}
	for _, p := range o.pipelines {
		a, b := m.Sync(p.id, 1, []SessionMark{{2, 2}, {1, 3}}), o.sync(p, 1, map[SessionID]uint64{1: 3, 2: 2})
		if !reflect.DeepEqual(a, b) && syncString(a) != syncString(b) {
			return fmt.Errorf("sync:\n%swant\n%s", syncString(a), syncString(b))
		}
	}
	return nil
}

// shrink drops steps and commands as long as the history still fails, and returns what is left with its failure.
func (h *history) shrink() (*history, error) {
	fails := func(steps []step) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("panic: %v", v)
			}
		}()
		return (&history{h.b, steps}).run()
	}
	best := h.steps
	for size := len(best) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(best); {
			if less := append(append([]step(nil), best[:at]...), best[at+size:]...); fails(less) != nil {
				best = less
			} else {
				at += size
			}
		}
	}
	for i := range best {
		for j := 0; j < len(best[i].commands) && len(best[i].commands) > 1; {
			less := append([]step(nil), best...)
			less[i].commands = append(append([]Command(nil), best[i].commands[:j]...), best[i].commands[j+1:]...)
			if fails(less) != nil {
				best = less
			} else {
				j++
			}
		}
	}
	return &history{h.b, best}, fails(best)
}

// generator makes random steps that make sense often enough: it plays them on an oracle to know what is there.
type generator struct {
	*rand.Rand
	o          *oracle
	boots      map[NodeID]Boot
	gens       map[NodeID]uint64 // less one
	priorities bool
	limits     bool
	alone      bool
	limited    bool
	timeouts   bool
	aging      bool
	dedup      bool
	bulk       int
}

func newGenerator(seed uint64) (*generator, *history) {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), boots: map[NodeID]Boot{}, gens: map[NodeID]uint64{}}
	h := &history{b: bounds{pipelines: 2 + g.IntN(3), sessions: 2 + g.IntN(5), consumers: 2 + g.IntN(5), txCommands: 2 + g.IntN(6), returns: 1 + g.IntN(6), gathers: 1 + g.IntN(8), releases: 1 + g.IntN(3), assignments: 3 + g.IntN(30), deaths: 1 + g.IntN(6), lanes: 2 + g.IntN(2), marks: 2 + g.IntN(3), letters: 1000, reservations: 1 + g.IntN(4), decisions: 1 + g.IntN(4), ids: 2 + uint64(g.IntN(4)), garbage: uint64(g.IntN(3)), sweeps: 1 + g.IntN(4), window: 1 + Seq(g.IntN(6))}}
	if g.IntN(3) == 0 {
		h.b.letters = uint64(1 + g.IntN(4))
	}
	if g.IntN(4) > 0 {
		h.b.returns, h.b.gathers, h.b.releases, h.b.assignments, h.b.deaths = 1000, 1000, 1000, 1000, 1000
	}
	g.limits, g.alone, g.dedup = g.IntN(2) == 0, g.IntN(4) == 0, g.IntN(2) == 0
	g.o, g.priorities, g.limited, g.bulk = newOracle(h.b), g.IntN(2) == 0, g.IntN(2) == 0, []int{1, 1, 3, 12}[g.IntN(4)]
	g.timeouts, g.aging = g.IntN(2) == 0, g.IntN(2) == 0
	return g, h
}

// generate makes the history of a seed without a machine.
func generate(seed uint64) *history {
	g, h := newGenerator(seed)
	for now := int64(0); len(h.steps) < modelSteps; {
		s := g.step()
		h.steps = append(h.steps, s)
		if !s.restart && (!s.isBatch() || int64(g.o.lastK(s.pipeline))+1+s.offset > 0) {
			now += stepMillis
			g.o.play(now, &s)
		}
	}
	return h
}

func (g *generator) step() step {
	switch n := g.IntN(100); {
	case n < 4:
		return step{restart: true}
	case n < 16 || g.limits && n < 30:
		return step{commands: []Command{g.single()}}
	}
	node := NodeID(1 + g.IntN(3))
	boot, ok := g.boots[node]
	if n := g.IntN(60); !ok || n == 0 {
		boot = Boot{Counter: boot.Counter + 1 + uint64(g.IntN(2)), Nonce: uint64(g.IntN(2))}
		g.boots[node], g.gens[node] = boot, 0
	} else if n == 1 {
		boot.Counter -= min(boot.Counter, 1) // an old incarnation speaks
	} else if n == 2 {
		boot.Nonce++
	}
	id := PipelineID{Node: node, Boot: boot, Gen: 1 + g.gens[node]}
	switch n := g.IntN(40); {
	case n < 12 && g.o.evicted(id):
		g.gens[node]++
		id.Gen++
	case n == 12:
		id.Gen -= min(g.gens[node], 1) // an old gen speaks
	}
	s := step{pipeline: id}
	if g.IntN(12) == 0 {
		s.offset = int64(g.IntN(7)) - 5
	}
	for range 1 + g.IntN(4) {
		s.commands = append(s.commands, g.commands(s.pipeline)...)
	}
	if g.IntN(8) == 0 {
		s.commands = append(s.commands, g.tx(s.pipeline)...)
	}
	return s
}

func (g *generator) single() Command {
	if g.limits && g.IntN(2) == 0 {
		return g.outboxCommand()
	}
	if c, ok := g.openTxCommand(); ok {
		return c
	}
	switch n := g.IntN(23); {
	case n >= 20:
		node := NodeID(1 + g.IntN(3))
		return Command{Op: OpEvict, Node: node, Boot: g.boots[node], Gen: 1 + g.gens[node] - min(g.gens[node], uint64(g.IntN(5)/4))}
	case n < 10:
		return Command{Op: OpTick}
	case n < 13:
		c := Config{Version: g.o.cfg.Version + uint64(g.IntN(3)), AutoDelete: g.IntN(3) > 0}
		if g.priorities {
			c.PriorityMax, c.PriorityDefault = uint8(g.IntN(5)), uint8(g.IntN(6))
			if g.aging {
				c.PriorityAging = LimitOf([]uint64{0, 700, 2000, 9000}[g.IntN(4)])
			}
		}
		if g.limits {
			g.limit(&c)
		}
		c.SingleActive = g.alone && g.IntN(8) > 0
		c.Draining = g.o.cfg.Draining || g.limits && g.IntN(20) == 0
		c.ConsumerTimeout = g.timeout(4, 0, 1, 1000, 3000, 8000, 20000)
		if g.dedup {
			g.deduplicate(&c)
		}
		return Command{Op: OpConfigure, Config: c}
	case n < 15:
		return Command{Op: OpSeal, Condition: Condition(1 << g.IntN(5) & 15)}
	case n < 19:
		return Command{Op: OpUnseal, To: g.o.seals - uint64(g.IntN(10)/9)}
	}
	node := NodeID(1 + g.IntN(3))
	return Command{Op: OpNodeGone, Node: node, Boot: Boot{Counter: g.boots[node].Counter - min(g.boots[node].Counter, uint64(g.IntN(2)))}}
}

// limit adds limits to a Config.
func (g *generator) limit(c *Config) {
	some := func(of int, values ...uint64) Limit {
		if g.IntN(of) > 0 {
			return 0
		}
		return LimitOf(values[g.IntN(len(values))])
	}
	c.MessageTTL = some(3, 0, 500, 1000, 3000, 10000)
	c.MaxLength = some(3, 0, 1, 2, 4, 8)
	c.MaxLengthBytes = some(4, 0, 10, 30)
	c.DeliveryLimit = some(2, 0, 1, 2)
	c.Expires = some(3, 1, 1000, 4000)
	c.Overflow = Overflow(g.IntN(3))
	if g.IntN(2) == 0 {
		c.Retry, c.RetryMin, c.RetryMax = RetryType(1+g.IntN(3)), some(1, 1, 1000, 3000), some(2, 2000, 5000)
		c.RetryMultiplier, c.RetryJitter = some(2, 1, 2, 3), some(3, 0, 20, 100)
		if c.RetryMultiplier == LimitOf(3) {
			c.RetryMin = 0 // nothing waits unless there is a schedule
		}
		if g.IntN(3) == 0 {
			c.RetrySchedule = ScheduleOf([]uint64{uint64(g.IntN(2000)), 2500, uint64(g.IntN(6000))}[:1+g.IntN(3)])
		}
	}
	c.Relay = g.IntN(6) == 0
	c.CountReturns, c.DeadLetter, c.ParkPoison, c.ExpiresIfEmpty = g.IntN(3) == 0, g.IntN(2) == 0, g.IntN(2) == 0, g.IntN(2) == 0
}

// timeout makes a timeout, unless the history has none; one in so many is absent.
func (g *generator) timeout(of int, values ...uint64) Limit {
	if !g.timeouts || g.IntN(of) == 0 {
		return 0
	}
	return LimitOf(values[g.IntN(len(values))])
}

// commands makes one command of a batch, or some of a kind.
func (g *generator) commands(id PipelineID) []Command {
	session := SessionID(1 + g.IntN(3))
	s := &oSession{}
	if p := g.o.pipeline(id); p != nil {
		if known := g.o.session(p, session); known != nil {
			s = known
		}
	}
	near := func(d uint64) uint64 { return uint64(max(0, int64(d)+int64(g.IntN(5))-3)) }
	c := Command{Session: session}
	switch n := g.IntN(100); {
	case n < 35:
		return g.enqueues()
	case n < 50:
		c.Op, c.Consumer, c.Prefetch = OpSubscribe, s.lastConsumer+1-ConsumerID(g.IntN(12)/11*int(min(s.lastConsumer, 1))), uint32(g.IntN(4))
		c.WindowBytes, c.WindowCount, c.ConsumerPriority = uint32(g.IntN(3)*15), uint32(g.IntN(6)), int32(g.IntN(5)/3-g.IntN(5)/4)
		if g.IntN(4) == 0 {
			c.Flags = FlagNoAck
		}
		if g.IntN(15) == 0 {
			c.Flags |= FlagExclusive
		}
		c.Timeout = g.timeout(2, 0, 500, 2000, 6000)
		if g.limited {
			c.Flags |= Flags(g.IntN(4)/3^1) * FlagLimited
		}
	case n < 55:
		c.Op, c.Consumer = OpCancel, 1+ConsumerID(g.IntN(int(s.lastConsumer)+1))
	case n < 68:
		c.Op, c.To = OpDrained, near(s.lastD)
	case n < 74:
		c.Op, c.Flags = OpGet, Flags(g.IntN(2))*FlagNoAck
	case n < 79 && g.limited:
		c.Op, c.Limit = OpCredit, []uint32{0, 1, 2, 3, 4, NoLimit}[g.IntN(6)]
	case n < 92:
		c.Op, c.Outcome = OpSettle, Outcome(1+g.IntN(5))
		if xs := g.o.outstanding(s, 1, s.lastD); len(xs) > 0 {
			c.From = xs[g.IntN(len(xs))].d
		}
		c.From = max(1, c.From-min(c.From, uint64(g.IntN(2))))
		c.To = c.From + uint64(g.IntN(5))
		if g.IntN(4) == 0 {
			c.Consumer = ConsumerID(g.IntN(3))
		}
	case n < 93:
		c = Command{Op: OpPurge}
	case n < 95:
		c = Command{Op: []Op{OpQuery, OpTouch}[g.IntN(2)]}
	case n < 97:
		if c = g.move(); g.limits && g.IntN(2) == 0 {
			c = g.pick()
		}
	default:
		c.Op, c.To = OpSessionClose, near(s.lastD)
	}
	return []Command{c}
}

// enqueues makes some equal messages.
func (g *generator) enqueues() (many []Command) {
	c := Command{Op: OpEnqueue, BodyBytes: uint32([]int{0, 1, 5, 10, 30}[g.IntN(5)]), Flags: Flags(g.IntN(2))}
	if g.IntN(20) == 0 {
		c.Flags |= FlagRedelivered
	}
	if g.IntN(12) == 0 {
		c.Flags |= FlagImmediate
	}
	if g.priorities && g.IntN(2) == 0 {
		c.Flags, c.Priority = c.Flags|FlagHasPriority, uint8(g.IntN(6))
	}
	if g.limits && g.IntN(4) == 0 {
		c.Flags, c.Expiration = c.Flags|FlagHasExpiration, []uint64{0, 1, 999, 1000, 5000, 20000}[g.IntN(6)]
	}
	if g.limits {
		g.delay(&c, 4)
	}
	for range 1 + g.IntN(g.bulk) {
		g.identify(&c)
		many = append(many, c)
	}
	return many
}

// TestModelReaches makes sure that random histories meet what they are for: every op, outcome, verdict, code and effect, and work that is left for a tick.
func TestModelReaches(t *testing.T) {
	met := map[string]bool{}
	missing := strings.Split("op 16,op 17,op 18,op 41,op 42,op 43,op 44,code deciding,effect 11,"+
		"op 1,op 2,op 3,op 4,op 5,op 6,op 7,op 8,op 9,op 10,op 11,op 12,op 13,op 14,op 15,op 19,op 20,op 32,op 33,op 34,op 35,op 36,op 38,op 39,op 40,outcome 1,outcome 2,outcome 3,outcome 4,outcome 5,"+
		"applied,repeat,gap,fenced,sealed,limit,code ok,code rejected,code empty,code exclusive,code in-use,code not-empty,code limit,code stale,code gap,code single-active,code sealed,code no-consumers,code duplicate,sweeping true,window true,window false,effect 1,effect 2,effect 3,effect 4,effect 5,effect 7,effect 8,effect 9,effect 13,effect 14,"+
		"returning true,gathering true,dropped true,assignable true,overdue true", ",")
	for seed := uint64(0); seed < modelSeedsDefault && len(missing) > 0; seed++ {
		h := generate(seed)
		r := &runner{m: newMachine(Config{}, h.b)}
		for i := range h.steps {
			s := &h.steps[i]
			if !s.restart && s.isBatch() && int64(r.m.LastK(s.pipeline))+1+s.offset < 1 {
				continue
			}
			a, err := r.run(s)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range s.commands {
				met[fmt.Sprintf("op %d", c.Op)] = true
				met[fmt.Sprintf("outcome %d", c.Outcome)] = true
			}
			met[verdictNames[a.result.Verdict]] = true
			met["code "+codeNames[a.reply.Code]] = true
			for _, x := range a.result.Exceptions {
				met["code "+codeNames[x.Reply.Code]] = true
			}
			for _, e := range a.effects {
				met[fmt.Sprintf("effect %d", e.Kind)] = true
			}
			met[fmt.Sprintf("returning %t", !r.m.returning.isEmpty())] = true
			met[fmt.Sprintf("gathering %t", r.m.returning.gathering > 0)] = true
			met[fmt.Sprintf("dropped %t", r.m.dropped.n > 0)] = true
			met[fmt.Sprintf("assignable %t", r.m.canAssign())] = true
			met[fmt.Sprintf("overdue %t", r.m.unusedDue)] = true
			met[fmt.Sprintf("sweeping %t", r.m.dedup.sweeping)] = true
			if r.m.dedup.ids != nil {
				met[fmt.Sprintf("window %t", r.m.dedup.order != nil)] = true
			}
		}
		missing = slices.DeleteFunc(missing, func(what string) bool { return met[what] })
	}
	for _, want := range missing {
		t.Errorf("never met: %s", want)
	}
	if reflect.DeepEqual(generate(1), generate(2)) {
		t.Error("two seeds give the same history")
	}
}
