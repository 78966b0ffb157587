package meta

import (
	"slices"

	"github.com/warrenmq/warren/internal/cow"
	"github.com/warrenmq/warren/internal/invariant"
	"github.com/warrenmq/warren/internal/machine"
)

// Machine is the replicated catalogue. It is not safe for concurrent use; its Views are.
type Machine struct {
	v View
	// shared is the view that was handed out since the last change, nil if there is none.
	shared *View
	out    []Effect
}

// New returns an empty catalogue: no node, no user, no virtual host.
func New() *Machine {
	return &Machine{v: View{nextQueue: FirstQueueID, nextNode: 1, nextCondemned: 1}}
}

// View returns the catalogue as it is now. It costs one small copy after a change and nothing otherwise.
func (m *Machine) View() *View {
	if m.shared == nil {
		v := m.v
		m.shared = &v
	}
	return m.shared
}

// Apply carries out one command and appends what shells must react to. Commands of one batch are applied one after the other under the same Stamp.
// A command that was refused changes nothing but the index.
func (m *Machine) Apply(at machine.Stamp, c *Command, out []Effect) (Reply, []Effect) {
	m.shared = nil
	m.v.index = at.Index
	m.out = out
	reply := m.apply(at, c)
	out, m.out = m.out, nil
	return reply, out
}

func (m *Machine) apply(at machine.Stamp, c *Command) Reply {
	switch c.Op {
	case OpFound:
		return m.found(c)
	case OpSetClusterName:
		return m.setClusterName(c.Name)
	case OpRegisterNode:
		return m.registerNode(&c.Node)
	case OpRegisterBoot:
		return m.registerBoot(&c.Node)
	case OpNodeDead:
		return m.nodeDead(&c.Node)
	case OpPutVHost:
		return m.putVHost(at, &c.VHost)
	case OpDeleteVHost:
		return m.deleteVHost(c.VHost.Name)
	case OpPutUser:
		return m.putUser(&c.User)
	case OpDeleteUser:
		return m.deleteUser(c.User.Name)
	case OpPutPermission:
		return m.putPermission(&c.Permission)
	case OpDeletePermission:
		return m.deletePermission(&c.Permission)
	case OpDeclareExchange:
		return m.declareExchange(&c.Exchange)
	case OpDeleteExchange:
		return m.deleteExchange(&c.Exchange, c.IfUnused)
	case OpDeclareQueue:
		return m.declareQueue(at, &c.Queue)
	case OpDeleteQueue:
		return m.deleteQueue(c.Queue.ID, c.Token, c.Drain)
	case OpDeleteAborted:
		return m.deleteAborted(c.Queue.ID, c.Token)
	case OpBind:
		return m.bind(&c.Binding)
	case OpUnbind:
		return m.unbind(&c.Binding)
	case OpDropOwned:
		return m.dropOwned(c.Owner)
	case OpSweep:
		return m.sweep()
	case OpPutGlobalParameter:
		return m.putGlobalParameter(c.Name, c.Text)
	case OpAllotReplica:
		return m.allotReplica(c.Queue.ID)
	case OpSetMembers:
		return m.setMembers(c.Queue.ID, c.Queue.Members, c.Token)
	case OpWantReplicas:
		return m.wantReplicas(c.Queue.ID, c.Queue.ReplicasWanted)
	case OpPutTopicPermission:
		return m.putTopicPermission(&c.Topic)
	case OpDeleteTopicPermission:
		return m.deleteTopicPermission(&c.Topic)
	case OpSetVHostLimit, OpClearVHostLimit:
		return m.changeVHostLimit(c.VHost.Name, c.Limit, c.Op == OpSetVHostLimit)
	case OpSetUserLimit, OpClearUserLimit:
		return m.changeUserLimit(c.User.Name, c.Limit, c.Op == OpSetUserLimit)
	case OpPutPolicy:
		return m.putPolicy(&c.Policy)
	case OpDeletePolicy:
		return m.deletePolicy(&c.Policy)
	case OpPutParameter:
		return m.putParameter(&c.Parameter)
	case OpChangeArguments:
		return m.changeArguments(c.Queue.ID, c.Queue.Changes)
	}
	invariant.Failf("catalogue command of unknown op %d", c.Op)
	return Reply{}
}

func (m *Machine) emit(e Effect) {
	switch e.Kind {
	case VHostChanged, VHostDeleted, UserChanged, UserDeleted, PermissionChanged:
		m.v.accessIndex = m.v.index
	}
	m.out = append(m.out, e)
}

func limit(kind string, most uint64) Reply {
	return Reply{Reason: ReasonLimit, Field: kind, Count: most}
}

func (m *Machine) found(c *Command) Reply {
	if m.v.clusterID != "" {
		return Reply{Existed: true}
	}
	m.v.clusterID, m.v.clusterName = c.Text, c.Name
	m.emit(Effect{Kind: ClusterChanged, Name: c.Name})
	return Reply{}
}

func (m *Machine) setClusterName(name string) Reply {
	m.v.clusterName = name
	m.emit(Effect{Kind: ClusterChanged, Name: name})
	return Reply{}
}

func (m *Machine) putUser(in *User) Reply {
	u := *in
	u.Tags = sortedSet(in.Tags)
	_, existed := m.v.users.Get(u.Name)
	if !existed && m.v.users.Len() >= UsersMax {
		return limit("users", UsersMax)
	}
	m.v.users = m.v.users.Set(u.Name, &u)
	m.emit(Effect{Kind: UserChanged, User: u.Name})
	return Reply{Existed: existed}
}

func (m *Machine) deleteUser(name string) Reply {
	if _, ok := m.v.users.Get(name); !ok {
		return Reply{Reason: ReasonNoUser}
	}
	m.v.users = m.v.users.Delete(name)
	m.v.userLimits = m.v.userLimits.Delete(name)
	for _, h := range m.v.vhosts.All() {
		_, has := h.permissions.Get(name)
		topics := topicKeys(h, name)
		if !has && len(topics) == 0 {
			continue
		}
		next := *h
		next.permissions = h.permissions.Delete(name)
		for _, key := range topics {
			next.topics = next.topics.Delete(key)
		}
		m.setVHost(&next)
		m.emit(Effect{Kind: PermissionChanged, User: name, VHost: h.Name})
	}
	m.emit(Effect{Kind: UserDeleted, User: name})
	return Reply{Existed: true}
}

func (m *Machine) putPermission(in *Permission) Reply {
	if _, ok := m.v.users.Get(in.User); !ok {
		return Reply{Reason: ReasonNoUser}
	}
	h, ok := m.v.vhosts.Get(in.VHost)
	if !ok {
		return Reply{Reason: ReasonNoVHost}
	}
	p := *in
	_, existed := h.permissions.Get(p.User)
	next := *h
	next.permissions = h.permissions.Set(p.User, &p)
	m.setVHost(&next)
	m.emit(Effect{Kind: PermissionChanged, User: p.User, VHost: p.VHost})
	return Reply{Existed: existed}
}

func (m *Machine) deletePermission(p *Permission) Reply {
	h, ok := m.v.vhosts.Get(p.VHost)
	if !ok {
		return Reply{}
	}
	if _, ok = h.permissions.Get(p.User); !ok {
		return Reply{}
	}
	next := *h
	next.permissions = h.permissions.Delete(p.User)
	m.setVHost(&next)
	m.emit(Effect{Kind: PermissionChanged, User: p.User, VHost: h.Name})
	return Reply{Existed: true}
}

// setVHost makes next the present version of its virtual host.
func (m *Machine) setVHost(next *vhost) { m.v.vhosts = m.v.vhosts.Set(next.Name, next) }

func (m *Machine) putVHost(at machine.Stamp, in *VHost) Reply {
	h, existed := m.v.vhosts.Get(in.Name)
	if !existed && m.v.vhosts.Len() >= VHostsMax {
		return limit("vhosts", VHostsMax)
	}
	next := vhost{}
	if existed {
		next = *h
	} else {
		next.exchanges = predeclared(in.Name)
		next.CreatedMillis = at.NowMillis
	}
	created := next.CreatedMillis
	next.VHost = *in
	next.CreatedMillis = created
	next.Tags = sortedSet(in.Tags)
	m.setVHost(&next)
	m.emit(Effect{Kind: VHostChanged, VHost: in.Name})
	return Reply{Existed: existed}
}

// deleteVHost takes the virtual host out of sight at once and sweeps as many of its queues as one entry may.
func (m *Machine) deleteVHost(name string) Reply {
	h, ok := m.v.vhosts.Get(name)
	if !ok {
		return Reply{Reason: ReasonNoVHost}
	}
	m.v.vhosts = m.v.vhosts.Delete(name)
	for user := range h.permissions.All() {
		m.emit(Effect{Kind: PermissionChanged, User: user, VHost: name})
	}
	m.emit(Effect{Kind: VHostDeleted, VHost: name})
	m.v.condemned = m.v.condemned.Set(m.v.nextCondemned, &vhost{VHost: h.VHost, queues: h.queues})
	m.v.nextCondemned++
	reply := m.sweep()
	reply.Existed = true
	return reply
}

// predeclared returns the exchanges that every virtual host has.
func predeclared(vhostName string) (xs cow.Map[string, *Exchange]) {
	for _, x := range [...]Exchange{
		{Name: "", Type: "direct"},
		{Name: "amq.direct", Type: "direct"},
		{Name: "amq.fanout", Type: "fanout"},
		{Name: "amq.headers", Type: "headers"},
		{Name: "amq.match", Type: "headers"},
		{Name: "amq.rabbitmq.trace", Type: "topic", Internal: true},
		{Name: "amq.topic", Type: "topic"},
	} {
		x.VHost, x.Durable = vhostName, true
		xs = xs.Set(x.Name, &x)
	}
	return xs
}

// sortedSet returns a sorted copy without duplicates.
func sortedSet(in []string) []string {
	if len(in) == 0 {
		return nil
	}
	out := slices.Clone(in)
	slices.Sort(out)
	return slices.Compact(out)
}
