package quorum

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/message"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// mover carries the dead letters of one queue, what was moved and what passes a relay to where they belong, as long as this node leads the queue (PROTOCOL 4). What it decides is decided by the machines: a dead letter has its
// targets once OpResolve is applied, a target has it once OpRun is applied there, and it is gone once OpDone is applied here. So a mover that dies, or two that work at once, lose and double
// nothing.
type mover struct {
	host *Host
	run  runner
	id   meta.QueueID
	// leads tells whether this node still leads the queue.
	leads func() bool

	mu       sync.Mutex
	working  bool
	again    bool // there may be more than the present turn looks at
	busy     map[queue.QueueID]bool
	homeless bool                     // some have nowhere to go
	refused  map[queue.QueueID]string // why a target has not got its next ones
	// Entries up to passed had nowhere to go as of catalogue.
	catalogue *Catalogue
	passed    uint64
}

// deathSurvey is what a queue decides about its dead letters.
type deathSurvey struct {
	exchange string
	key      *string
	// once says that a dead letter without a target is dropped.
	once bool
	// keep says that it goes to the queue of what cannot be consumed, which is made if it is not there.
	keep bool
}

func newMover(h *Host, run runner, id meta.QueueID, leads func() bool) *mover {
	return &mover{host: h, run: run, id: id, leads: leads, busy: make(map[queue.QueueID]bool), refused: make(map[queue.QueueID]string)}
}

// kick has the mover look for work. It returns at once.
func (v *mover) kick() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.again = true
	if v.working {
		return
	}
	v.working = true
	v.host.workers.Add(1)
	go func() {
		defer v.host.workers.Done()
		v.work()
	}()
}

// work resolves what can be, and starts a courier for every target with something to get.
func (v *mover) work() {
	for pause := retryFirst; ; {
		v.mu.Lock()
		if !v.again || !v.leads() {
			v.working = false
			v.mu.Unlock()
			return
		}
		v.again = false
		v.mu.Unlock()
		err := v.resolve()
		v.deliverAll()
		if err == nil {
			pause = retryFirst
			continue
		}
		v.host.log.Debug("dead letters could not be resolved yet", "queue", uint64(v.id), "error", err)
		if v.host.wait(pause, nil) != nil {
			return
		}
		pause = min(2*pause, retryMost)
		v.mu.Lock()
		v.again = true
		v.mu.Unlock()
	}
}

// A mover tries again after these times, growing from the first to the most.
const (
	retryFirst = 10 * time.Millisecond
	retryMost  = limits.MoverRetryMillis * time.Millisecond
)

// resolve gives every dead letter that has none its targets.
func (v *mover) resolve() error {
	for v.leads() {
		cat := v.host.Catalogue()
		q := cat.View.QueueByID(v.id)
		if q == nil {
			return nil
		}
		v.mu.Lock()
		if v.catalogue != cat {
			v.catalogue, v.passed = cat, 0
		}
		after := v.passed
		v.mu.Unlock()
		r := v.run.core()
		r.mu.Lock()
		parcels := r.m.Unresolved(nil, after, limits.MoverResolveAtOnce)
		r.mu.Unlock()
		if len(parcels) == 0 {
			r.mu.Lock()
			homeless := len(r.m.Unresolved(nil, 0, 1)) > 0
			r.mu.Unlock()
			if homeless {
				v.host.stuck.Store(v, nil)
			} else {
				v.host.stuck.Delete(v)
			}
			v.mu.Lock()
			v.homeless = homeless
			v.mu.Unlock()
			return nil
		}
		if keeps(q, parcels) && cat.View.Queue(q.VHost, deadQueue) == nil {
			if err := v.host.makeDeadQueue(q.VHost); err != nil {
				return err
			}
			cat = v.host.Catalogue()
		}
		if err := v.settle(cat, q, parcels); err != nil {
			return err
		}
		v.mu.Lock()
		v.passed = parcels[len(parcels)-1].N
		v.mu.Unlock()
	}
	return nil
}

// settle proposes the targets of dead letters.
func (v *mover) settle(cat *Catalogue, q *meta.Queue, parcels []queue.Parcel) error {
	cmd := queue.Command{Op: queue.OpResolve}
	var unrouted []bool // of those that the command names
	for i := range parcels {
		if targets, lost, ok := v.targets(cat, q, &parcels[i]); ok {
			cmd.Envelope = queue.AppendTargets(cmd.Envelope, parcels[i].N, targets)
			unrouted = append(unrouted, lost)
		}
	}
	if len(cmd.Envelope) == 0 {
		return nil
	}
	reply, err := v.run.command(&cmd)
	if err != nil {
		return err
	}
	for _, lost := range unrouted[:min(reply.A, uint64(len(unrouted)))] { // what was resolved before was counted then
		if lost {
			v.host.unrouted.Add(1)
		}
	}
	if reply.Code == queue.CodeLimit {
		return v.dropLanes(cat.View)
	}
	return nil
}

// dropLanes makes room for the lanes of new targets: those of queues that are gone go.
func (v *mover) dropLanes(view *meta.View) error {
	r := v.run.core()
	r.mu.Lock()
	idle := r.m.IdleLanes(nil)
	r.mu.Unlock()
	dropped := 0
	for _, target := range idle {
		if !isGone(view, target) {
			continue
		}
		if _, err := v.run.command(&queue.Command{Op: queue.OpDone, Peer: target, To: queue.DoneGone}); err != nil {
			return err
		}
		dropped++
	}
	if dropped == 0 {
		return errLanes
	}
	return errAgain
}

// isGone tells whether a queue was deleted, as far as is known here: one that is not known yet is not.
func isGone(view *meta.View, id queue.QueueID) bool {
	return view.QueueByID(meta.QueueID(id)) == nil && meta.QueueID(id) < view.NextQueueID()
}

// keeps tells whether some of the parcels go to the queue of what cannot be consumed.
func keeps(q *meta.Queue, parcels []queue.Parcel) bool {
	return slices.ContainsFunc(parcels, func(p queue.Parcel) bool {
		s := surveyOf(q, p.Reason)
		return s != nil && s.keep
	})
}

// targets routes a dead letter. ok is false if it has nowhere to go and waits; without targets it is dropped. unrouted says that it passed a relay and nothing is bound for it.
func (v *mover) targets(cat *Catalogue, q *meta.Queue, p *queue.Parcel) (targets []queue.QueueID, unrouted, ok bool) {
	if p.Reason == queue.ReasonRelayed {
		return v.onward(cat, q, p)
	}
	s := surveyOf(q, p.Reason)
	if s == nil {
		return nil, false, false
	}
	letter := v.letter(q, p, s)
	if letter == nil {
		return nil, false, false
	}
	m := exchange.Message{Copies: letter.Copies, Properties: &letter.Properties}
	ids, reason := cat.Router.Route(q.VHost, letter.Envelope.Exchange, letter.Envelope.RoutingKey, &m, nil)
	ids = append(ids, m.Histories...) // what is kept has somewhere to go
	if reason != exchange.OK && reason != exchange.Internal || len(ids) == 0 {
		return nil, false, s.once
	}
	for _, id := range ids {
		if t := cat.View.QueueByID(id); t != nil && letter.Deaths.IsCycle(t.Name) {
			v.host.log.Warn("a dead letter goes in a circle and is dropped", "queue", q.Name, "target", t.Name)
			continue
		}
		targets = append(targets, queue.QueueID(id))
	}
	return targets, false, true
}

// letter makes the dead letter of a parcel as a survey says; without one, when the queue has nowhere to send its dead letters any more, a letter that has its targets already keeps its exchange and
// key. It is nil if its body cannot be read.
func (v *mover) letter(q *meta.Queue, p *queue.Parcel, s *deathSurvey) *message.Letter {
	envelope, err := v.run.core().read(p.Seq)
	if envelope == nil || err != nil {
		return nil
	}
	if p.Reason == queue.ReasonRelayed {
		return v.relayed(q, p, envelope)
	}
	if !p.Reason.IsDeath() {
		letter, err := message.Moved(envelope, p.Reason == queue.ReasonRedriven)
		if err != nil {
			v.host.log.Error("a message cannot be moved", "queue", q.Name, "position", uint64(p.Seq), "error", err)
		}
		return letter
	}
	death := message.Death{Queue: q.KnownAs(), Reason: p.Reason.String(), TimeMillis: p.DiedMillis}
	if s == nil {
		e, err := message.Parse(envelope)
		if err != nil {
			return nil
		}
		s = &deathSurvey{exchange: string(e.Exchange)}
	}
	letter, err := message.DeadLetter(envelope, death, s.exchange, s.key)
	if err != nil {
		v.host.log.Error("a dead letter cannot be made", "queue", q.Name, "position", uint64(p.Seq), "error", err)
		return nil
	}
	return letter
}

// deliverAll starts a courier for each target that has none.
func (v *mover) deliverAll() {
	r := v.run.core()
	r.mu.Lock()
	targets := r.m.Targets(nil)
	r.mu.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range targets {
		if v.busy[t] {
			continue
		}
		v.busy[t] = true
		v.host.workers.Add(1)
		go func() {
			defer v.host.workers.Done()
			v.courier(t)
		}()
	}
}

// errWait says that a target takes no more at present; errUnknown that this node has not heard of it yet, which another leader of the queue had; errLanes that the outbox has as many targets as it may;
// errAgain that there is room now.
var (
	errLanes   = errors.New("quorum: the outbox has as many targets as it may")
	errAgain   = errors.New("quorum: there is room for more targets now")
	errWait    = errors.New("quorum: the target takes no more at present")
	errUnknown = errors.New("quorum: the target is not known here yet")
)

// courier brings a target what waits for it, until nothing does. A target that is full or not there is tried again and again, and holds up nobody else. It is tried with one message, for what it
// refuses stands in its log all the same; runs grow again as it takes them.
func (v *mover) courier(target queue.QueueID) {
	most := limits.MoverRunMessages
	for pause := retryFirst; v.leads(); {
		more, err := v.deliver(target, most)
		v.note(target, err)
		if err == nil && !more {
			break
		}
		if err == nil {
			pause, most = retryFirst, min(2*most, limits.MoverRunMessages)
			continue
		}
		v.host.log.Debug("dead letters did not arrive yet", "queue", uint64(v.id), "target", uint64(target), "error", err)
		if v.host.wait(pause, nil) != nil {
			return
		}
		pause, most = min(2*pause, retryMost), 1
	}
	v.mu.Lock()
	delete(v.busy, target)
	delete(v.refused, target)
	v.mu.Unlock()
	v.kick() // for what came between, or as the leader of a new term
}

// note keeps why a target did not get its next letters.
func (v *mover) note(target queue.QueueID, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case err == nil:
		delete(v.refused, target)
	case errors.Is(err, errWait):
		v.refused[target] = "a target is full"
	default:
		v.refused[target] = "a target does not answer"
	}
}

// reason tells why dead letters wait; empty if they do not, or go as fast as they can.
func (v *mover) reason() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.homeless {
		return "no queue takes them: the dead-letter exchange is missing or has no binding for them"
	}
	least := queue.QueueID(0)
	for target := range v.refused {
		if least == 0 || target < least {
			least = target
		}
	}
	return v.refused[least]
}

// deliver brings a target one run of so many messages at most. more is false if nothing waited.
func (v *mover) deliver(target queue.QueueID, most int) (more bool, err error) {
	r := v.run.core()
	r.mu.Lock()
	from, parcels := r.m.Lane(nil, target, most)
	r.mu.Unlock()
	if len(parcels) == 0 {
		return false, nil
	}
	view := v.host.Catalogue().View
	q := view.QueueByID(v.id)
	if q == nil {
		return false, ErrNoQueue
	}
	t := view.QueueByID(meta.QueueID(target))
	if t == nil || t.IsDraining() {
		if t == nil && meta.QueueID(target) >= view.NextQueueID() && mutant != mutantUnknownTargetGone {
			return false, errUnknown
		}
		_, err := v.run.command(&queue.Command{Op: queue.OpDone, Peer: target, To: queue.DoneGone})
		return true, err
	}
	cmd := queue.Command{Op: queue.OpRun, Peer: queue.QueueID(v.id), PeerEpoch: 1, From: from}
	_, windowMillis, _ := t.Deduplication()
	last := from
	for i := range parcels {
		letter := v.letter(q, &parcels[i], surveyOf(q, parcels[i].Reason))
		if letter == nil {
			break
		}
		size := len(cmd.Envelope) + len(letter.Envelope.Body)
		if i > 0 && size > limits.MoverRunBytes {
			break
		}
		e := letterCommand(letter)
		if windowMillis > 0 && letter.Deaths.DiedIn(t.Name) {
			e.Flags, e.ID = e.Flags&^queue.FlagDedup, queue.DedupID{} // it is the one that was accepted, and comes back
		}
		cmd.Envelope = queue.AppendCommand(cmd.Envelope, &e)
		last = from + uint64(i)
	}
	if len(cmd.Envelope) == 0 {
		return false, errWait // a body that cannot be read, for now
	}
	if mutant == mutantDoneUnanswered {
		_, _ = v.run.command(&queue.Command{Op: queue.OpDone, Peer: target, To: last})
	}
	return true, v.bring(target, &cmd)
}

// bring sends a run and notes what the target has by then.
func (v *mover) bring(target queue.QueueID, cmd *queue.Command) error {
	ctx, cancel := context.WithTimeout(v.host.life, limits.PublishTimeoutMillis*time.Millisecond)
	defer cancel()
	to, err := v.host.running(ctx, meta.QueueID(target))
	if err != nil {
		return err
	}
	reply, err := to.command(cmd)
	if err != nil {
		return err
	}
	if reply.A >= cmd.From {
		if _, err := v.run.command(&queue.Command{Op: queue.OpDone, Peer: target, To: reply.A}); err != nil {
			return err
		}
	}
	if reply.Code != queue.CodeOK {
		return errWait
	}
	return nil
}

// letterCommand is the command that enqueues a dead letter.
func letterCommand(l *message.Letter) queue.Command {
	cmd := queue.Command{Op: queue.OpEnqueue, BodyBytes: uint32(len(l.Envelope.Body)), Envelope: message.Append(nil, &l.Envelope)}
	Describe(&cmd, &l.Properties)
	return cmd
}

// Describe tells the command that enqueues a message what the queue must know of its properties: delivery mode, priority, expiration, id.
func Describe(cmd *queue.Command, v *amqp.PropertyView) {
	if mode, _ := v.DeliveryMode(); mode == 2 {
		cmd.Flags |= queue.FlagPersistent
	}
	if priority, ok := v.Priority(); ok {
		cmd.Flags, cmd.Priority = cmd.Flags|queue.FlagHasPriority, priority
	}
	if headers, ok := v.Headers(); ok {
		if id, ok := dedupID(headers); ok {
			cmd.Flags, cmd.ID = cmd.Flags|queue.FlagDedup, id
		}
	}
	text, ok := v.Expiration()
	if !ok {
		return
	}
	millis := uint64(0)
	for _, c := range text { // publishers are held to digits, with a sign at most
		if c >= '0' && c <= '9' && millis < 1<<58 {
			millis = 10*millis + uint64(c-'0')
		}
	}
	cmd.Flags, cmd.Expiration = cmd.Flags|queue.FlagHasExpiration, millis
}

// retryStuck has the movers look again whose dead letters had nowhere to go: the catalogue has changed.
func (h *Host) retryStuck() {
	h.stuck.Range(func(m, _ any) bool {
		h.stuck.Delete(m) // it comes back if it still has some
		m.(*mover).kick()
		return true
	})
}

// lettersLost counts dead letters that a queue, which this node leads, dropped because its outbox is full, and says so now and then.
func (h *Host) lettersLost(id meta.QueueID, n int) {
	h.lost.Add(uint64(n))
	if tell := h.onLost.Load(); tell != nil {
		(*tell)(id, n)
	}
	now, told := h.clock.monotonicMillis(), h.lostTold.Load()
	if told != 0 && now-told < limits.LostTellMillis || !h.lostTold.CompareAndSwap(told, now) {
		return
	}
	name := ""
	if q := h.Catalogue().View.QueueByID(id); q != nil {
		name = q.Name
	}
	h.log.Error("dead letters are lost: too many wait for a queue that takes them", "queue", name, "waiting", limits.OutboxLettersMax, "lost", h.lost.Load())
}

// OnLettersLost has f called when a queue that this node leads drops n dead letters because too many wait. It must not block.
func (h *Host) OnLettersLost(f func(q meta.QueueID, n int)) { h.onLost.Store(&f) }

// LettersLost counts the dead letters that this node dropped because too many waited.
func (h *Host) LettersLost() uint64 { return h.lost.Load() }
