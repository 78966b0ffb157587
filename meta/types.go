package meta

// QueueID names a queue for ever; it is the id of its Raft shard.
type QueueID uint64

// NodeID names a node. A wiped node gets a new one, so an id is never reused. 0 is no node.
type NodeID uint64

// FirstQueueID is the first id that is given to a queue. Lower shard ids belong to the system (1 is the catalogue).
const FirstQueueID QueueID = 1024

// Boot is one incarnation of a node (PROTOCOL 1). Counter rises strictly with every start or survived death, from 1; Nonce tells apart two
// incarnations that claim the same counter.
type Boot struct {
	Counter uint64
	Nonce   uint64
}

// Owner is a client connection: the one that an exclusive queue belongs to. Connection is a counter of the boot, never reused. The zero Owner is nobody.
type Owner struct {
	Node       NodeID
	Boot       Boot
	Connection uint64
}

// Node is a member of the cluster.
type Node struct {
	ID NodeID
	// Name is the name that clients and operators see, as rabbit@host. It is unique among nodes that are not dead.
	Name string
	// Address is the advertised cluster address, host:port.
	Address string
	// Token is a random number that the node chose before it asked for an id, so that asking twice gives one id.
	Token uint64
	// Boot is the newest registered incarnation; zero before the first.
	Boot Boot
	// DeadBoot is the highest incarnation that was declared dead: it and every lower one is fenced for ever. Equal to Boot when the node is dead.
	DeadBoot Boot
	// MachineVersion is the highest behaviour version of machines that the node supports.
	MachineVersion uint32
	// Replaced says that another node took over the name; the id will not come back.
	Replaced bool
}

// Alive tells whether the node has an incarnation that was not declared dead.
func (n *Node) Alive() bool { return n.Boot.Counter > n.DeadBoot.Counter }

// Fences tells whether commands of the incarnation must be refused: it is dead, lower than a dead one, or a twin of the registered one.
func (n *Node) Fences(b Boot) bool {
	return b.Counter <= n.DeadBoot.Counter || b.Counter == n.Boot.Counter && b.Nonce != n.Boot.Nonce
}

// VHost is a virtual host: a name space of exchanges, queues and bindings.
type VHost struct {
	Name        string
	Description string
	// Tags are sorted and without duplicates.
	Tags []string
	// DefaultQueueType is what a durable queue declared without x-queue-type becomes; empty means classic.
	DefaultQueueType string
	Tracing          bool
	CreatedMillis    int64
}

// User may log in. The slices must not be changed.
type User struct {
	Name string
	// PasswordHash is 4 bytes of salt and the digest of salt and password; empty means that no password fits. See CheckPassword.
	PasswordHash []byte
	// HashingAlgorithm is RabbitMQ's module name, empty for DefaultHashing.
	HashingAlgorithm string
	// Tags are sorted and without duplicates: administrator, monitoring, policymaker, management, impersonator...
	Tags []string
}

// HasTag tells whether the user has the tag.
func (u *User) HasTag(tag string) bool {
	for _, t := range u.Tags {
		if t == tag {
			return true
		}
	}
	return false
}

// Permission is what a user may do in a virtual host: three regular expressions over names. See Allows.
type Permission struct {
	User, VHost            string
	Configure, Write, Read string
}

// TopicPermission bounds which routing keys a user may publish to a topic exchange with (Write) and bind from it with (Read): two regular expressions, in which {username} and {vhost} stand for
// the two names. Where there is none for an exchange, every key is allowed.
type TopicPermission struct {
	User, VHost, Exchange string
	Write, Read           string
}

// The limits that there are: of connections to a virtual host or by a user, queues of a virtual host, channels of a user. The words are RabbitMQ's.
const (
	MaxConnections = "max-connections"
	MaxQueues      = "max-queues"
	MaxChannels    = "max-channels"
)

// Limit is a bound that an administrator gave a virtual host or user. A negative Value bounds nothing.
type Limit struct {
	Name  string
	Value int64
}

// Exchange is a place to publish to.
type Exchange struct {
	VHost, Name string
	// Type is the name of the exchange type, as direct or x-consistent-hash. Types that this release does not route are kept and route nothing.
	Type       string
	Durable    bool
	AutoDelete bool
	// Internal exchanges refuse publishes of clients.
	Internal  bool
	Arguments Arguments
	// Policies is set by the catalogue.
	Policies Attached
}

// The queue types that Warren serves. They are the values of x-queue-type.
const (
	TypeClassic = "classic"
	TypeQuorum  = "quorum"
	TypeStream  = "stream"
)

// Queue is a queue in the catalogue; its messages live in a machine of their own.
type Queue struct {
	// ID is set by the catalogue.
	ID          QueueID
	VHost, Name string
	// Was is the name that a draining queue had; see IsDraining. It is set by the catalogue.
	Was string
	// Type is classic or quorum as declared; both behave the same but for defaults. It is set by the catalogue from x-queue-type and the virtual host's default.
	Type       string
	Durable    bool
	AutoDelete bool
	Exclusive  bool
	// Owner is the connection that an exclusive queue belongs to and dies with.
	Owner     Owner
	Arguments Arguments
	// Changes are arguments that an operator changed since the declaration: they count instead of what was declared, and one without a value as if it had not been given. Whoever declares the queue
	// again compares with what was declared.
	Changes Arguments
	// Policies is set by the catalogue; see Effective.
	Policies Attached
	// Home and HomeBoot are the incarnation of the node that a queue that is not durable lives on and dies with.
	Home     NodeID
	HomeBoot Boot
	// Replicas is the bootstrap set of a durable queue's group: the only one ever given to a start of the shard (PROTOCOL 5). Sorted; it never changes.
	Replicas []NodeID
	// Members is the catalogue's copy of the group's membership, by rising replica id; it starts as the bootstrap set, numbered from 1, and follows the group.
	Members []Member
	// MembersIndex is the log index of the membership change that Members shows; 0 for the bootstrap set.
	MembersIndex uint64
	// NextReplica is the replica id that the next new member gets. Replica ids are never reused.
	NextReplica uint64
	// ReplicasWanted is how many members the last change by an operator left the group: it is kept at that. 0: as many as its arguments say.
	ReplicasWanted uint64
	CreatedMillis  int64
	// ConfigVersion rises with every change of what the queue's machine must know; it is 1 as long as that follows from the declaration alone.
	ConfigVersion uint64
	// AbortedToken is the highest seal token whose delete was called off; a delete with a token not above it is refused.
	AbortedToken uint64
}

// Member is one replica of a durable queue's group.
type Member struct {
	Node NodeID
	// Replica is the id by which the group knows it.
	Replica uint64
	// NonVoting says that it follows and does not count for a majority.
	NonVoting bool
}

// MemberOn returns the queue's replica on a node; ok is false if it has none.
func (q *Queue) MemberOn(node NodeID) (m Member, ok bool) {
	for _, m := range q.Members {
		if m.Node == node {
			return m, true
		}
	}
	return Member{}, false
}

// LockedFor tells whether an exclusive queue is locked for the connection.
func (q *Queue) LockedFor(by Owner) bool { return q.Exclusive && q.Owner != by }

// DestinationKind tells what a binding leads to. The numbers stand in logs.
type DestinationKind uint8

const (
	// ToQueue is a binding to a queue.
	ToQueue DestinationKind = 1
	// ToExchange is a binding to another exchange.
	ToExchange DestinationKind = 2
)

// String returns the word of RabbitMQ's API, queue or exchange.
func (k DestinationKind) String() string {
	if k == ToExchange {
		return "exchange"
	}
	return "queue"
}

// Binding leads messages from an exchange to a queue or another exchange. All fields but Queue together are its identity.
type Binding struct {
	VHost       string
	Source      string
	Kind        DestinationKind
	Destination string
	RoutingKey  string
	Arguments   Arguments
	// Queue is the id of the destination if that is a queue, set by the catalogue.
	Queue QueueID
}
