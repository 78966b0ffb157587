package meta

import (
	"errors"
	"fmt"

	"github.com/warrenmq/warren/internal/codec"
)

// The first octet of a snapshot is its format; a reader refuses what it does not know.
const (
	// snapshotFormat is what is written.
	snapshotFormat = 3
	// snapshotFormat2 has no policies, no parameters of virtual hosts and no changed arguments.
	snapshotFormat2 = 2
	// snapshotFormat1 has no limits and no topic permissions.
	snapshotFormat1 = 1
)

// ErrSnapshotFormat says that a snapshot was written by a newer release, or is none.
var ErrSnapshotFormat = errors.New("catalogue snapshot of unknown format")

// AppendSnapshot appends the whole catalogue in canonical form: equal states give equal bytes, whatever commands led there.
func (m *Machine) AppendSnapshot(dst []byte) []byte { return m.v.AppendSnapshot(dst) }

// AppendSnapshot appends the catalogue as it was at this View, so that a shell may write a snapshot while the machine goes on.
func (v *View) AppendSnapshot(dst []byte) []byte {
	dst = codec.AppendUint8(dst, snapshotFormat)
	dst = codec.AppendUint64(dst, v.index)
	dst = codec.AppendString(dst, v.clusterID)
	dst = codec.AppendString(dst, v.clusterName)
	dst = codec.AppendUvarint(dst, uint64(v.nextQueue))
	dst = codec.AppendUvarint(dst, uint64(v.nextNode))
	dst = codec.AppendUvarint(dst, v.nextCondemned)
	dst = codec.AppendUvarint(dst, uint64(v.nodes.Len()))
	for _, n := range v.nodes.All() {
		dst = appendNode(dst, n)
	}
	dst = codec.AppendUvarint(dst, uint64(v.users.Len()))
	for _, u := range v.users.All() {
		dst = appendUser(dst, u)
	}
	dst = codec.AppendUvarint(dst, uint64(v.parameters.Len()))
	for name, text := range v.parameters.All() {
		dst = codec.AppendString(codec.AppendString(dst, name), text)
	}
	dst = codec.AppendUvarint(dst, uint64(v.vhosts.Len()))
	for _, h := range v.vhosts.All() {
		dst = h.append(dst)
	}
	dst = codec.AppendUvarint(dst, uint64(v.condemned.Len()))
	for number, h := range v.condemned.All() {
		dst = h.append(codec.AppendUvarint(dst, number))
	}
	dst = codec.AppendUvarint(dst, uint64(v.userLimits.Len()))
	for user, limits := range v.userLimits.All() {
		dst = appendLimits(codec.AppendString(dst, user), limits)
	}
	return dst
}

// append writes a virtual host with all that is in it. Names of the virtual host inside the objects are written again: objects have one codec.
func (h *vhost) append(dst []byte) []byte {
	dst = appendVHost(dst, &h.VHost)
	dst = codec.AppendUvarint(dst, uint64(h.permissions.Len()))
	for _, p := range h.permissions.All() {
		dst = appendPermission(dst, p)
	}
	dst = codec.AppendUvarint(dst, uint64(h.exchanges.Len()))
	for _, x := range h.exchanges.All() {
		dst = appendExchange(dst, x)
	}
	dst = codec.AppendUvarint(dst, uint64(h.queues.Len()))
	for _, q := range h.queues.All() {
		dst = appendQueue(dst, q)
	}
	dst = codec.AppendUvarint(dst, uint64(h.bySource.Len()))
	for _, b := range h.bySource.All() {
		dst = appendBinding(dst, b)
	}
	dst = appendLimits(dst, h.limits)
	dst = codec.AppendUvarint(dst, uint64(h.topics.Len()))
	for _, p := range h.topics.All() {
		dst = appendTopicPermission(dst, p)
	}
	return appendChanges(appendParameters(appendPolicies(dst, h), h), h)
}

// Restore builds the machine that a snapshot was taken of. A snapshot that is cut, malformed or breaks an invariant is refused.
func Restore(src []byte) (*Machine, error) {
	r := codec.NewReader(src)
	format := r.Uint8()
	if format > snapshotFormat || format < snapshotFormat1 {
		return nil, ErrSnapshotFormat
	}
	m := New()
	v := &m.v
	v.index = r.Uint64()
	v.accessIndex = v.index
	v.clusterID, v.clusterName = r.String(), r.String()
	v.nextQueue, v.nextNode, v.nextCondemned = QueueID(r.Uvarint()), NodeID(r.Uvarint()), r.Uvarint()
	for range r.Count(1) {
		n := decodeNode(&r)
		v.nodes = v.nodes.Set(n.ID, &n)
	}
	for range r.Count(1) {
		u := decodeUser(&r)
		v.users = v.users.Set(u.Name, &u)
	}
	for range r.Count(1) {
		name := r.String()
		v.parameters = v.parameters.Set(name, r.String())
	}
	for range r.Count(1) {
		h := v.restoreVHost(&r, format)
		v.vhosts = v.vhosts.Set(h.Name, h)
	}
	for range r.Count(1) {
		number := r.Uvarint()
		v.condemned = v.condemned.Set(number, v.restoreVHost(&r, format))
	}
	if format != snapshotFormat1 {
		for range r.Count(limitBytesMin) {
			user := r.String()
			v.userLimits = v.userLimits.Set(user, decodeLimits(&r))
		}
	}
	if r.Err() == nil && r.Len() != 0 {
		r.Fail(codec.ErrMalformed)
	}
	if r.Err() != nil {
		return nil, fmt.Errorf("catalogue snapshot: %w", r.Err())
	}
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("catalogue snapshot: %w", err)
	}
	return m, nil
}

// restoreVHost reads a virtual host and enters its queues into the indexes of the cluster.
func (v *View) restoreVHost(r *codec.Reader, format uint8) *vhost {
	h := &vhost{VHost: decodeVHost(r)}
	for range r.Count(1) {
		p := decodePermission(r)
		h.permissions = h.permissions.Set(p.User, &p)
	}
	for range r.Count(1) {
		x := decodeExchange(r)
		h.exchanges = h.exchanges.Set(x.Name, &x)
	}
	for range r.Count(1) {
		q := decodeQueue(r)
		h.queues = h.queues.Set(q.Name, &q)
		v.queues = v.queues.Set(q.ID, &q)
		if q.Exclusive {
			v.owned = v.owned.Set(ownedKey(q.Owner, q.ID), q.ID)
		}
		if !q.Durable {
			v.homed = v.homed.Set(homedKey(q.Home, q.HomeBoot.Counter, q.ID), q.ID)
		}
	}
	for range r.Count(1) {
		b := decodeBinding(r)
		if b.Kind == ToQueue {
			if q, ok := h.queues.Get(b.Destination); ok {
				b.Queue = q.ID
			}
		}
		h.addBinding(&b)
	}
	if format == snapshotFormat1 {
		return h
	}
	h.limits = decodeLimits(r)
	for range r.Count(topicBytesMin) {
		p := decodeTopicPermission(r)
		h.topics = h.topics.Set(topicKey(p.User, p.Exchange), &p)
	}
	if format == snapshotFormat2 {
		return h
	}
	for range r.Count(policyBytesMin) {
		p := decodePolicy(r)
		kind := kindOfPolicy(p.Operator)
		h.policies[kind] = h.policies[kind].Set(p.Name, compilePolicy(&p))
	}
	for range r.Count(parameterBytesMin) {
		p := decodeParameter(r)
		h.parameters = h.parameters.Set(parameterKey(p.Component, p.Name), &p)
	}
	decodeChanges(r, h)
	if h.policies.len() == 0 {
		return h
	}
	for _, x := range h.exchanges.All() {
		x.Policies = h.policies.attachExchange(x)
	}
	for _, q := range h.queues.All() {
		q.Policies = h.policies.attachQueue(q)
	}
	return h
}
