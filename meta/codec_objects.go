package meta

import "github.com/warrenmq/warren/internal/codec"

// The codecs of the objects, shared by commands and snapshots. Every append has its decode beside it, field by field in the same order.

func appendBoot(dst []byte, b Boot) []byte {
	dst = codec.AppendUvarint(dst, b.Counter)
	return codec.AppendUint64(dst, b.Nonce)
}

func decodeBoot(r *codec.Reader) Boot { return Boot{Counter: r.Uvarint(), Nonce: r.Uint64()} }

func appendOwner(dst []byte, o Owner) []byte {
	dst = codec.AppendUvarint(dst, uint64(o.Node))
	dst = appendBoot(dst, o.Boot)
	return codec.AppendUvarint(dst, o.Connection)
}

func decodeOwner(r *codec.Reader) Owner {
	return Owner{Node: NodeID(r.Uvarint()), Boot: decodeBoot(r), Connection: r.Uvarint()}
}

func appendStrings(dst []byte, ss []string) []byte {
	dst = codec.AppendUvarint(dst, uint64(len(ss)))
	for _, s := range ss {
		dst = codec.AppendString(dst, s)
	}
	return dst
}

func decodeStrings(r *codec.Reader) []string {
	n := r.Count(1)
	if n == 0 {
		return nil
	}
	ss := make([]string, n)
	for i := range ss {
		ss[i] = r.String()
	}
	return ss
}

// appendMillis keeps negative times (a clock before 1970) apart from huge ones.
func appendMillis(dst []byte, v int64) []byte { return codec.AppendUint64(dst, uint64(v)) }

func decodeMillis(r *codec.Reader) int64 { return int64(r.Uint64()) }

func appendNode(dst []byte, n *Node) []byte {
	dst = codec.AppendUvarint(dst, uint64(n.ID))
	dst = codec.AppendString(dst, n.Name)
	dst = codec.AppendString(dst, n.Address)
	dst = codec.AppendUint64(dst, n.Token)
	dst = appendBoot(dst, n.Boot)
	dst = appendBoot(dst, n.DeadBoot)
	dst = codec.AppendUvarint(dst, uint64(n.MachineVersion))
	return codec.AppendBool(dst, n.Replaced)
}

func decodeNode(r *codec.Reader) Node {
	n := Node{ID: NodeID(r.Uvarint()), Name: r.String(), Address: r.String(), Token: r.Uint64(), Boot: decodeBoot(r), DeadBoot: decodeBoot(r)}
	version := r.Uvarint()
	if version > 1<<32-1 {
		r.Fail(codec.ErrMalformed)
	}
	n.MachineVersion = uint32(version)
	n.Replaced = r.Bool()
	return n
}

func appendVHost(dst []byte, v *VHost) []byte {
	dst = codec.AppendString(dst, v.Name)
	dst = codec.AppendString(dst, v.Description)
	dst = appendStrings(dst, v.Tags)
	dst = codec.AppendString(dst, v.DefaultQueueType)
	dst = codec.AppendBool(dst, v.Tracing)
	return appendMillis(dst, v.CreatedMillis)
}

func decodeVHost(r *codec.Reader) VHost {
	return VHost{
		Name: r.String(), Description: r.String(), Tags: decodeStrings(r), DefaultQueueType: r.String(),
		Tracing: r.Bool(), CreatedMillis: decodeMillis(r),
	}
}

func appendUser(dst []byte, u *User) []byte {
	dst = codec.AppendString(dst, u.Name)
	dst = codec.AppendBytes(dst, u.PasswordHash)
	dst = codec.AppendString(dst, u.HashingAlgorithm)
	return appendStrings(dst, u.Tags)
}

func decodeUser(r *codec.Reader) User {
	u := User{Name: r.String()}
	if hash := r.Bytes(); len(hash) > 0 {
		u.PasswordHash = append([]byte(nil), hash...)
	}
	u.HashingAlgorithm = r.String()
	u.Tags = decodeStrings(r)
	return u
}

func appendPermission(dst []byte, p *Permission) []byte {
	dst = codec.AppendString(dst, p.User)
	dst = codec.AppendString(dst, p.VHost)
	dst = codec.AppendString(dst, p.Configure)
	dst = codec.AppendString(dst, p.Write)
	return codec.AppendString(dst, p.Read)
}

func decodePermission(r *codec.Reader) Permission {
	return Permission{User: r.String(), VHost: r.String(), Configure: r.String(), Write: r.String(), Read: r.String()}
}

func appendTopicPermission(dst []byte, p *TopicPermission) []byte {
	for _, s := range [...]string{p.User, p.VHost, p.Exchange, p.Write, p.Read} {
		dst = codec.AppendString(dst, s)
	}
	return dst
}

// topicBytesMin is the length of the shortest encoded topic permission.
const topicBytesMin = 5

func decodeTopicPermission(r *codec.Reader) TopicPermission {
	return TopicPermission{User: r.String(), VHost: r.String(), Exchange: r.String(), Write: r.String(), Read: r.String()}
}

func appendLimit(dst []byte, l Limit) []byte {
	return codec.AppendUint64(codec.AppendString(dst, l.Name), uint64(l.Value))
}

func decodeLimit(r *codec.Reader) Limit { return Limit{Name: r.String(), Value: int64(r.Uint64())} }

func appendLimits(dst []byte, limits []Limit) []byte {
	dst = codec.AppendUvarint(dst, uint64(len(limits)))
	for _, l := range limits {
		dst = appendLimit(dst, l)
	}
	return dst
}

func decodeLimits(r *codec.Reader) (limits []Limit) {
	for range r.Count(limitBytesMin) {
		limits = append(limits, decodeLimit(r))
	}
	return limits
}

// limitBytesMin is the length of the shortest encoded limit.
const limitBytesMin = 9

func appendPolicy(dst []byte, p *Policy) []byte {
	dst = codec.AppendString(dst, p.VHost)
	dst = codec.AppendString(dst, p.Name)
	dst = codec.AppendBool(dst, p.Operator)
	dst = codec.AppendString(dst, p.Pattern)
	dst = codec.AppendUint8(dst, uint8(p.ApplyTo))
	dst = codec.AppendUint64(dst, uint64(p.Priority))
	return codec.AppendString(dst, p.Definition.raw)
}

// policyBytesMin is the length of the shortest encoded policy.
const policyBytesMin = 14

func decodePolicy(r *codec.Reader) Policy {
	return Policy{
		VHost: r.String(), Name: r.String(), Operator: r.Bool(), Pattern: r.String(), ApplyTo: ApplyTo(r.Uint8()), Priority: int64(r.Uint64()),
		Definition: decodeArguments(r),
	}
}

func appendExchange(dst []byte, x *Exchange) []byte {
	dst = codec.AppendString(dst, x.VHost)
	dst = codec.AppendString(dst, x.Name)
	dst = codec.AppendString(dst, x.Type)
	dst = codec.AppendUint8(dst, flags(x.Durable, x.AutoDelete, x.Internal))
	return codec.AppendString(dst, x.Arguments.raw)
}

func decodeExchange(r *codec.Reader) Exchange {
	x := Exchange{VHost: r.String(), Name: r.String(), Type: r.String()}
	f := decodeFlags(r)
	x.Durable, x.AutoDelete, x.Internal = f&1 != 0, f&2 != 0, f&4 != 0
	x.Arguments = decodeArguments(r)
	return x
}

func flags(list ...bool) uint8 {
	f := uint8(0)
	for i, set := range list {
		if set {
			f |= 1 << i
		}
	}
	return f
}

func decodeFlags(r *codec.Reader) uint8 {
	f := r.Uint8()
	if f > 7 {
		r.Fail(codec.ErrMalformed)
	}
	return f
}

func appendQueue(dst []byte, q *Queue) []byte {
	dst = codec.AppendUvarint(dst, uint64(q.ID))
	dst = codec.AppendString(dst, q.VHost)
	dst = codec.AppendString(dst, q.Name)
	dst = codec.AppendString(dst, q.Type)
	dst = codec.AppendUint8(dst, flags(q.Durable, q.AutoDelete, q.Exclusive, q.ReplicasWanted != 0, q.Was != ""))
	dst = appendOwner(dst, q.Owner)
	dst = codec.AppendString(dst, q.Arguments.raw)
	dst = codec.AppendUvarint(dst, uint64(q.Home))
	dst = appendBoot(dst, q.HomeBoot)
	dst = codec.AppendUvarint(dst, uint64(len(q.Replicas)))
	for _, id := range q.Replicas {
		dst = codec.AppendUvarint(dst, uint64(id))
	}
	dst = appendMembers(dst, q.Members)
	dst = codec.AppendUvarint(dst, q.MembersIndex)
	dst = codec.AppendUvarint(dst, q.NextReplica)
	dst = appendMillis(dst, q.CreatedMillis)
	dst = codec.AppendUvarint(dst, q.ConfigVersion)
	dst = codec.AppendUvarint(dst, q.AbortedToken)
	if q.ReplicasWanted != 0 {
		dst = codec.AppendUvarint(dst, q.ReplicasWanted)
	}
	if q.Was != "" {
		dst = codec.AppendString(dst, q.Was)
	}
	return dst
}

func decodeQueue(r *codec.Reader) Queue {
	q := Queue{ID: QueueID(r.Uvarint()), VHost: r.String(), Name: r.String(), Type: r.String()}
	f := r.Uint8()
	if f > 31 {
		r.Fail(codec.ErrMalformed)
	}
	q.Durable, q.AutoDelete, q.Exclusive = f&1 != 0, f&2 != 0, f&4 != 0
	q.Owner = decodeOwner(r)
	q.Arguments = decodeArguments(r)
	q.Home = NodeID(r.Uvarint())
	q.HomeBoot = decodeBoot(r)
	if n := r.Count(1); n > 0 {
		q.Replicas = make([]NodeID, n)
		for i := range q.Replicas {
			q.Replicas[i] = NodeID(r.Uvarint())
		}
	}
	q.Members = decodeMembers(r)
	q.MembersIndex, q.NextReplica = r.Uvarint(), r.Uvarint()
	q.CreatedMillis = decodeMillis(r)
	q.ConfigVersion = r.Uvarint()
	q.AbortedToken = r.Uvarint()
	if f&8 != 0 {
		if q.ReplicasWanted = r.Uvarint(); q.ReplicasWanted == 0 {
			r.Fail(codec.ErrMalformed) // one state, one encoding
		}
	}
	if f&16 != 0 {
		if q.Was = r.String(); q.Was == "" {
			r.Fail(codec.ErrMalformed)
		}
	}
	return q
}

func appendBinding(dst []byte, b *Binding) []byte {
	dst = codec.AppendString(dst, b.VHost)
	dst = codec.AppendString(dst, b.Source)
	dst = codec.AppendUint8(dst, uint8(b.Kind))
	dst = codec.AppendString(dst, b.Destination)
	dst = codec.AppendString(dst, b.RoutingKey)
	return codec.AppendString(dst, b.Arguments.raw)
}

func decodeBinding(r *codec.Reader) Binding {
	b := Binding{VHost: r.String(), Source: r.String(), Kind: DestinationKind(r.Uint8())}
	if b.Kind != ToQueue && b.Kind != ToExchange {
		r.Fail(codec.ErrMalformed)
	}
	b.Destination = r.String()
	b.RoutingKey = r.String()
	b.Arguments = decodeArguments(r)
	return b
}

// memberBytesMin is the length of the shortest encoded member.
const memberBytesMin = 3

func appendMembers(dst []byte, members []Member) []byte {
	dst = codec.AppendUvarint(dst, uint64(len(members)))
	for _, m := range members {
		dst = codec.AppendUvarint(dst, uint64(m.Node))
		dst = codec.AppendUvarint(dst, m.Replica)
		dst = codec.AppendBool(dst, m.NonVoting)
	}
	return dst
}

func decodeMembers(r *codec.Reader) []Member {
	n := r.Count(memberBytesMin)
	if n == 0 {
		return nil
	}
	members := make([]Member, n)
	for i := range members {
		members[i] = Member{Node: NodeID(r.Uvarint()), Replica: r.Uvarint(), NonVoting: r.Bool()}
	}
	return members
}
