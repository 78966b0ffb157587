package broker

import (
	"context"
	"sync"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
)

// usage counts connections and channels for the limits of users and virtual hosts. What this node serves is counted exactly. Of what other nodes serve it knows what they told last: each tells a
// few times a second what it serves of users and virtual hosts with a limit, so that a limit may be exceeded only by what comes to several nodes at the same moment.
type usage struct {
	mu     sync.Mutex
	all    userUse // of this node
	users  map[string]*userUse
	vhosts map[string]int // connections
	others map[meta.NodeID]*toldUse

	// Of the watch: who has limits as of the catalogue's AccessIndex.
	index         uint64
	limitedUsers  []string
	limitedVHosts []string
}

// userUse is what a user has.
type userUse struct{ connections, channels int }

// toldUse is what another node has told, at a tick of this one.
type toldUse struct {
	tick   uint32
	users  map[string]userUse
	vhosts map[string]int
}

// teller passes word between the brokers of a cluster: a Host that is part of one is one.
type teller interface {
	// Tell sends payload to the brokers of the other nodes that are up; it may get lost.
	Tell(payload []byte)
	// TellNode sends it to one of them.
	TellNode(node meta.NodeID, payload []byte)
	// OnTold has f called with what they send.
	OnTold(f func(node meta.NodeID, payload []byte))
	// AskTold asks one of them, OnAsked has f called with what they ask.
	AskTold(ctx context.Context, node meta.NodeID, question []byte) ([]byte, error)
	OnAsked(f func(question []byte) (answer []byte))
}

const (
	// toldTicks is how long the word of another node counts: several times as long as it takes to tell again.
	toldTicks = 8
	// toldFormat is the first octet of it; what begins otherwise is of a version that knows better.
	toldFormat = 1
	// toldReply begins a reply to a channel, or the question whether there is such a channel.
	toldReply = 2
	// toldRecall asks to copy a history.
	toldRecall = 3
)

// userOf is what a user has on all nodes. Called with u.mu held.
func (u *usage) userOf(name string, now uint32) (sum userUse) {
	if here := u.users[name]; here != nil {
		sum = *here
	}
	for _, t := range u.others {
		if now-t.tick <= toldTicks {
			sum.connections += t.users[name].connections
			sum.channels += t.users[name].channels
		}
	}
	return sum
}

// vhostOf is how many connections a virtual host has on all nodes. Called with u.mu held.
func (u *usage) vhostOf(name string, now uint32) int {
	sum := u.vhosts[name]
	for _, t := range u.others {
		if now-t.tick <= toldTicks {
			sum += t.vhosts[name]
		}
	}
	return sum
}

// countConnection counts a connection that opens a virtual host, unless a limit forbids it.
func (b *Broker) countConnection(c *conn, view *meta.View, vhost string) *amqp.Error {
	u := &b.usage
	now := b.tick.Load()
	u.mu.Lock()
	defer u.mu.Unlock()
	if most := b.opt.ConnectionMax; most > 0 && u.all.connections >= most {
		return errNodeConnections(most)
	}
	if most, ok := meta.LimitOf(view.VHostLimits(vhost), meta.MaxConnections); ok && int64(u.vhostOf(vhost, now)) >= most {
		return errVHostConnections(vhost, c.user, most)
	}
	if most, ok := meta.LimitOf(view.UserLimits(c.user), meta.MaxConnections); ok && int64(u.userOf(c.user, now).connections) >= most {
		return errUserConnections(c.user, most)
	}
	if u.users == nil {
		u.users, u.vhosts = make(map[string]*userUse), make(map[string]int)
	}
	if u.users[c.user] == nil {
		u.users[c.user] = &userUse{}
	}
	u.all.connections++
	u.users[c.user].connections++
	u.vhosts[vhost]++
	c.counted = countedConn{vhost: vhost, user: u.users[c.user]}
	return nil
}

// countedConn is a connection as usage counts it, guarded by usage.mu.
type countedConn struct {
	vhost    string
	user     *userUse // nil: it is not counted
	channels int
}

// uncountConnection takes a connection that has ended out of the counts, with the channels that it has left.
func (b *Broker) uncountConnection(c *conn) {
	u := &b.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	n := c.counted
	if n.user == nil {
		return
	}
	c.counted = countedConn{}
	u.all.channels -= n.channels
	u.all.connections--
	n.user.channels -= n.channels
	if n.user.connections--; n.user.connections == 0 {
		delete(u.users, c.user)
	}
	if u.vhosts[n.vhost]--; u.vhosts[n.vhost] == 0 {
		delete(u.vhosts, n.vhost)
	}
}

// countChannel counts a channel that opens, unless a limit forbids it.
func (b *Broker) countChannel(c *conn) *amqp.Error {
	limits := b.host.Catalogue().View.UserLimits(c.user)
	u := &b.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	if most := b.opt.ChannelsPerNodeMax; most > 0 && u.all.channels >= most {
		return errNodeChannels(b.nodeName(), most)
	}
	if most, ok := meta.LimitOf(limits, meta.MaxChannels); ok && int64(u.userOf(c.user, b.tick.Load()).channels) >= most {
		return errUserChannels(c.user, most)
	}
	if c.counted.user != nil {
		u.all.channels++
		c.counted.user.channels++
		c.counted.channels++
	}
	return nil
}

// uncountChannel takes a channel whose number is free again out of the counts.
func (b *Broker) uncountChannel(c *conn) {
	u := &b.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.counted.channels > 0 {
		u.all.channels--
		c.counted.user.channels--
		c.counted.channels--
	}
}

// tellUsage tells the other nodes what this one serves of users and virtual hosts with limits. It is the watch's.
func (b *Broker) tellUsage() {
	if b.teller == nil {
		return
	}
	u, view := &b.usage, b.host.Catalogue().View
	if index := view.AccessIndex(); index != u.index {
		u.index = index
		u.limitedUsers, u.limitedVHosts = nil, nil
		for name := range view.LimitedUsers() {
			u.limitedUsers = append(u.limitedUsers, name)
		}
		for h := range view.VHosts() {
			if _, ok := meta.LimitOf(view.VHostLimits(h.Name), meta.MaxConnections); ok {
				u.limitedVHosts = append(u.limitedVHosts, h.Name)
			}
		}
	}
	if len(u.limitedUsers)+len(u.limitedVHosts) > 0 {
		b.teller.Tell(u.word())
	}
}

// word is what is told: users with their connections and channels, virtual hosts with their connections, as far as there are any.
func (u *usage) word() []byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := []byte{toldFormat}
	for _, name := range u.limitedUsers {
		if n := u.users[name]; n != nil {
			out = codec.AppendBool(out, true)
			out = codec.AppendString(out, name)
			out = codec.AppendUvarint(codec.AppendUvarint(out, uint64(n.connections)), uint64(n.channels))
		}
	}
	out = codec.AppendBool(out, false)
	for _, name := range u.limitedVHosts {
		if n := u.vhosts[name]; n > 0 {
			out = codec.AppendBool(out, true)
			out = codec.AppendUvarint(codec.AppendString(out, name), uint64(n))
		}
	}
	return codec.AppendBool(out, false)
}

// told takes the word of another node.
func (b *Broker) told(node meta.NodeID, payload []byte) {
	if len(payload) > 0 && payload[0] == toldReply {
		b.toldOfReply(payload[1:])
		return
	}
	r := codec.NewReader(payload)
	if r.Uint8() != toldFormat {
		return
	}
	t := &toldUse{tick: b.tick.Load(), users: make(map[string]userUse), vhosts: make(map[string]int)}
	for r.Bool() && r.Err() == nil {
		name := r.String()
		t.users[name] = userUse{int(r.Uvarint()), int(r.Uvarint())}
	}
	for r.Bool() && r.Err() == nil {
		name := r.String()
		t.vhosts[name] = int(r.Uvarint())
	}
	if r.Err() != nil || r.Len() > 0 {
		return
	}
	u := &b.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.others == nil {
		u.others = make(map[meta.NodeID]*toldUse)
	}
	u.others[node] = t
	for id, t := range u.others {
		if b.tick.Load()-t.tick > toldTicks {
			delete(u.others, id)
		}
	}
}

// nodeName is the node's name as clients know it.
func (b *Broker) nodeName() string {
	if n := b.host.Catalogue().View.Node(b.host.Node()); n != nil {
		return n.Name
	}
	return ""
}
