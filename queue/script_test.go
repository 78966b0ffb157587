package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/warrenmq/warren/internal/script"
)

// TestScripts plays testdata/*.txt. Beside the commands (see commandString) there are the verbs
//
//	bounds returns=2 releases=3 ...   begins anew with small limits (they stand at bounds)
//	state                             prints everything that the machine holds
//	counts                            prints Counts
//	sync at=... answered=k s1=d ...   prints Sync
//	due                               prints NextDeadline, Unused and Sealed
//	live                              prints Live
//	peek ready|unacked offset=n count=n  prints PeekReady or PeekUnacked
//	scan priority=n after=n count=n   prints ScanReady
//	snapshot                          prints AppendSnapshot in hex
//	restart                           goes through a snapshot
//
// After every line the machine must pass Check and come back the same from a snapshot.
func TestScripts(t *testing.T) {
	script.RunFiles(t, "testdata/*.txt", func(t *testing.T) func(string) string {
		r := &runner{m: New(Config{})}
		return func(block string) string {
			var b strings.Builder
			for _, text := range strings.Split(block, "\n") {
				b.WriteString(r.play(t, text))
				if err := r.m.Check(); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				if err := sameAfterRestore(r.m); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
			return b.String()
		}
	})
}

func sameAfterRestore(m *Machine) error {
	before := m.AppendSnapshot(nil)
	again, err := restore(before, m.bounds)
	if err != nil {
		return err
	}
	if err := again.Check(); err != nil {
		return fmt.Errorf("restored: %w", err)
	}
	if after := again.AppendSnapshot(nil); string(after) != string(before) {
		return fmt.Errorf("snapshot changed by a restore:\n%x\n%x", before, after)
	}
	return nil
}

// play answers one line of a script.
func (r *runner) play(t *testing.T, text string) string {
	lines := script.Lines(t, text)
	if len(lines) == 0 {
		return ""
	}
	switch l := lines[0]; l.Verb {
	case "bounds":
		b := standardBounds
		for _, f := range []struct {
			key string
			v   *int
		}{{"pipelines", &b.pipelines}, {"sessions", &b.sessions}, {"consumers", &b.consumers}, {"txCommands", &b.txCommands}, {"returns", &b.returns}, {"gathers", &b.gathers}, {"releases", &b.releases}, {"assignments", &b.assignments}, {"deaths", &b.deaths}, {"lanes", &b.lanes}, {"marks", &b.marks}, {"reservations", &b.reservations}, {"decisions", &b.decisions}, {"sweeps", &b.sweeps}} {
			*f.v = int(l.Int(f.key, int64(*f.v)))
		}
		b.letters = uint64(l.Int("letters", int64(b.letters)))
		b.ids, b.garbage = uint64(l.Int("ids", int64(b.ids))), uint64(l.Int("garbage", int64(b.garbage)))
		b.window = Seq(l.Int("window", int64(b.window)))
		r.m = newMachine(Config{}, b)
		return ""
	case "state":
		return stateString(r.m)
	case "counts":
		return fmt.Sprintf("%+v\n", r.m.Counts())
	case "due":
		millis, due := r.m.NextDeadline()
		due = due && millis <= r.m.seenMillis
		token, sealed := r.m.Sealed()
		return fmt.Sprintf("work=%t unused=%t sealed=%t token=%d\n", due, r.m.Unused(), sealed, token)
	case "snapshot":
		return fmt.Sprintf("%x\n", r.m.AppendSnapshot(nil))
	case "live":
		var seqs []Seq
		r.m.Live(func(q Seq) bool {
			seqs = append(seqs, q)
			return true
		})
		return fmt.Sprintf("live %v\n", seqs)
	case "peek":
		look := r.m.PeekReady
		if l.Arg(0) == "unacked" {
			look = r.m.PeekUnacked
		}
		return peekString(look(int(l.Int("offset", 0)), int(l.Int("count", 1000))))
	case "scan":
		return peekString(r.m.ScanReady(int(l.Int("priority", 256)), Seq(l.Int("after", 0)), int(l.Int("count", 1000))))
	case "sync":
		var marks []SessionMark
		for _, pair := range l.Pairs("s") {
			marks = append(marks, SessionMark{Session: SessionID(l.ParseInt(pair[0][1:])), LastD: uint64(l.ParseInt(pair[1]))})
		}
		return syncString(r.m.Sync(parseStep(t, script.Lines(t, "tick at="+l.Text("at", "1.1"))).pipeline, uint64(l.Int("answered", 0)), marks))
	}
	s := parseStep(t, lines)
	a, err := r.run(&s)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return a.String()
}

// stateString lists what a machine holds.
func stateString(m *Machine) string {
	var b strings.Builder
	for p := len(m.ready.levels) - 1; p >= 0; p-- {
		if l := &m.ready.levels[p]; l.size() > 0 {
			fmt.Fprintf(&b, "ready priority=%d:", p)
			eachReady(l, uint8(p), func(x *record) { b.WriteString(" " + x.String()) })
			b.WriteString("\n")
		}
	}
	if !m.returning.isEmpty() {
		b.WriteString("returning:")
		if m.returning.gathering > 0 {
			fmt.Fprintf(&b, " gathering=%d", m.returning.gathering)
		}
		for _, x := range m.returning.sorted() {
			b.WriteString(" " + x.String())
		}
		b.WriteString("\n")
	}
	if m.delayed.sums.n > 0 {
		b.WriteString("delayed:")
		m.delayed.each(func(x *asleep) { fmt.Fprintf(&b, " %s until %d", x.record.String(), x.until) })
		b.WriteString("\n")
	}
	if text := m.outboxString(); text != "" {
		fmt.Fprintf(&b, "outbox: %s\n", text)
	}
	b.WriteString(m.openTxString())
	for _, d := range m.deadBoots {
		fmt.Fprintf(&b, "dead n%d.%d\n", d.node, d.counter)
	}
	for _, p := range m.pipelines {
		fmt.Fprintf(&b, "pipeline n%d.%d k=%d\n", p.id.Node, p.id.Boot.Counter, p.lastK)
		for _, s := range p.sessions {
			fmt.Fprintf(&b, "  s%d d=%d drained=%d", s.id, s.lastD, s.drained)
			if s.limit != NoLimit {
				fmt.Fprintf(&b, " limit=%d/%d wants=%t", s.unsettled, s.limit, s.wants)
			}
			for _, c := range s.consumers {
				fmt.Fprintf(&b, " c%d(unsettled=%d undrained=%d/%dB waiting=%t)", c.id, c.unsettled, c.undrained, c.undrainedBytes, c.waiting)
			}
			b.WriteString(s.tx.String())
			if s.check != 0 {
				fmt.Fprintf(&b, " check=%d", s.check)
			}
			s.out.each(func(d uint64, x *delivery) {
				fmt.Fprintf(&b, " [%d:%s c%d", d, x.record.String(), x.consumer)
				if x.deadline != 0 {
					fmt.Fprintf(&b, " deadline=%d", x.deadline)
				}
				b.WriteString("]")
			})
			b.WriteString("\n")
		}
	}
	if b.Len() == 0 {
		return "empty\n"
	}
	return b.String()
}

func (r *record) String() string {
	s := fmt.Sprintf("#%d", r.seq)
	if r.acquired|r.failures != 0 {
		s += fmt.Sprintf("(acquired=%d failures=%d)", r.acquired, r.failures)
	}
	if r.due != 0 {
		s += fmt.Sprintf("(due=%d)", r.due)
	}
	return s
}

func syncString(st SyncState) string {
	var b strings.Builder
	fmt.Fprintf(&b, "known=%t k=%d dead=%d", st.Known, st.LastK, st.DeadBoot)
	if st.Evicted {
		b.WriteString(" evicted")
	}
	b.WriteString("\n")
	for _, o := range st.Outcomes {
		fmt.Fprintf(&b, "outcome k=%d", o.K)
		for _, x := range o.Exceptions {
			fmt.Fprintf(&b, " [%d] %s", x.Index, replyString(x.Reply))
		}
		b.WriteString("\n")
	}
	for _, s := range st.Sessions {
		fmt.Fprintf(&b, "session s%d d=%d consumers=%v", s.Session, s.LastD, s.Consumers)
		if s.Ready > 0 {
			fmt.Fprintf(&b, " ready=%d", s.Ready)
		}
		if s.LostSome {
			fmt.Fprintf(&b, " seen=%d kept=%v", s.Seen, s.Kept)
		}
		b.WriteString("\n")
		for _, e := range s.Deliveries {
			b.WriteString("  " + e.String() + "\n")
		}
	}
	return b.String()
}

// eachReady visits the messages of a level in order of place.
func eachReady(l *level, priority uint8, visit func(x *record)) {
	var all []record
	l.fresh.ascend(0, func(f *fresh) bool {
		all = append(all, fromFresh(f, priority))
		return true
	})
	visitOthers(l, func(x record) bool {
		all = append(all, x)
		return true
	})
	slices.SortFunc(all, func(a, b record) int { return cmp.Compare(a.place, b.place) })
	for i := range all {
		visit(&all[i])
	}
}
