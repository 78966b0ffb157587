package meta

// Op tells the kind of a Command. The numbers stand in logs: only add at the end.
type Op uint8

// The commands of the catalogue. Each names the fields of Command that count; a command answers ReasonOK unless told otherwise.
const (
	// OpFound names a new cluster, once: Text is its id, Name its name. Later ones change nothing (Existed).
	OpFound Op = 1
	// OpSetClusterName renames the cluster: Name.
	OpSetClusterName Op = 2
	// OpRegisterNode adds a node or changes its address and version: Node{ID, Name, Address, Token, MachineVersion}. With ID 0 the catalogue gives an id, and the same
	// one whenever the same Token asks; Node.Boot is then the new node's first incarnation, which makes it the only one of its name from here on. Reply.ID is the id. ReasonNameInUse: another node that is not dead has the name; ReasonNoNode: unknown ID.
	OpRegisterNode Op = 3
	// OpRegisterBoot registers an incarnation: Node{ID, Boot}. Lower ones are declared dead and their transient queues dropped. The registered one again is OK. ReasonStaleBoot: not
	// above the highest known one, whose counter is Reply.Count. If no other node is alive, exchanges that are not durable go, too: the whole cluster had stopped.
	OpRegisterBoot Op = 4
	// OpNodeDead declares the incarnation Node{ID, Boot} dead if it is the registered one; another one changes nothing (Existed).
	OpNodeDead Op = 5
	// OpPutVHost makes a virtual host with its predeclared exchanges, or changes the description, tags, default type and tracing of an existing one (Existed): VHost.
	OpPutVHost Op = 6
	// OpDeleteVHost removes VHost.Name with everything in it. ReasonNoVHost.
	OpDeleteVHost Op = 7
	// OpPutUser makes or replaces User.
	OpPutUser Op = 8
	// OpDeleteUser removes User.Name with its permissions and limits. ReasonNoUser.
	OpDeleteUser Op = 9
	// OpPutPermission makes or replaces Permission. ReasonNoUser, ReasonNoVHost.
	OpPutPermission Op = 10
	// OpDeletePermission removes Permission{User, VHost}; a missing one is OK.
	OpDeletePermission Op = 11
	// OpDeclareExchange makes Exchange, or judges whether the existing one is equivalent (Existed). ReasonNoVHost, ReasonInequivalentArg.
	OpDeclareExchange Op = 12
	// OpDeleteExchange removes Exchange{VHost, Name} and its bindings; a missing one is OK with Existed false. With IfUnused ReasonInUse if it is the source of a binding.
	OpDeleteExchange Op = 13
	// OpDeclareQueue makes Queue, or judges whether the existing one is equivalent (Existed, ID). Queue.ID, Type and ConfigVersion are set by the catalogue. ReasonNoVHost,
	// ReasonInequivalentArg, ReasonExclusiveLocked, ReasonFenced (Home or Owner is a dead incarnation), ReasonQueuesMax (a limit of the virtual host), ReasonNoExchange (a history whose exchange is not
	// there).
	OpDeclareQueue Op = 14
	// OpDeleteQueue removes the queue Queue.ID with its bindings. Token is the seal's; 0 deletes without condition. ReasonNoQueue: already gone. ReasonAborted: Token is not
	// above the highest aborted one. With Drain it is draining from then on, and a second such delete changes nothing; without it, it goes at once, a draining one, too.
	OpDeleteQueue Op = 15
	// OpDeleteAborted calls off the deletes of Queue.ID with tokens up to Token. ReasonNoQueue: one of them was applied before, or another delete.
	OpDeleteAborted Op = 16
	// OpBind makes Binding; an existing one is OK (Existed). ReasonNoVHost, ReasonNoExchange (Field source or destination), ReasonNoQueue.
	OpBind Op = 17
	// OpUnbind removes Binding; a missing one is OK with Existed false. An auto-delete source goes with its last binding.
	OpUnbind Op = 18
	// OpDropOwned removes the exclusive queues of the connection Owner; those with a dead-letter exchange are draining from then on. Reply.Count is how many; More: propose it again.
	OpDropOwned Op = 19
	// OpSweep goes on with work that was left: transient queues of dead incarnations, queues of deleted virtual hosts. Reply.Count, More.
	OpSweep Op = 20
	// OpPutGlobalParameter sets the global parameter Name to the JSON text Text; an empty Text removes it, and a missing one is OK with Existed false.
	OpPutGlobalParameter Op = 21
	// OpAllotReplica gives the replica id for a new member of the queue Queue.ID: Reply.Count. It is spent even if the member never comes. ReasonNoQueue.
	OpAllotReplica Op = 22
	// OpSetMembers notes the membership Queue.Members of the group Queue.ID as of its change at log index Token. An index not above the noted one changes nothing (Existed).
	// ReasonNoQueue.
	OpSetMembers Op = 23
	// OpWantReplicas has the queue Queue.ID kept at Queue.ReplicasWanted members, at most ReplicasMax. ReasonNoQueue.
	OpWantReplicas Op = 24
	// OpPutTopicPermission makes or replaces Topic. The exchange need not exist. ReasonNoUser, ReasonNoVHost.
	OpPutTopicPermission Op = 25
	// OpDeleteTopicPermission removes Topic{User, VHost, Exchange}, without an exchange all of the user in the virtual host; missing ones are OK. Reply.Count is how many.
	OpDeleteTopicPermission Op = 26
	// OpSetVHostLimit gives VHost.Name the limit Limit. ReasonNoVHost. OpClearVHostLimit takes the one named Limit.Name away; a missing one is OK with Existed false.
	OpSetVHostLimit   Op = 27
	OpClearVHostLimit Op = 28
	// OpSetUserLimit and OpClearUserLimit do so for User.Name. ReasonNoUser.
	OpSetUserLimit   Op = 29
	OpClearUserLimit Op = 30
	// OpPutPolicy makes or replaces Policy; the same again changes nothing (Existed). ReasonNoVHost. OpDeletePolicy removes Policy{VHost, Name, Operator}; a missing one is OK with Existed false. With
	// the entry every queue and exchange of the virtual host follows.
	OpPutPolicy    Op = 31
	OpDeletePolicy Op = 32
	// OpPutParameter sets Parameter; an empty Value removes it, and a missing one is OK with Existed false. ReasonNoVHost.
	OpPutParameter Op = 33
	// OpChangeArguments makes Queue.Changes those of the queue Queue.ID, instead of all that it had. ReasonNoQueue, ReasonInvalidArg.
	OpChangeArguments Op = 34
)

// Limits of the catalogue: constants of the machine's version, so that every replica agrees.
const (
	// SweepMax is how many queues one entry removes.
	SweepMax = 4096
	// NodesMax, VHostsMax and UsersMax bound the number of such objects, ParametersMax the global parameters and those of one virtual host.
	NodesMax      = 1024
	VHostsMax     = 16384
	UsersMax      = 65536
	ParametersMax = 4096
	// QueuesMax bounds the queues of the cluster, ExchangesMax and BindingsMax those of one virtual host.
	QueuesMax    = 1 << 20
	ExchangesMax = 1 << 18
	BindingsMax  = 1 << 22
	// TopicPermissionsMax bounds the topic permissions of one virtual host, LimitsMax the limits of one virtual host or user.
	TopicPermissionsMax = 1 << 18
	LimitsMax           = 16
	// PoliciesMax bounds the user policies, and the operator policies, of one virtual host.
	PoliciesMax = 1024
	// NameBytesMax is the length of a name on the wire (shortstr); TextBytesMax bounds free texts, hashes and patterns.
	NameBytesMax = 255
	TextBytesMax = 4096
	// ParameterBytesMax bounds the value of a parameter.
	ParameterBytesMax = 64 << 10
	// ArgumentsBytesMax bounds one table of arguments.
	ArgumentsBytesMax = 128 << 10
	// TagsMax bounds the tags of a user or virtual host, ReplicasMax the bootstrap set of a queue.
	TagsMax     = 64
	ReplicasMax = 15
	// BatchCommandsMax is how many commands one entry carries at most.
	BatchCommandsMax = 4096
)

// Command is one command to the catalogue, a closed sum over Op. Which fields count is told at the Op; the others are not encoded.
type Command struct {
	Op         Op
	Node       Node
	VHost      VHost
	User       User
	Permission Permission
	Topic      TopicPermission
	Limit      Limit
	Policy     Policy
	Parameter  Parameter
	Exchange   Exchange
	Queue      Queue
	Binding    Binding
	Owner      Owner
	Name       string
	Text       string
	IfUnused   bool
	Drain      bool
	Token      uint64
}

// Reply is the answer to one command.
type Reply struct {
	Reason Reason
	// ID is the queue or node that the command was about.
	ID uint64
	// Existed says that what was to be made was there, or what was to be removed was not missing; see the Op.
	Existed bool
	// More says that work is left for another command; see OpDropOwned and OpSweep.
	More bool
	// Count is how many objects were removed, a limit that was reached, or the counter of a boot; see the Op and the Reason.
	Count uint64
	// Field is the argument or property that a refusal is about.
	Field string
	// Received and Current are how RabbitMQ prints the two values of an inequivalent argument: none, 'true', the value '1' of type 'long'.
	Received, Current string
	// Detail is the rest of the text of a refusal; see the Reason.
	Detail string
}

// Effect is one change that a shell may have to react to. The objects are immutable and shared with the View.
type Effect struct {
	Kind EffectKind
	// VHost, User and Name say what the effect is about where no object is given.
	VHost, User, Name string
	Component         string
	Node              *Node
	Exchange          *Exchange
	Queue             *Queue
	Binding           *Binding
}

// EffectKind tells the kind of an Effect. It is never stored.
type EffectKind uint8

const (
	// ClusterChanged: the cluster got its id or another name.
	ClusterChanged EffectKind = 1
	// NodeChanged: Node was added, or its address, version or boot changed.
	NodeChanged EffectKind = 2
	// NodeDead: Node.DeadBoot rose; incarnations up to it are fenced.
	NodeDead EffectKind = 3
	// VHostChanged (also its limits) and VHostDeleted: VHost.
	VHostChanged EffectKind = 4
	VHostDeleted EffectKind = 5
	// UserChanged (also its limits) and UserDeleted: User.
	UserChanged EffectKind = 6
	UserDeleted EffectKind = 7
	// PermissionChanged: User's permission or topic permissions in VHost were made, replaced or removed.
	PermissionChanged EffectKind = 8
	// ExchangeCreated and ExchangeDeleted: Exchange.
	ExchangeCreated EffectKind = 9
	ExchangeDeleted EffectKind = 10
	// QueueCreated, QueueDeleted (also for one that is draining from then on) and QueueChanged (AbortedToken, ConfigVersion): Queue.
	QueueCreated EffectKind = 11
	QueueDeleted EffectKind = 12
	QueueChanged EffectKind = 13
	// BindingCreated and BindingDeleted: Binding. The bindings of a deleted virtual host are not told one by one.
	BindingCreated EffectKind = 14
	BindingDeleted EffectKind = 15
	// ParameterChanged: the global parameter Name, or if VHost is not empty the parameter Name of Component there, was set or removed.
	ParameterChanged EffectKind = 16
	// PolicyChanged: the policy Name of VHost was made, replaced or removed; Component says policy or operator_policy.
	PolicyChanged EffectKind = 17
)
