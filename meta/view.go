package meta

import (
	"iter"

	"github.com/warrenmq/warren/internal/cow"
)

// View is the catalogue as it was after one applied command: immutable, so it is read without a lock and kept as long as wanted. Versions share structure.
// The objects that it returns are shared and must not be changed. Listings are in the order of names (bindings: source, destination, routing key).
type View struct {
	index                  uint64
	accessIndex            uint64
	clusterID, clusterName string
	nextQueue              QueueID
	nextNode               NodeID
	nextCondemned          uint64

	nodes      cow.Map[NodeID, *Node]
	users      cow.Map[string, *User]
	userLimits cow.Map[string, []Limit]
	parameters cow.Map[string, string]
	vhosts     cow.Map[string, *vhost]
	// queues has every queue that was not swept yet, also those of condemned virtual hosts.
	queues cow.Map[QueueID, *Queue]
	// owned has the exclusive queues by connection, homed those that are not durable by incarnation.
	owned, homed cow.Map[string, QueueID]
	// condemned are deleted virtual hosts whose queues still have to be swept.
	condemned cow.Map[uint64, *vhost]
}

// vhost is a virtual host with what is in it. It is copied for every change.
type vhost struct {
	VHost
	// limits are in the order of their names. Like those of users they are replaced, never changed.
	limits      []Limit
	permissions cow.Map[string, *Permission]
	// topics has the topic permissions by topicKey.
	topics   cow.Map[string, *TopicPermission]
	policies policies
	// parameters are by parameterKey.
	parameters cow.Map[string, *Parameter]
	exchanges  cow.Map[string, *Exchange]
	queues     cow.Map[string, *Queue]
	// bySource and byDestination hold the same bindings under two orders.
	bySource, byDestination cow.Map[string, *Binding]
	// bound counts the bindings of each destination that has some, by toPrefix. It is not encoded: byDestination tells.
	bound cow.Map[string, int]
}

// Index is the position of the last applied command in the catalogue's log.
func (v *View) Index() uint64 { return v.index }

// AccessIndex is the position of the last change of users, virtual hosts, permissions or limits: what was found out about them holds as long as it is the same. A restored catalogue may
// show a higher one than the machine that it was taken of.
func (v *View) AccessIndex() uint64 { return v.accessIndex }

// ClusterID returns the id given at the founding; empty before it.
func (v *View) ClusterID() string { return v.clusterID }

// ClusterName returns the name shown to clients and operators.
func (v *View) ClusterName() string { return v.clusterName }

// NextQueueID is the id that the next queue gets. Every lower one from FirstQueueID was given once and is never given again.
func (v *View) NextQueueID() QueueID { return v.nextQueue }

// SweepPending tells whether work was left that OpSweep does. The leader proposes OpSweep as long as it is true.
func (v *View) SweepPending() bool {
	if v.condemned.Len() > 0 {
		return true
	}
	for _, n := range v.nodes.All() {
		if _, ok := v.firstDead(n); ok {
			return true
		}
	}
	return false
}

// firstDead returns the lowest transient queue of a dead incarnation of the node.
func (v *View) firstDead(n *Node) (QueueID, bool) {
	for key, id := range withPrefix(v.homed, homedPrefix(n.ID)) {
		return id, homedBoot(key) <= n.DeadBoot.Counter
	}
	return 0, false
}

// Node returns the node, nil if there is none.
func (v *View) Node(id NodeID) *Node { n, _ := v.nodes.Get(id); return n }

// NodeNamed returns the node that has the name now, nil if there is none.
func (v *View) NodeNamed(name string) *Node {
	for _, n := range v.nodes.All() {
		if n.Name == name && !n.Replaced {
			return n
		}
	}
	return nil
}

// Nodes yields the nodes by id, replaced ones included.
func (v *View) Nodes() iter.Seq[*Node] { return valuesOf(v.nodes.All()) }

// VHost returns the virtual host, nil if there is none.
func (v *View) VHost(name string) *VHost {
	if h, ok := v.vhosts.Get(name); ok {
		return &h.VHost
	}
	return nil
}

// VHosts yields the virtual hosts.
func (v *View) VHosts() iter.Seq[*VHost] {
	return func(yield func(*VHost) bool) {
		for _, h := range v.vhosts.All() {
			if !yield(&h.VHost) {
				return
			}
		}
	}
}

// User returns the user, nil if there is none.
func (v *View) User(name string) *User { u, _ := v.users.Get(name); return u }

// Users yields the users.
func (v *View) Users() iter.Seq[*User] { return valuesOf(v.users.All()) }

// Permission returns what the user may do in the virtual host, nil for nothing.
func (v *View) Permission(user, vhostName string) *Permission {
	if h, ok := v.vhosts.Get(vhostName); ok {
		p, _ := h.permissions.Get(user)
		return p
	}
	return nil
}

// Permissions yields the permissions in a virtual host by user.
func (v *View) Permissions(vhostName string) iter.Seq[*Permission] {
	h, ok := v.vhosts.Get(vhostName)
	if !ok {
		return none[*Permission]
	}
	return valuesOf(h.permissions.All())
}

// PermissionsOf yields the permissions of a user by virtual host.
func (v *View) PermissionsOf(user string) iter.Seq[*Permission] {
	return func(yield func(*Permission) bool) {
		for _, h := range v.vhosts.All() {
			if p, ok := h.permissions.Get(user); ok && !yield(p) {
				return
			}
		}
	}
}

// Exchange returns the exchange, nil if there is none.
func (v *View) Exchange(vhostName, name string) *Exchange {
	if h, ok := v.vhosts.Get(vhostName); ok {
		x, _ := h.exchanges.Get(name)
		return x
	}
	return nil
}

// Exchanges yields the exchanges of a virtual host.
func (v *View) Exchanges(vhostName string) iter.Seq[*Exchange] {
	h, ok := v.vhosts.Get(vhostName)
	if !ok {
		return none[*Exchange]
	}
	return valuesOf(h.exchanges.All())
}

// ExchangeCount returns the number of exchanges in a virtual host.
func (v *View) ExchangeCount(vhostName string) int {
	if h, ok := v.vhosts.Get(vhostName); ok {
		return h.exchanges.Len()
	}
	return 0
}

// Queue returns the queue of that name, nil if there is none.
func (v *View) Queue(vhostName, name string) *Queue {
	if h, ok := v.vhosts.Get(vhostName); ok && !isHidden(name) {
		q, _ := h.queues.Get(name)
		return q
	}
	return nil
}

// QueueByID returns the queue, nil if it is gone. Unlike a look-up by name it finds hidden ones, too.
func (v *View) QueueByID(id QueueID) *Queue {
	if q, ok := v.queues.Get(id); ok && v.stands(q) {
		return q
	}
	return nil
}

// stands tells whether the queue is not just waiting for the sweep after its virtual host.
func (v *View) stands(q *Queue) bool {
	if v.condemned.Len() == 0 {
		return true
	}
	h, ok := v.vhosts.Get(q.VHost)
	if !ok {
		return false
	}
	present, _ := h.queues.Get(q.Name)
	return present == q
}

// Queues yields the queues of a virtual host.
func (v *View) Queues(vhostName string) iter.Seq[*Queue] { return v.QueuesFrom(vhostName, "") }

// QueuesFrom yields the queues of a virtual host whose name is not below the given one.
func (v *View) QueuesFrom(vhostName, least string) iter.Seq[*Queue] {
	h, ok := v.vhosts.Get(vhostName)
	if !ok {
		return none[*Queue]
	}
	return func(yield func(*Queue) bool) {
		for _, q := range h.queues.From(least) {
			if !q.IsHidden() && !yield(q) {
				return
			}
		}
	}
}

// QueuesByID yields every queue of the cluster by id, hidden ones among them.
func (v *View) QueuesByID() iter.Seq[*Queue] { return v.standing(valuesOf(v.queues.All())) }

func (v *View) standing(queues iter.Seq[*Queue]) iter.Seq[*Queue] {
	return func(yield func(*Queue) bool) {
		for q := range queues {
			if v.stands(q) && !yield(q) {
				return
			}
		}
	}
}

func (v *View) byIDs(ids iter.Seq[QueueID]) iter.Seq[*Queue] {
	return func(yield func(*Queue) bool) {
		for id := range ids {
			if q, _ := v.queues.Get(id); !yield(q) {
				return
			}
		}
	}
}

// QueueCount returns the number of queues in a virtual host.
func (v *View) QueueCount(vhostName string) int {
	if h, ok := v.vhosts.Get(vhostName); ok {
		return h.queues.Len() - h.hidden()
	}
	return 0
}

// QueueCountAll returns the number of queues in the cluster, with hidden ones.
func (v *View) QueueCountAll() int {
	n := v.queues.Len()
	for _, h := range v.condemned.All() {
		n -= h.queues.Len()
	}
	return n
}

// OwnedBy yields the exclusive queues of a connection by id.
func (v *View) OwnedBy(o Owner) iter.Seq[*Queue] {
	return v.standing(v.byIDs(valuesOf(withPrefix(v.owned, ownedPrefix(o)))))
}

// HomedOn yields the queues that live on a node and are not durable, by incarnation and id.
func (v *View) HomedOn(node NodeID) iter.Seq[*Queue] {
	return v.standing(v.byIDs(valuesOf(withPrefix(v.homed, homedPrefix(node)))))
}

// HasBinding tells whether the binding exists.
func (v *View) HasBinding(b *Binding) bool {
	h, ok := v.vhosts.Get(b.VHost)
	if ok {
		_, ok = h.bySource.Get(sourceKey(b))
	}
	return ok
}

// Bindings yields the bindings of a virtual host. The implicit ones of the default exchange are not among them.
func (v *View) Bindings(vhostName string) iter.Seq[*Binding] {
	return v.bindings(vhostName, "", false)
}

// BindingsFrom yields the bindings of which an exchange is the source.
func (v *View) BindingsFrom(vhostName, source string) iter.Seq[*Binding] {
	return v.bindings(vhostName, fromPrefix(source), false)
}

// BindingsTo yields the bindings that lead to a queue or exchange.
func (v *View) BindingsTo(vhostName string, kind DestinationKind, destination string) iter.Seq[*Binding] {
	return v.bindings(vhostName, toPrefix(kind, destination), true)
}

// BindingsBetween yields the bindings from an exchange to a queue or exchange.
func (v *View) BindingsBetween(vhostName, source string, kind DestinationKind, destination string) iter.Seq[*Binding] {
	return v.bindings(vhostName, betweenPrefix(source, kind, destination), false)
}

// BindingsBetweenWith yields those of BindingsBetween that have the routing key; they differ in arguments.
func (v *View) BindingsBetweenWith(vhostName, source string, kind DestinationKind, destination, routingKey string) iter.Seq[*Binding] {
	return v.bindings(vhostName, betweenKeyPrefix(source, kind, destination, routingKey), false)
}

func (v *View) bindings(vhostName, prefix string, byDestination bool) iter.Seq[*Binding] {
	h, ok := v.vhosts.Get(vhostName)
	switch {
	case !ok:
		return none[*Binding]
	case byDestination:
		return valuesOf(withPrefix(h.byDestination, prefix))
	}
	return valuesOf(withPrefix(h.bySource, prefix))
}

// BindingCountTo returns the number of bindings to a queue or exchange. It does not walk them.
func (v *View) BindingCountTo(vhostName string, kind DestinationKind, destination string) int {
	if h, ok := v.vhosts.Get(vhostName); ok {
		n, _ := h.bound.Get(toPrefix(kind, destination))
		return n
	}
	return 0
}

// BindingCount returns the number of bindings in a virtual host.
func (v *View) BindingCount(vhostName string) int {
	if h, ok := v.vhosts.Get(vhostName); ok {
		return h.bySource.Len()
	}
	return 0
}
