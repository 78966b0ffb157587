package management

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// A redrive moves messages of one queue to others: dead letters back to where they died, or to a queue that it names. It scans the queue once, up to the message that was the last when it began, so
// that what comes back does not go round. Each message moves by the queue's outbox, once, whatever fails; the job itself lives in one node's memory. One that is lost with its node is begun again: what
// has moved is not there any more.

// The states of a redrive.
const (
	redriveRunning = "running"
	redriveDone    = "done"
	redriveStopped = "stopped"
	redriveFailed  = "failed"
)

// Why a message stays where it is.
const (
	skipNoDeath    = "no_death"      // it did not die, and no target is given
	skipGone       = "queue_gone"    // its target does not exist any more
	skipSame       = "same_queue"    // it died in the queue that it is in
	skipRefused    = "no_permission" // the user may not write there
	skipExclusive  = "exclusive"     // its target belongs to a connection
	skipUnreadable = "unreadable"    // its content could not be read now
)

// redriveSpec is what a redrive was asked for.
type redriveSpec struct {
	vhost, queue, user string
	// back says that messages go where they died unless to names a queue.
	back bool
	to   string
	// from, reason and ids choose messages; empty ones choose all. So does key if keyed says so: it may be empty.
	from, reason, key string
	keyed             bool
	ids               []string
	// olderMillis chooses those whose death is older.
	olderMillis uint64
	// limit is how many to move at most, rate how many in a second; 0 for no bound.
	limit, rate uint64
	dryRun      bool
}

// tally counts messages by a queue and a word.
type tally struct {
	queue, why string
	n          uint64
}

// redriveState is what is told of a redrive.
type redriveState struct {
	id                               string
	spec                             redriveSpec
	state, reason                    string
	scanned, matched, moved, skipped uint64
	targets, left                    []tally // moved by target; skipped by target and why
	began, ended                     time.Time
}

func packRedrive(p *pack, x *redriveState) {
	s := &x.spec
	for _, text := range [...]*string{&x.id, &s.vhost, &s.queue, &s.user, &s.to, &s.from, &s.reason, &s.key, &x.state, &x.reason} {
		p.text(text)
	}
	p.texts(&s.ids)
	p.bool(&s.back)
	p.bool(&s.dryRun)
	p.uints(&s.olderMillis, &s.limit, &s.rate, &x.scanned, &x.matched, &x.moved, &x.skipped)
	for _, list := range [...]*[]tally{&x.targets, &x.left} {
		packRows(p, list, func(p *pack, t *tally) {
			p.text(&t.queue)
			p.text(&t.why)
			p.uint(&t.n)
		})
	}
	p.time(&x.began)
	p.time(&x.ended)
	p.bool(&s.keyed)
}

// wants tells whether a redrive chooses a message.
func (s *redriveSpec) wants(m *scanned, now time.Time) bool {
	switch {
	case m.unreadable:
		return true // it is counted as one that stays
	case s.from != "" && s.from != m.died, s.reason != "" && s.reason != m.reason, s.keyed && s.key != m.key:
		return false
	case len(s.ids) > 0 && !slices.Contains(s.ids, m.id):
		return false
	}
	return s.olderMillis == 0 || m.diedMillis != 0 && now.UnixMilli()-int64(m.diedMillis) >= int64(s.olderMillis)
}

// target finds out where a message goes; why tells why it stays.
func (s *redriveSpec) target(view *meta.View, m *scanned) (name, why string) {
	name = s.to
	if name == "" {
		name = m.died
	}
	switch {
	case m.unreadable:
		return "", skipUnreadable
	case name == "":
		return "", skipNoDeath
	case name == s.queue:
		return name, skipSame
	}
	q := view.Queue(s.vhost, name)
	switch {
	case q == nil:
		return name, skipGone
	case q.Exclusive:
		return name, skipExclusive
	}
	rights := view.Rights(s.user, s.vhost)
	if broker.Authorise(&rights, s.user, meta.Write, queueResource(s.vhost, name)) != nil {
		return name, skipRefused
	}
	return name, ""
}

// addTally adds to the tally of a queue and a word; beyond limits.RedriveNamesMax all go into one.
func addTally(list *[]tally, queue, why string, n uint64) {
	for i := range *list {
		if x := &(*list)[i]; x.queue == queue && x.why == why {
			x.n += n
			return
		}
	}
	if len(*list) > limits.RedriveNamesMax {
		(*list)[limits.RedriveNamesMax].n += n
		return
	}
	if len(*list) == limits.RedriveNamesMax {
		queue, why = "", "others"
	}
	*list = append(*list, tally{queue, why, n})
}

// errEnough ends a redrive that has moved as many as it should.
var errEnough = errors.New("enough")

// run carries the redrive out. It returns when all is done or ctx ends.
func (j *redrive) run(ctx context.Context, s *Server) {
	err := j.scanAll(ctx, s)
	j.mu.Lock()
	defer j.mu.Unlock()
	x := &j.state
	x.ended, x.state = time.Now(), redriveDone
	switch {
	case err == nil:
		x.reason = ""
	case ctx.Err() != nil:
		x.state, x.reason = redriveStopped, ""
	default:
		x.state, x.reason = redriveFailed, reasonOf(err)
	}
}

// reasonOf is the text of a failure.
func reasonOf(err error) string {
	var f *failure
	var e *amqp.Error
	switch {
	case errors.As(err, &f):
		return f.reason
	case errors.As(err, &e):
		return e.ReplyText()
	}
	return err.Error()
}

// scanAll goes through the queue. Whatever may pass is waited for.
func (j *redrive) scanAll(ctx context.Context, s *Server) error {
	spec := &j.state.spec // does not change
	place, last, again := fromHead, uint64(0), false
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		q := s.opt.Host.Catalogue().View.Queue(spec.vhost, spec.queue)
		if q == nil || q.ID != j.queue {
			return objectNotFound()
		}
		page, err := s.scan(ctx, q, place, limits.RedrivePageMessages)
		if err != nil {
			j.wait(ctx, reasonOf(err), time.Second)
			continue
		}
		if last == 0 {
			last = page.next
		}
		if !spec.dryRun && page.moving > limits.RedriveMovingMax {
			j.wait(ctx, "many messages are still on their way to their queues", 100*time.Millisecond)
			continue
		}
		whole, err := j.page(ctx, s, page, last)
		var refused *amqp.Error
		switch {
		case errors.Is(err, errEnough):
			j.note(page, last)
			return nil
		case err != nil && (again || !errors.As(err, &refused)):
			return err
		case !whole && !again:
			again = true // some were not ready just then, an entry of the log had no work left, a target has just gone: another look
			continue
		}
		again = false
		j.note(page, last)
		if len(page.messages) < limits.RedrivePageMessages {
			return nil
		}
		place = page.messages[len(page.messages)-1].place()
	}
}

// note counts what a page had, when it is done with.
func (j *redrive) note(page *scan, last uint64) {
	clear(j.passed)
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range page.messages {
		if page.messages[i].seq < last {
			j.state.scanned++
		}
	}
}

// batch is what of a page goes to one queue.
type batch struct {
	target string
	seqs   []queue.Seq
}

// page moves what the redrive chooses of a page. whole is false if some of it did not move.
func (j *redrive) page(ctx context.Context, s *Server, page *scan, last uint64) (whole bool, err error) {
	view, now, spec := s.opt.Host.Catalogue().View, time.Now(), &j.state.spec
	var batches []*batch
	for i := range page.messages {
		m := &page.messages[i]
		if m.seq >= last || j.passed[m.seq] || !spec.wants(m, now) {
			continue
		}
		target, why := spec.target(view, m)
		if why != "" {
			j.skip(m, target, why)
			continue
		}
		k := slices.IndexFunc(batches, func(b *batch) bool { return b.target == target && uint64(len(b.seqs)) < j.atOnce() })
		if k < 0 {
			k = len(batches)
			batches = append(batches, &batch{target: target})
		}
		batches[k].seqs = append(batches[k].seqs, queue.Seq(m.seq))
	}
	whole = true
	for _, b := range batches {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		moved, err := j.ship(ctx, s, b)
		if err != nil {
			return false, err
		}
		whole = whole && moved == uint64(len(b.seqs))
	}
	return whole, nil
}

// skip counts a message that stays, once.
func (j *redrive) skip(m *scanned, target, why string) {
	j.passed[m.seq] = true
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state.matched++
	j.state.skipped++
	addTally(&j.state.left, target, why, 1)
}

// atOnce is how many messages move at a time, so that a rate is kept within a fifth of a second.
func (j *redrive) atOnce() uint64 {
	if rate := j.state.spec.rate; rate != 0 {
		return max(1, min(rate/5, limits.RedrivePageMessages))
	}
	return limits.RedrivePageMessages
}

// ship moves a batch, or counts it as moved if nothing is to happen.
func (j *redrive) ship(ctx context.Context, s *Server, b *batch) (moved uint64, err error) {
	spec := &j.state.spec
	if spec.limit != 0 {
		left := spec.limit - j.moved
		if left == 0 {
			return 0, errEnough
		}
		b.seqs = b.seqs[:min(uint64(len(b.seqs)), left)]
	}
	slices.Sort(b.seqs) // of several priorities
	moved = uint64(len(b.seqs))
	for !spec.dryRun {
		moved, err = s.opt.Broker.Move(ctx, spec.user, &broker.Move{VHost: spec.vhost, From: spec.queue, To: b.target, Back: spec.back, Seqs: b.seqs})
		var refused *amqp.Error
		if err == nil || errors.As(err, &refused) || ctx.Err() != nil {
			break
		}
		j.wait(ctx, reasonOf(err), time.Second) // an alarm, no leader: it may have moved some, which the next try passes over
	}
	if err != nil {
		return 0, err
	}
	j.moved += moved
	j.mu.Lock()
	x := &j.state
	x.reason = ""
	x.matched += moved
	x.moved += moved
	if moved > 0 {
		addTally(&x.targets, b.target, "", moved)
	}
	j.mu.Unlock()
	if spec.limit != 0 && j.moved >= spec.limit {
		return moved, errEnough
	}
	if spec.rate != 0 && !spec.dryRun {
		j.pause(ctx, time.Duration(moved)*time.Second/time.Duration(spec.rate))
	}
	return moved, nil
}

// wait says why the redrive waits, and waits.
func (j *redrive) wait(ctx context.Context, reason string, d time.Duration) {
	j.mu.Lock()
	j.state.reason = reason
	j.mu.Unlock()
	j.pause(ctx, d)
}

func (j *redrive) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
