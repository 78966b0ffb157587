package meta

import (
	"math/big"
	"strings"

	"github.com/warrenmq/warren/amqp"
)

// The exchange types beyond those of the protocol.
const (
	// TypeConsistentHash leads a message to one destination, by a hash, in proportion to weights.
	TypeConsistentHash = "x-consistent-hash"
	// TypeModulusHash leads it to one destination by the routing key's hash.
	TypeModulusHash = "x-modulus-hash"
	// TypeRandom leads it to any one destination.
	TypeRandom = "x-random"
	// TypeLocalRandom leads it to any one queue on the publisher's node.
	TypeLocalRandom = "x-local-random"
)

// The arguments of TypeConsistentHash; at most one of them is given.
const (
	// ArgHashHeader names the header that is hashed instead of the routing key.
	ArgHashHeader = "hash-header"
	// ArgHashProperty names the property that is: message_id, correlation_id or timestamp.
	ArgHashProperty = "hash-property"
)

// HashWeightMax is the largest weight of a binding of TypeConsistentHash.
const HashWeightMax = 10_000

// exchangeType is what the catalogue knows of a type. How it routes stands in package exchange.
type exchangeType struct {
	name string
	// check judges the arguments of a new exchange, nil if any will do.
	check func(Arguments) Reply
	// bindingProblem returns RabbitMQ's text for a binding that the type refuses, nil if it takes any.
	bindingProblem func(*View, *Binding) string
}

// exchangeTypes are the types that this release routes, in RabbitMQ's order of listing.
var exchangeTypes = [...]exchangeType{
	{name: "direct"},
	{name: "fanout"},
	{name: "topic"},
	{name: "headers", bindingProblem: headersMatchProblem},
	{name: TypeConsistentHash, check: checkHashArguments, bindingProblem: func(_ *View, b *Binding) string {
		_, problem := HashWeight(b.RoutingKey)
		return problem
	}},
	{name: TypeDelayed}, // its arguments: checkDelayed
	{name: TypeLocalRandom, bindingProblem: localBindingProblem},
	{name: TypeDeduplication, check: checkCache},
	{name: TypeModulusHash},
	{name: TypeRandom},
	{name: TypeRecentHistory, check: checkHistoryLength},
}

// ExchangeTypes returns the exchange types that this release routes, in RabbitMQ's order of listing.
func ExchangeTypes() []string {
	names := make([]string, len(exchangeTypes))
	for i := range exchangeTypes {
		names[i] = exchangeTypes[i].name
	}
	return names
}

func exchangeTypeNamed(name string) *exchangeType {
	for i := range exchangeTypes {
		if exchangeTypes[i].name == name {
			return &exchangeTypes[i]
		}
	}
	return nil
}

// headersMatchProblem returns RabbitMQ's text for an x-match that a headers exchange refuses.
func headersMatchProblem(_ *View, b *Binding) string {
	v, ok := b.Arguments.Get("x-match")
	if !ok {
		return ""
	}
	s, ok := v.AsString()
	if !ok {
		return "Invalid x-match field type " + v.Type() + " (value " + erlangTerm(v) + "); expected longstr"
	}
	switch s {
	case "all", "any", "all-with-x", "any-with-x":
		return ""
	}
	return "Invalid x-match field value " + erlangTerm(v) + "; expected all, any, all-with-x, or any-with-x"
}

// checkHashArguments judges what a consistent hash exchange is to hash.
func checkHashArguments(args Arguments) Reply {
	for _, name := range [...]string{ArgHashHeader, ArgHashProperty} {
		if v, ok := args.Get(name); ok && v.Tag() != amqp.TagLongstr {
			return Reply{Reason: ReasonInvalidArgType, Field: name, Detail: v.Type()}
		}
	}
	_, byHeader := args.Get(ArgHashHeader)
	v, byProperty := args.Get(ArgHashProperty)
	if byHeader && byProperty {
		return Reply{Reason: ReasonInvalidBinding, Detail: "hash-header and hash-property are mutually exclusive"}
	}
	property, _ := v.AsString()
	if byProperty && !contains([]string{"correlation_id", "message_id", "timestamp"}, property) {
		return Reply{Reason: ReasonInvalidBinding, Detail: "Unsupported property: " + property}
	}
	return Reply{}
}

// HashWeight reads the routing key of a binding of TypeConsistentHash: its weight, or RabbitMQ's text for a key that is none.
func HashWeight(key string) (weight int, problem string) {
	n, ok := new(big.Int).SetString(key, 10)
	switch {
	case !ok:
		var b strings.Builder
		appendBinary(&b, key)
		return 0, "The binding key must be an integer: " + b.String()
	case n.Sign() <= 0:
		return 0, "The binding key must be greater than 0"
	case n.Cmp(big.NewInt(HashWeightMax)) > 0:
		return 0, "The binding key must not exceed 10000"
	}
	return int(n.Int64()), ""
}

// localBindingProblem holds TypeLocalRandom to classic queues without a routing key.
func localBindingProblem(v *View, b *Binding) string {
	if b.RoutingKey != "" {
		return "Non empty binding '" + b.RoutingKey + "' key not permitted"
	}
	if b.Kind != ToQueue {
		return "Destination not found"
	}
	if q := v.Queue(b.VHost, b.Destination); q != nil && q.Type != TypeClassic {
		return "Queue type " + rabbitQueueType(q.Type) + " not valid for this exchange type"
	}
	return ""
}
