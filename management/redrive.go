package management

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
)

// redriveWait is how long a request that begins a redrive waits for its end.
const redriveWait = 2 * time.Second

// redrive is a redrive of this node.
type redrive struct {
	queue  meta.QueueID
	cancel context.CancelFunc
	ended  chan struct{}
	// moved and passed are the job's own: how many moved, and which of the present page stay.
	moved  uint64
	passed map[uint64]bool

	mu    sync.Mutex
	state redriveState
}

// redrives are those of this node, the newest last.
type redrives struct {
	life context.Context
	end  context.CancelFunc
	jobs sync.WaitGroup

	mu     sync.Mutex
	last   uint64
	list   []*redrive
	closed bool
}

func (r *redrives) init() { r.life, r.end = context.WithCancel(context.Background()) }

// close ends all and waits for them.
func (r *redrives) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.end()
	r.jobs.Wait()
}

// begin starts a redrive. It is nil if too many run.
func (r *redrives) begin(s *Server, q *meta.Queue, spec *redriveSpec) *redrive {
	r.mu.Lock()
	defer r.mu.Unlock()
	running := 0
	for _, j := range r.list {
		if !j.isOver() {
			running++
		}
	}
	if r.closed || running >= limits.RedrivesMax {
		return nil
	}
	for len(r.list)-running >= limits.RedrivesKept {
		i := slices.IndexFunc(r.list, (*redrive).isOver)
		r.list = slices.Delete(r.list, i, i+1)
	}
	r.last++
	ctx, cancel := context.WithCancel(r.life)
	id := fmt.Sprintf("%d-%d-%d", s.opt.Host.Node(), s.opt.Host.Boot().Counter, r.last)
	j := &redrive{queue: q.ID, cancel: cancel, ended: make(chan struct{}), passed: make(map[uint64]bool), state: redriveState{id: id, spec: *spec, state: redriveRunning, began: time.Now()}}
	r.list = append(r.list, j)
	r.jobs.Go(func() {
		defer close(j.ended)
		defer cancel()
		j.run(ctx, s)
	})
	return j
}

func (j *redrive) isOver() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// now is a copy of the state.
func (j *redrive) now() redriveState {
	j.mu.Lock()
	defer j.mu.Unlock()
	x := j.state
	x.targets, x.left = slices.Clone(x.targets), slices.Clone(x.left)
	return x
}

// states are all redrives of this node.
func (r *redrives) states() []redriveState {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]redriveState, 0, len(r.list))
	for _, j := range r.list {
		out = append(out, j.now())
	}
	return out
}

// stop ends a redrive and waits until it has; false if there is none.
func (r *redrives) stop(id string) bool {
	r.mu.Lock()
	i := slices.IndexFunc(r.list, func(j *redrive) bool { return j.state.id == id })
	if i < 0 {
		r.mu.Unlock()
		return false
	}
	j := r.list[i]
	r.mu.Unlock()
	j.cancel()
	<-j.ended
	return true
}

// startRedrive is POST /queues/VHOST/NAME/redrive.
func startRedrive(c *call) error { return c.startRedrive(true) }

// startMove is POST /queues/VHOST/NAME/move.
func startMove(c *call) error { return c.startRedrive(false) }

func (c *call) startRedrive(back bool) error {
	vhost, name := c.params[0], c.params[1]
	if err := c.changeVHost(vhost); err != nil {
		return err
	}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	spec, err := b.redrive()
	if err != nil {
		return err
	}
	spec.vhost, spec.queue, spec.user, spec.back = vhost, name, c.user.Name, back
	q := c.view.Queue(vhost, name)
	switch {
	case q == nil:
		return objectNotFound()
	case q.Exclusive:
		return locked(queueResource(vhost, name))
	case !back && spec.to == "":
		return b.require("to")
	case spec.to == name:
		return badRequest("to is the queue itself")
	}
	if err := c.may(meta.Read, queueResource(vhost, name)); err != nil {
		return err
	}
	if spec.to != "" {
		if c.view.Queue(vhost, spec.to) == nil {
			return badRequestf("no queue '%s' in vhost '%s'", spec.to, vhost)
		}
		if err := c.may(meta.Write, queueResource(vhost, spec.to)); err != nil {
			return err
		}
	}
	j := c.s.redrives.begin(c.s, q, &spec)
	if j == nil {
		return unavailable("too many redrives are running on this node")
	}
	t := time.NewTimer(redriveWait)
	defer t.Stop()
	select {
	case <-j.ended:
	case <-t.C:
	case <-c.r.Context().Done():
	}
	x := j.now()
	return c.oneRedrive(&x)
}

// redrive reads what a redrive is asked for.
func (b body) redrive() (s redriveSpec, err error) {
	for _, f := range [...]struct {
		key string
		to  *string
	}{{"to", &s.to}, {"from", &s.from}, {"reason", &s.reason}, {"routing_key", &s.key}} {
		if *f.to, err = b.text(f.key, ""); err != nil {
			return s, err
		}
		if *f.to == "" && b.has(f.key) && f.to != &s.key {
			return s, badRequestf("%s is empty", f.key) // it would choose all
		}
	}
	s.keyed = b.has("routing_key")
	if s.reason != "" && !slices.Contains(deathReasons[:], s.reason) {
		return s, badRequestf("unknown reason %s, want one of %s", plainJSON(b["reason"]), strings.Join(deathReasons[:], ", "))
	}
	if b.has("message_ids") && (json.Unmarshal(b["message_ids"], &s.ids) != nil || len(s.ids) == 0 || len(s.ids) > limits.PeekMessagesMax) {
		return s, badRequestf("message_ids must be a list of 1 to %d strings", limits.PeekMessagesMax) // an empty one would choose all
	}
	older := uint64(0)
	for _, f := range [...]struct {
		key  string
		to   *uint64
		most int
	}{{"older_than", &older, math.MaxInt32}, {"limit", &s.limit, math.MaxInt}, {"rate", &s.rate, math.MaxInt32}} {
		if !b.has(f.key) {
			continue
		}
		n, err := b.int(f.key, 1, f.most)
		if err != nil {
			return s, err
		}
		*f.to = uint64(n)
	}
	s.olderMillis = older * 1000
	s.dryRun, err = b.bool("dry_run", false)
	return s, err
}

// deathReasons are the reasons of x-death.
var deathReasons = [...]string{"rejected", "expired", "maxlen", "delivery_limit"}

// allRedrives are those of all nodes that the user sees, the oldest first.
func (c *call) allRedrives() []redriveState {
	all := c.s.redrives.states()
	replies, _ := c.s.peers.askAll(c.r.Context(), question{kind: askRedrives})
	for _, n := range readReplies(replies, packRedrive) {
		all = append(all, n.rows...)
	}
	all = slices.DeleteFunc(all, func(x redriveState) bool { return !c.sees(x.spec.vhost) })
	slices.SortStableFunc(all, func(a, b redriveState) int { return a.began.Compare(b.began) })
	return all
}

// listRedrives is GET /redrives.
func listRedrives(c *call) error {
	return list(c, c.allRedrives(), func(x redriveState) string { return x.spec.queue }, func(w *writer, x redriveState) { writeRedrive(w, &x) })
}

// findRedrive finds the one of the path.
func (c *call) findRedrive() (*redriveState, error) {
	all := c.allRedrives()
	i := slices.IndexFunc(all, func(x redriveState) bool { return x.id == c.params[0] })
	if i < 0 {
		return nil, objectNotFound()
	}
	return &all[i], nil
}

// getRedrive is GET /redrives/ID.
func getRedrive(c *call) error {
	x, err := c.findRedrive()
	if err != nil {
		return err
	}
	return c.oneRedrive(x)
}

// stopRedrive is DELETE /redrives/ID: the owner's, or an administrator's.
func stopRedrive(c *call) error {
	x, err := c.findRedrive()
	if err != nil {
		return err
	}
	if err := c.mayTouch(x.spec.user, true); err != nil {
		return err
	}
	if !c.s.redrives.stop(x.id) {
		c.s.peers.askAll(c.r.Context(), question{kind: askStopRedrive, reason: x.id})
	}
	return c.empty(http.StatusNoContent)
}

func writeRedrive(w *writer, x *redriveState) {
	s := &x.spec
	kind := "move"
	if s.back {
		kind = "redrive"
	}
	w.Str("id", x.id)
	w.Str("kind", kind)
	w.Str("vhost", s.vhost)
	w.Str("queue", s.queue)
	w.Str("user", s.user)
	for _, f := range [...]struct{ key, text string }{{"to", s.to}, {"from", s.from}, {"death_reason", s.reason}, {"routing_key", s.key}} {
		if f.text != "" || f.key == "routing_key" && s.keyed {
			w.Str(f.key, f.text)
		}
	}
	if len(s.ids) > 0 {
		w.Strings("message_ids", s.ids)
	}
	for _, f := range [...]struct {
		key string
		n   uint64
	}{{"older_than", s.olderMillis / 1000}, {"limit", s.limit}, {"rate", s.rate}} {
		if f.n != 0 {
			w.Uint(f.key, f.n)
		}
	}
	w.Bool("dry_run", s.dryRun)
	w.Str("state", x.state)
	w.Str("reason", x.reason)
	w.Uint("scanned", x.scanned)
	w.Uint("matched", x.matched)
	w.Uint("moved", x.moved)
	w.Uint("skipped", x.skipped)
	if w.Array("targets") {
		for _, t := range x.targets {
			w.Object("")
			w.Str("queue", t.queue)
			w.Uint("messages", t.n)
			w.End()
		}
		w.EndArray()
	}
	if w.Array("left") {
		for _, t := range x.left {
			w.Object("")
			w.Str("queue", t.queue)
			w.Str("why", t.why)
			w.Uint("messages", t.n)
			w.End()
		}
		w.EndArray()
	}
	w.Int("began_at", x.began.UnixMilli())
	if x.ended.IsZero() {
		w.Null("ended_at")
	} else {
		w.Int("ended_at", x.ended.UnixMilli())
	}
}

// oneRedrive answers with a redrive and, as of now, how many messages of its queue are on their way and why they wait.
func (c *call) oneRedrive(x *redriveState) error {
	moving, reason := uint64(0), ""
	if q := c.s.opt.Host.Catalogue().View.Queue(x.spec.vhost, x.spec.queue); q != nil {
		if st, ok := c.s.exactStatus(c.r.Context(), q); ok && st.Counts.Moving > 0 {
			moving, reason = st.Counts.Moving, st.PendingReason
		}
	}
	return c.object(http.StatusOK, func(w *writer) {
		writeRedrive(w, x)
		w.Uint("pending", moving)
		w.Str("pending_reason", reason)
	})
}
