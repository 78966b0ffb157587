package meta

// Reason says why a command was refused; 0 is success. broker/errors.go turns it into an AMQP error, management/errors.go into an HTTP one. The numbers
// travel between nodes: only add at the end.
type Reason uint8

const (
	// ReasonOK is success.
	ReasonOK Reason = 0
	// ReasonNoVHost: the virtual host does not exist.
	ReasonNoVHost Reason = 1
	// ReasonNoExchange: the exchange does not exist. Field tells which end of a binding is missing (source or destination), Detail its name.
	ReasonNoExchange Reason = 2
	// ReasonNoQueue: the queue does not exist.
	ReasonNoQueue Reason = 3
	// ReasonNoUser: the user does not exist.
	ReasonNoUser Reason = 4
	// ReasonNoNode: the node does not exist.
	ReasonNoNode Reason = 5
	// ReasonInequivalentArg: the object exists with another value. "inequivalent arg 'Field' for ...: received Received but current is Current".
	ReasonInequivalentArg Reason = 6
	// ReasonInvalidArg: "invalid arg 'Field' for ...: Detail".
	ReasonInvalidArg Reason = 7
	// ReasonArgOfOtherType: "invalid arg 'Field' for ... of queue type Detail".
	ReasonArgOfOtherType Reason = 8
	// ReasonInvalidArgType: "invalid type 'Detail' for arg 'Field' in ...".
	ReasonInvalidArgType Reason = 9
	// ReasonUnknownExchangeType: "unknown exchange type 'Detail'".
	ReasonUnknownExchangeType Reason = 10
	// ReasonExclusiveLocked: the queue belongs to another connection, or the exclusive property differs.
	ReasonExclusiveLocked Reason = 11
	// ReasonInUse: the exchange is the source of a binding.
	ReasonInUse Reason = 12
	// ReasonDefaultExchange: "operation not permitted on the default exchange".
	ReasonDefaultExchange Reason = 13
	// ReasonSystemExchange: an amq.* exchange is not to be deleted.
	ReasonSystemExchange Reason = 14
	// ReasonReservedName: a new name must not begin with "amq.".
	ReasonReservedName Reason = 15
	// ReasonInvalidBinding: the exchange type refuses the binding, or the arguments of an exchange; Detail is the text.
	ReasonInvalidBinding Reason = 16
	// ReasonStaleBoot: a higher incarnation, or a twin of this one, is registered; Count is its counter.
	ReasonStaleBoot Reason = 17
	// ReasonFenced: the incarnation that asks was declared dead.
	ReasonFenced Reason = 18
	// ReasonNameInUse: a node that is not dead has the name.
	ReasonNameInUse Reason = 19
	// ReasonAborted: the delete was called off before.
	ReasonAborted Reason = 20
	// ReasonLimit: Count objects of the kind Field is the most.
	ReasonLimit Reason = 21
	// ReasonStreamUnserved: streams are not served by this release.
	ReasonStreamUnserved Reason = 22
	// ReasonInvalidPattern: the pattern Field is no regular expression or too long; Detail is the text.
	ReasonInvalidPattern Reason = 23
	// ReasonTooLong: the value Field is longer than Count bytes.
	ReasonTooLong Reason = 24
	// ReasonQueuesMax: the virtual host has as many queues as its limit, Count, allows.
	ReasonQueuesMax Reason = 25
	// ReasonUnknownLimit: there is no limit of the name Field.
	ReasonUnknownLimit Reason = 26
	// ReasonInvalidPolicy: Detail is RabbitMQ's text.
	ReasonInvalidPolicy Reason = 27
)

// String returns a short name for logs and scripts.
func (r Reason) String() string {
	names := [...]string{
		"ok", "no-vhost", "no-exchange", "no-queue", "no-user", "no-node", "inequivalent-arg", "invalid-arg", "arg-of-other-type",
		"invalid-arg-type", "unknown-exchange-type", "exclusive-locked", "in-use", "default-exchange", "system-exchange", "reserved-name",
		"invalid-binding", "stale-boot", "fenced", "name-in-use", "aborted", "limit", "stream-unserved", "invalid-pattern", "too-long", "queues-max", "unknown-limit", "invalid-policy",
	}
	if int(r) < len(names) {
		return names[r]
	}
	return "unknown"
}
