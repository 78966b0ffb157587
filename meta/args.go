package meta

import (
	"strconv"
	"strings"

	"github.com/warrenmq/warren/amqp"
)

// ArgScope tells what an argument belongs to. A bit set.
type ArgScope uint8

// The scopes of arguments.
const (
	// QueueScope: classic and quorum queues. Both accept the same arguments, for both are the same machine.
	QueueScope ArgScope = 1 << 0
	// StreamScope: queues of type stream.
	StreamScope ArgScope = 1 << 1
	// ConsumerScope: consumers of classic and quorum queues.
	ConsumerScope ArgScope = 1 << 2
	// StreamConsumerScope: consumers of streams.
	StreamConsumerScope ArgScope = 1 << 3
	// ExchangeScope: exchanges.
	ExchangeScope ArgScope = 1 << 4
)

// ArgKind tells what values an argument takes. Integers may have any width.
type ArgKind uint8

// The kinds of arguments.
const (
	// IntArg is an integer from Min to Max.
	IntArg ArgKind = 1
	// MillisArg is a time from Min to ten years.
	MillisArg ArgKind = 2
	// BoolArg is a bool.
	BoolArg ArgKind = 3
	// LooseBoolArg is a bool, or what clients send instead: 0 or 1, or the string true or false.
	LooseBoolArg ArgKind = 4
	// TextArg is a longstr.
	TextArg ArgKind = 5
	// WordArg is one of Words as a longstr.
	WordArg ArgKind = 6
	// AgeArg is a longstr of digits and one of the units Y M D h m s.
	AgeArg ArgKind = 7
	// AnyArg is checked where it is used.
	AnyArg ArgKind = 8
	// LooseIntArg is an integer from Min to Max, or a longstr of its digits.
	LooseIntArg ArgKind = 9
	// ScheduleArg is a list of times: see Schedule.
	ScheduleArg ArgKind = 10
)

// Arg is one row of the table of arguments.
type Arg struct {
	Name string
	// PolicyKey is the key of policies that sets the same, empty if there is none.
	PolicyKey string
	// Merge says which value counts where argument and policy differ. Operator says that operator policies may have the key, too. Noun is what the text about a bad value in a policy calls it, if
	// not the key.
	Merge    Merge
	Operator bool
	Noun     string
	Scope    ArgScope
	Kind     ArgKind
	// Min and Max bound IntArg and Min MillisArg; the texts of a value below Min depend on Min being 0 or 1.
	Min, Max int64
	// Words are what WordArg takes, BadWord is the tail of the text for another one; %s in it stands for the value.
	Words   []string
	BadWord string
	// Equivalence says that declaring a queue again with another value is refused; Relaxed that so it is between classic and quorum.
	Equivalence, Relaxed bool
	// Served says that the argument has an effect in this release; others are checked, kept and shown.
	Served bool
	// Ignored says that the argument is accepted for old clients and never has an effect.
	Ignored bool
}

const (
	argAlternateExchange   = "alternate-exchange"
	argDeadLetterExchange  = "x-dead-letter-exchange"
	argDeadLetterKey       = "x-dead-letter-routing-key"
	argDeduplication       = "x-message-deduplication"
	argCacheSize           = "x-cache-size"
	argCacheTTL            = "x-cache-ttl"
	argCachePersistence    = "x-cache-persistence"
	tenYearsMillis         = 10 * 365 * 24 * 3600 * 1000
	intMax                 = 1<<63 - 1
	priorityMax            = 255
	multiplierMax          = 1<<31 - 1
	bothQueues, allQueues  = QueueScope, QueueScope | StreamScope
	bothConsumers          = ConsumerScope | StreamConsumerScope
	queueTypeProblem       = `"unsupported queue type '%s'"`
	queueModeProblem       = `"unsupported queue mode '%s'"`
	queueVersionProblem    = `"unsupported queue version '%s'"`
	routingKeyWithoutDLX   = "routing_key_but_no_dlx_defined"
	classicRabbitQueueType = "rabbit_classic_queue"
)

// argTable is the one table of arguments, in the order in which a declaration is compared and checked.
var argTable = [...]Arg{
	{Name: "x-expires", PolicyKey: "expires", Merge: LeastWins, Operator: true, Noun: "queue expiry", Scope: bothQueues, Kind: MillisArg, Min: 1, Equivalence: true, Relaxed: true, Served: true},
	{Name: "x-message-ttl", PolicyKey: "message-ttl", Merge: LeastWins, Operator: true, Noun: "message TTL", Scope: bothQueues, Kind: MillisArg, Equivalence: true, Relaxed: true, Served: true},
	{Name: argDeadLetterExchange, PolicyKey: "dead-letter-exchange", Noun: "dead letter exchange name", Scope: bothQueues, Kind: TextArg, Equivalence: true, Relaxed: true, Served: true},
	{Name: argDeadLetterKey, PolicyKey: "dead-letter-routing-key", Noun: "dead letter routing key", Scope: bothQueues, Kind: TextArg, Equivalence: true, Relaxed: true, Served: true},
	{
		Name: "x-dead-letter-strategy", PolicyKey: "dead-letter-strategy", Scope: bothQueues, Kind: WordArg,
		Words: []string{"at-most-once", "at-least-once"}, BadWord: "invalid_dlx_strategy", Equivalence: true, Served: true,
	},
	{Name: "x-max-length", PolicyKey: "max-length", Merge: LeastWins, Operator: true, Noun: "maximum length", Scope: bothQueues, Kind: IntArg, Max: intMax, Equivalence: true, Relaxed: true, Served: true},
	{Name: "x-max-length-bytes", PolicyKey: "max-length-bytes", Merge: LeastWins, Operator: true, Noun: "maximum length in bytes", Scope: allQueues, Kind: IntArg, Max: intMax, Equivalence: true, Relaxed: true, Served: true},
	{Name: "x-max-in-memory-length", PolicyKey: "max-in-memory-length", Merge: LeastWins, Operator: true, Noun: "maximum memory in bytes", Scope: bothQueues, Kind: IntArg, Max: intMax, Ignored: true},
	{Name: "x-max-in-memory-bytes", PolicyKey: "max-in-memory-bytes", Merge: LeastWins, Operator: true, Noun: "maximum memory in bytes", Scope: bothQueues, Kind: IntArg, Max: intMax, Ignored: true},
	{Name: "x-max-priority", PolicyKey: "max-priority", Merge: PolicyWins, Noun: "maximum priority", Scope: bothQueues, Kind: IntArg, Max: priorityMax, Equivalence: true, Served: true},
	{Name: "x-priority-aging-ms", PolicyKey: "priority-aging-ms", Merge: PolicyWins, Scope: bothQueues, Kind: MillisArg, Equivalence: true, Served: true},
	{
		Name: "x-overflow", PolicyKey: "overflow", Merge: PolicyWinsOnQuorum, Operator: true, Noun: "overflow value", Scope: bothQueues, Kind: WordArg,
		Words: []string{"drop-head", "reject-publish", "reject-publish-dlx"}, BadWord: "invalid_overflow", Equivalence: true, Served: true,
	},
	{Name: "x-single-active-consumer", Scope: bothQueues, Kind: BoolArg, Equivalence: true, Relaxed: true, Served: true},
	{
		Name: argQueueType, Scope: allQueues, Kind: WordArg,
		Words: []string{"", "undefined", TypeClassic, TypeQuorum, TypeStream}, BadWord: queueTypeProblem, Served: true,
	},
	{
		Name: "x-queue-leader-locator", PolicyKey: "queue-leader-locator", Noun: "queue leader locator value", Scope: allQueues, Kind: WordArg,
		Words: []string{"client-local", "balanced", "random", "least-leaders"}, BadWord: "invalid_queue_locator_arg", Equivalence: true,
	},
	{Name: "x-quorum-initial-group-size", Scope: bothQueues, Kind: IntArg, Min: 1, Max: intMax, Equivalence: true},
	{Name: "x-quorum-target-group-size", PolicyKey: "target-group-size", Merge: GreatestWins, Operator: true, Scope: bothQueues, Kind: IntArg, Min: 1, Max: intMax, Equivalence: true},
	{Name: "x-member-placement-tag", PolicyKey: "member-placement-tag", Operator: true, Scope: bothQueues, Kind: TextArg, Equivalence: true},
	{Name: "x-delivery-limit", PolicyKey: "delivery-limit", Merge: LeastLimitWins, Operator: true, Scope: bothQueues, Kind: IntArg, Min: -intMax - 1, Max: intMax, Equivalence: true, Served: true},
	{
		Name: "x-delivery-limit-counts", PolicyKey: "delivery-limit-counts", Merge: PolicyWins, Scope: bothQueues, Kind: WordArg,
		Words: []string{"failures", "all"}, BadWord: "invalid_delivery_limit_counts", Equivalence: true, Served: true,
	},
	{
		Name: "x-delayed-retry-type", PolicyKey: "delayed-retry-type", Merge: PolicyWins, Operator: true, Scope: bothQueues, Kind: WordArg,
		Words: []string{"disabled", "all", "failed", "returned"}, BadWord: "invalid_delayed_retry_type", Equivalence: true, Served: true,
	},
	{Name: "x-delayed-retry-min", PolicyKey: "delayed-retry-min", Merge: LeastWins, Operator: true, Scope: bothQueues, Kind: MillisArg, Min: 1, Equivalence: true, Served: true},
	{Name: "x-delayed-retry-max", PolicyKey: "delayed-retry-max", Merge: LeastWins, Operator: true, Scope: bothQueues, Kind: MillisArg, Min: 1, Equivalence: true, Served: true},
	{Name: "x-delayed-retry-multiplier", PolicyKey: "delayed-retry-multiplier", Merge: PolicyWins, Operator: true, Scope: bothQueues, Kind: IntArg, Min: 1, Max: multiplierMax, Equivalence: true, Served: true},
	{Name: "x-delayed-retry-jitter", PolicyKey: "delayed-retry-jitter", Merge: PolicyWins, Operator: true, Scope: bothQueues, Kind: IntArg, Max: 100, Equivalence: true, Served: true},
	{Name: "x-retry-schedule", PolicyKey: "retry-schedule", Merge: PolicyWins, Operator: true, Scope: bothQueues, Kind: ScheduleArg, BadWord: "invalid_retry_schedule", Equivalence: true, Served: true},
	{
		Name: "x-consumer-timeout", PolicyKey: "consumer-timeout", Merge: LeastWins, Scope: bothQueues | ConsumerScope, Kind: IntArg, Max: intMax,
		Equivalence: true, Served: true,
	},
	{
		Name: "x-consumer-disconnected-timeout", PolicyKey: "consumer-disconnected-timeout", Merge: LeastWins, Scope: bothQueues, Kind: IntArg,
		Max: intMax, Equivalence: true,
	},
	{
		Name: "x-confirm-replicas", PolicyKey: "confirm-replicas", Merge: PolicyWins, Operator: true, Scope: bothQueues, Kind: WordArg,
		Words: []string{"majority", "all"}, BadWord: "invalid_confirm_replicas", Served: true,
	},
	// Deduplication has the names of the plugin, in policies, too, and as there policies count first and nothing is compared.
	{Name: argDeduplication, PolicyKey: "x-message-deduplication", Merge: PolicyWins, Noun: "value of x-message-deduplication", Scope: bothQueues | ExchangeScope, Kind: LooseBoolArg, Served: true},
	{Name: argCacheSize, PolicyKey: "x-cache-size", Merge: PolicyWins, Noun: "cache size", Scope: bothQueues | ExchangeScope, Kind: LooseIntArg, Min: 1, Max: intMax, Served: true},
	{Name: argCacheTTL, PolicyKey: "x-cache-ttl", Merge: PolicyWins, Noun: "cache TTL", Scope: bothQueues | ExchangeScope, Kind: LooseIntArg, Min: 1, Max: tenYearsMillis, Served: true},
	{
		Name: argCachePersistence, PolicyKey: "x-cache-persistence", Noun: "cache persistence", Scope: bothQueues | ExchangeScope, Kind: WordArg,
		Words: []string{"memory", "disk"}, BadWord: "invalid_cache_persistence", Ignored: true,
	},
	{
		Name: "x-queue-mode", PolicyKey: "queue-mode", Noun: "queue-mode value", Scope: bothQueues, Kind: WordArg,
		Words: []string{"default", "lazy"}, BadWord: queueModeProblem, Ignored: true,
	},
	{Name: "x-queue-version", PolicyKey: "queue-version", Operator: true, Noun: "queue-version value", Scope: bothQueues, Kind: IntArg, Max: 2, BadWord: queueVersionProblem, Ignored: true},
	{Name: "x-queue-master-locator", PolicyKey: "queue-master-locator", Scope: bothQueues, Kind: AnyArg, Ignored: true},
	{Name: "x-max-age", PolicyKey: "max-age", Scope: StreamScope, Kind: AgeArg, BadWord: "invalid_max_age", Equivalence: true},
	{
		Name: "x-stream-max-segment-size-bytes", PolicyKey: "stream-max-segment-size-bytes", Noun: "segment size", Scope: StreamScope, Kind: IntArg,
		Max: 3_000_000_000, Equivalence: true,
	},
	{Name: "x-stream-filter-size-bytes", PolicyKey: "stream-filter-size-bytes", Scope: StreamScope, Kind: IntArg, Max: 255, Equivalence: true},
	{Name: "x-initial-cluster-size", PolicyKey: "initial-cluster-size", Scope: StreamScope, Kind: IntArg, Min: 1, Max: intMax, Equivalence: true},
	{Name: argAlternateExchange, PolicyKey: "alternate-exchange", Noun: "alternate exchange name", Scope: ExchangeScope, Kind: TextArg, Equivalence: true, Served: true},
	{Name: "x-priority", Scope: ConsumerScope, Kind: IntArg, Min: -intMax - 1, Max: intMax, Served: true},
	{Name: "x-cancel-on-ha-failover", Scope: bothConsumers, Kind: BoolArg, Ignored: true},
	{Name: "x-stream-offset", Scope: StreamConsumerScope, Kind: AnyArg},
	{Name: "x-stream-filter", Scope: StreamConsumerScope, Kind: AnyArg},
	{Name: "x-stream-match-unfiltered", Scope: StreamConsumerScope, Kind: BoolArg},
}

// ArgTable returns the table of arguments for the API and the documentation. It must not be changed.
func ArgTable() []Arg { return argTable[:] }

// CheckQueueArguments judges the arguments of a new queue of the type: ReasonInvalidArgType (a dead-letter exchange that is no longstr), ReasonInvalidArg,
// ReasonArgOfOtherType, with RabbitMQ's texts. Unknown arguments are accepted.
func CheckQueueArguments(queueType string, args Arguments) Reply {
	if v, ok := args.Get(argDeadLetterExchange); ok && v.Tag() != amqp.TagLongstr {
		return Reply{Reason: ReasonInvalidArgType, Field: argDeadLetterExchange, Detail: v.Type()}
	}
	if v, ok := args.Get(argQueueType); ok {
		if tail := argNamed(argQueueType).problem(v); tail != "" {
			return Reply{Reason: ReasonInvalidArg, Field: argQueueType, Detail: tail}
		}
	}
	scope, others := QueueScope, StreamScope
	if queueType == TypeStream {
		scope, others = StreamScope, QueueScope
	}
	return checkArguments(args, scope, others, rabbitQueueType(queueType))
}

// CheckConsumerArguments judges the arguments of a consumer of a queue of the type, as CheckQueueArguments does.
func CheckConsumerArguments(queueType string, args Arguments) Reply {
	scope, others := ConsumerScope, StreamConsumerScope
	if queueType == TypeStream {
		scope, others = StreamConsumerScope, ConsumerScope
	}
	return checkArguments(args, scope, others, rabbitQueueType(queueType))
}

// checkArguments checks the values of the arguments in scope first, then that none belongs to other kinds of queues only.
func checkArguments(args Arguments, scope, others ArgScope, queueType string) Reply {
	if args.Empty() {
		return Reply{}
	}
	for i := range argTable {
		a := &argTable[i]
		if a.Scope&scope == 0 {
			continue
		}
		v, ok := args.Get(a.Name)
		if !ok {
			continue
		}
		tail := a.problem(v)
		if _, dlx := args.Get(argDeadLetterExchange); tail == "" && a.Name == argDeadLetterKey && !dlx {
			tail = routingKeyWithoutDLX
		}
		if tail != "" {
			return Reply{Reason: ReasonInvalidArg, Field: a.Name, Detail: tail}
		}
	}
	for i := range argTable {
		a := &argTable[i]
		if a.Scope&scope != 0 || a.Scope&others == 0 {
			continue
		}
		if _, ok := args.Get(a.Name); ok {
			return Reply{Reason: ReasonArgOfOtherType, Field: a.Name, Detail: queueType}
		}
	}
	return Reply{}
}

func argNamed(name string) *Arg {
	for i := range argTable {
		if argTable[i].Name == name {
			return &argTable[i]
		}
	}
	return nil
}

// rabbitQueueType names a queue type as RabbitMQ's texts do.
func rabbitQueueType(queueType string) string {
	switch queueType {
	case TypeQuorum:
		return "rabbit_quorum_queue"
	case TypeStream:
		return "rabbit_stream_queue"
	}
	return classicRabbitQueueType
}

// problem returns the tail of RabbitMQ's text for a value that the argument does not take, empty for one that it takes.
func (a *Arg) problem(v amqp.Value) string {
	switch a.Kind {
	case IntArg, MillisArg:
		return a.intProblem(v)
	case LooseIntArg:
		n, ok := LooseInt(v)
		if !ok {
			return unacceptable(v)
		}
		return a.intProblem(amqp.Int64(n))
	case BoolArg:
		if _, ok := v.AsBool(); !ok {
			return unacceptable(v)
		}
	case LooseBoolArg:
		if n, ok := v.AsInt64(); ok && n < 0 {
			return "{value_negative," + strconv.FormatInt(n, 10) + "}"
		} else if ok && n > 1 {
			return "{max_value_exceeded," + strconv.FormatInt(n, 10) + "}"
		}
		if _, ok := LooseBool(v); !ok {
			return unacceptable(v)
		}
	case ScheduleArg:
		if _, ok := Schedule(v); !ok {
			return a.BadWord
		}
	case TextArg, WordArg, AgeArg:
		s, ok := v.AsString()
		switch {
		case !ok:
			return unacceptable(v)
		case a.Kind == WordArg && !contains(a.Words, s), a.Kind == AgeArg && !validAge(s):
			return strings.Replace(a.BadWord, "%s", s, 1)
		}
	}
	return ""
}

func (a *Arg) intProblem(v amqp.Value) string {
	n, ok := v.AsInt64()
	switch {
	case !ok:
		return `"expected integer, got ` + v.Type() + `"`
	case n == 0 && a.Min > 0:
		return "{value_zero,0}"
	case n < a.Min:
		return "{value_negative," + strconv.FormatInt(n, 10) + "}"
	case a.Kind == MillisArg && n > tenYearsMillis:
		return "{value_too_large," + strconv.FormatInt(n, 10) + "}"
	case a.Kind == MillisArg:
		return ""
	case a.BadWord != "" && (n == 0 || n > a.Max):
		return strings.Replace(a.BadWord, "%s", strconv.FormatInt(n, 10), 1)
	case n > a.Max:
		return "{max_value_exceeded," + strconv.FormatInt(n, 10) + "}"
	}
	return ""
}

func unacceptable(v amqp.Value) string { return "{unacceptable_type," + v.Type() + "}" }

func contains(words []string, s string) bool {
	for _, w := range words {
		if w == s {
			return true
		}
	}
	return false
}

// LooseBool reads a bool, or what clients send for one: an integer (0 is false; new arguments have 0 and 1 alone), the string true or false.
func LooseBool(v amqp.Value) (value, ok bool) {
	if b, ok := v.AsBool(); ok {
		return b, true
	}
	if n, ok := v.AsInt64(); ok {
		return n != 0, true
	}
	s, _ := v.AsString()
	return s == "true", s == "true" || s == "false"
}

// LooseInt reads an integer, or a longstr of its digits, which some clients send for one.
func LooseInt(v amqp.Value) (n int64, ok bool) {
	if n, ok := v.AsInt64(); ok {
		return n, true
	}
	s, ok := v.AsString()
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// Deduplication returns what a queue was told about messages with an id that it knows: whether they are dropped, and, if ids count for a time and not as long as their message is in the queue, for how
// many milliseconds and, unless size is 0, how many of them. That of a relay is limited by number alone if no time is given.
func (q *Queue) Deduplication() (on bool, windowMillis, size int64) {
	if v, ok := q.Effective(argDeduplication); ok {
		on, _ = LooseBool(v)
	}
	ttl, window := q.Effective(argCacheTTL)
	if _, isRelay := q.RelayOf(); !on || !window && !isRelay {
		return on, 0, 0
	}
	windowMillis, _ = LooseInt(ttl)
	if v, ok := q.Effective(argCacheSize); ok {
		size, _ = LooseInt(v)
	}
	return on, windowMillis, size
}

// validAge tells whether s is a positive number and one unit.
func validAge(s string) bool {
	if len(s) < 2 || !strings.Contains("YMDhms", s[len(s)-1:]) {
		return false
	}
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	return err == nil && n > 0
}
