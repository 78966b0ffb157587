package meta

import "github.com/warrenmq/warren/internal/cow"

// Visitor says what to do with the differences between two Views. A kind whose function is nil is not walked. The older object is nil for what was added,
// the newer one for what was removed; both are given for what was replaced.
type Visitor struct {
	// VHost is called first for a virtual host that appeared, went, or holds differences. If it returns false, what is inside is passed over.
	VHost    func(name string, existed, exists bool) bool
	Exchange func(before, after *Exchange)
	Queue    func(before, after *Queue)
	// Binding is called in the order of source, destination, routing key.
	Binding func(before, after *Binding)
}

// Diff visits what differs from an older View of the same machine: within each virtual host first exchanges, then queues, then bindings, each in
// their order. It skips what both share: Views that lie k changes apart cost O(k log n).
func (v *View) Diff(older *View, to Visitor) {
	cow.Diff(older.vhosts, v.vhosts, func(c cow.Change[string, *vhost]) bool {
		if to.VHost != nil && !to.VHost(c.Key, c.HasOld, c.HasNew) {
			return true
		}
		before, after := c.Old, c.New
		if before == nil {
			before = &vhost{}
		}
		if after == nil {
			after = &vhost{}
		}
		diffObjects(before.exchanges, after.exchanges, to.Exchange)
		diffObjects(before.queues, after.queues, to.Queue)
		diffObjects(before.bySource, after.bySource, to.Binding)
		return true
	})
}

func diffObjects[V any](before, after cow.Map[string, *V], visit func(before, after *V)) {
	if visit == nil {
		return
	}
	cow.Diff(before, after, func(c cow.Change[string, *V]) bool {
		visit(c.Old, c.New)
		return true
	})
}

// DiffQueues calls visit for every queue that was added to, removed from or changed in the cluster since an older View, by id. A queue of a
// deleted virtual host counts as removed when it is swept.
func (v *View) DiffQueues(older *View, visit func(before, after *Queue)) {
	cow.Diff(older.queues, v.queues, func(c cow.Change[QueueID, *Queue]) bool {
		visit(c.Old, c.New)
		return true
	})
}
