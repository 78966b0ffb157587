package broker

import (
	"errors"
	"fmt"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// This file is the one table from refusals (meta.Reason, queue.Code) and from the broker's own rules to AMQP codes and texts. The words are RabbitMQ's:
// client libraries and their test suites look for them.

// Resource names what an error is about, as RabbitMQ's texts print it. VHost is empty for what stands in none.
type Resource struct{ Kind, VHost, Name string }

type resource = Resource

// String returns the resource as texts have it: queue 'q' in vhost '/'.
func (r Resource) String() string {
	if r.VHost == "" {
		return r.Kind + " '" + r.Name + "'"
	}
	return r.Kind + " '" + r.Name + "' in vhost '" + r.VHost + "'"
}

// Refusal is the catalogue's refusal of an operation on what; for a binding that is the destination.
func Refusal(r *meta.Reply, what Resource) *amqp.Error { return errReason(r, what) }

// CodeRefusal is a queue's refusal, nil for queue.CodeOK.
func CodeRefusal(code queue.Code, what Resource) *amqp.Error { return errCode(code, what) }

func queueResource(vhost, name string) resource    { return resource{"queue", vhost, name} }
func exchangeResource(vhost, name string) resource { return resource{"exchange", vhost, name} }

func errNotFound(r resource) *amqp.Error {
	return amqp.Errorf(amqp.ReplyNotFound, "no %s", r)
}

func errNoPreviousQueue() *amqp.Error {
	return amqp.Errorf(amqp.ReplyNotFound, "no previously declared queue")
}

func errTimeout(r resource) *amqp.Error {
	return amqp.Errorf(amqp.ReplyNotFound, "failed to perform operation on %s due to timeout", r)
}

func errLocked(r resource) *amqp.Error {
	return amqp.Errorf(amqp.ReplyResourceLocked, "cannot obtain exclusive access to locked %s. It could be originally declared on another connection or the exclusive property "+
		"value does not match that of the original declaration.", r)
}

func errRefused(access meta.Access, r resource, user string) *amqp.Error {
	return amqp.Errorf(amqp.ReplyAccessRefused, "%s access to %s refused for user '%s'", access, r, user)
}

// errTopicRefused is the refusal of a topic permission.
func errTopicRefused(access meta.Access, key string, x resource, user string) *amqp.Error {
	return amqp.Errorf(amqp.ReplyAccessRefused, "%s access to topic '%s' in %s refused for user '%s'", access, key, x, user)
}

func errReserved(r resource) *amqp.Error {
	return amqp.Errorf(amqp.ReplyAccessRefused, "%s name '%s' contains reserved prefix 'amq.*'", r.Kind, r.Name)
}

func errDefaultExchange() *amqp.Error {
	return amqp.Errorf(amqp.ReplyAccessRefused, "operation not permitted on the default exchange")
}

func errInternalExchange(r resource) *amqp.Error {
	return amqp.Errorf(amqp.ReplyAccessRefused, "cannot publish to internal %s", r)
}

func errExclusiveUse(r resource) *amqp.Error {
	return amqp.Errorf(amqp.ReplyAccessRefused, "%s in exclusive use", r)
}

func errInUse(r resource) *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "%s in use", r)
}

func errNotEmpty(r resource) *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "%s not empty", r)
}

func errUnknownTag(tag uint64) *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "unknown delivery tag %d", tag)
}

func errTagReuse(tag string) *amqp.Error {
	return amqp.Errorf(amqp.ReplyNotAllowed, "attempt to reuse consumer tag '%s'", tag)
}

func errConsumersMax(most int) *amqp.Error {
	return amqp.Errorf(amqp.ReplyNotAllowed, "reached maximum (%d) of consumers per channel", most)
}

func errBodyTooLarge(size uint64, most int) *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "message size %d is larger than configured max size %d", size, most)
}

func errUserID(claimed []byte, user string) *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "user_id property set to '%s' but authenticated user was '%s'", claimed, user)
}

func errExpiration(value []byte, problem string) *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "invalid expiration '%s': %s", value, problem)
}

func errHeaderType(header, typ string) *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, `invalid message: {unacceptable_type_in_header,"%s",%s}`, header, typ)
}

func errDelay(header, typ string) *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "invalid message: header '%s' of type %s is no whole number", header, typ)
}

func errTargetsMax(targets, most int) *amqp.Error {
	return amqp.Errorf(amqp.ReplyResourceError, "message routed to %d queues, at most %d are allowed", targets, most)
}

func errBodiesInFlight(most int) *amqp.Error {
	return amqp.Errorf(amqp.ReplyResourceError, "unfinished messages of the connection exceed %d bytes", most)
}

func errUnimplemented(what string) *amqp.Error {
	return amqp.Errorf(amqp.ReplyNotImplemented, "%s", what)
}

func errConfirmToTx() *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "cannot switch from confirm to tx mode")
}

func errTxToConfirm() *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "cannot switch from tx to confirm mode")
}

func errPartialTx() *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "partial tx completion").At(amqp.MethodTxCommit)
}

func errUnknownTx() *amqp.Error {
	return amqp.Errorf(amqp.ReplyInternalError, "the queue that decides about the transaction did not answer: it may be committed or not").At(amqp.MethodTxCommit)
}

func errHiddenTx() *amqp.Error {
	return amqp.Errorf(amqp.ReplyInternalError, "committed, not yet visible").At(amqp.MethodTxCommit)
}

func errTxQueues(most int) *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "transaction spans more than %d queues", most).At(amqp.MethodTxCommit)
}

func errTxBytes(most int) *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "uncommitted messages of the connection exceed %d bytes", most)
}

func errTxCommands(most int) *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "transaction exceeds %d messages", most)
}

// errConsumerTimeout ends the channel of a client that cannot be told otherwise that it kept a delivery for too long.
func errConsumerTimeout(channel uint16, millis int64) *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "delivery acknowledgement on channel %d timed out. Timeout value used: %d ms. This timeout value can be configured, see consumers doc guide to learn more", channel, millis)
}

func errReplyAck() *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "reply consumer cannot acknowledge")
}

func errReplyTwice() *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "reply consumer already set")
}

func errNoReplyConsumer() *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "fast reply consumer does not exist")
}

func errReplyBinding() *amqp.Error {
	return amqp.Errorf(amqp.ReplyAccessRefused, "cannot bind or unbind to a volatile (direct reply-to) queue")
}

func errNotTransactional() *amqp.Error {
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "channel is not transactional")
}

func errInternal() *amqp.Error {
	return amqp.Errorf(amqp.ReplyInternalError, "internal error")
}

func errCatalogue(r resource) *amqp.Error {
	return amqp.Errorf(amqp.ReplyInternalError, "failed to perform operation on %s: the metadata store does not answer", r)
}

// Errors of connections.

func errLoginRefused(mechanism string) *amqp.Error {
	return amqp.Errorf(amqp.ReplyAccessRefused, "Login was refused using authentication mechanism %s. For details see the broker logfile.", mechanism)
}

func errMechanism(mechanism string) *amqp.Error {
	return amqp.Errorf(amqp.ReplyCommandInvalid, "unknown authentication mechanism '%s'", mechanism)
}

func errMechanismNotOffered(name string) *amqp.Error {
	return amqp.Errorf(amqp.ReplyCommandInvalid, "invalid authentication mechanism '%s'", name)
}

func errNegotiatedLow(what string, value, least int) *amqp.Error {
	return amqp.Errorf(amqp.ReplyNotAllowed, "negotiated %s = %d is lower than the minimum allowed value (%d)", what, value, least)
}

func errNegotiatedHigh(what string, value, most int) *amqp.Error {
	return amqp.Errorf(amqp.ReplyNotAllowed, "negotiated %s = %d is higher than the maximum allowed value (%d)", what, value, most)
}

func errNoVHost(vhost string) *amqp.Error {
	return amqp.Errorf(amqp.ReplyNotAllowed, "vhost %s not found", vhost)
}

func errVHostRefused(vhost, user string) *amqp.Error {
	return amqp.Errorf(amqp.ReplyNotAllowed, "access to vhost '%s' refused for user '%s'", vhost, user)
}

func errVHostConnections(vhost, user string, most int64) *amqp.Error {
	return amqp.Errorf(amqp.ReplyNotAllowed, "access to vhost '%s' refused for user '%s': connection limit (%d) is reached", vhost, user, most)
}

func errUserConnections(user string, most int64) *amqp.Error {
	return amqp.Errorf(amqp.ReplyNotAllowed, "connection refused for user '%s': user connection limit (%d) is reached", user, most)
}

func errNodeConnections(most int) *amqp.Error {
	return amqp.Errorf(amqp.ReplyNotAllowed, "connection refused: node connection limit (%d) is reached", most)
}

func errNodeChannels(node string, most int) *amqp.Error {
	return amqp.Errorf(amqp.ReplyNotAllowed, "number of channels opened on node '%s' has reached the maximum allowed limit of (%d)", node, most)
}

func errUserChannels(user string, most int64) *amqp.Error {
	return amqp.Errorf(amqp.ReplyNotAllowed, "number of channels opened for user '%s' has reached the maximum allowed user limit of (%d)", user, most)
}

func errSecretRefused() *amqp.Error {
	return amqp.Errorf(amqp.ReplyNotAllowed, "New secret was refused by one of the backends")
}

func errChannelsMax(open, most int) *amqp.Error {
	return amqp.Errorf(amqp.ReplyNotAllowed, "number of channels opened (%d) has reached the negotiated channel_max (%d)", open, most)
}

func errChannelUnopened() *amqp.Error {
	return amqp.Errorf(amqp.ReplyChannelError, "expected 'channel.open'")
}

func errChannelOpened() *amqp.Error {
	return amqp.Errorf(amqp.ReplyChannelError, "second 'channel.open' seen")
}

func errState(state string) *amqp.Error {
	return amqp.Errorf(amqp.ReplyChannelError, "unexpected method in connection state %s", state)
}

func errForced(reason string) *amqp.Error {
	return amqp.Errorf(amqp.ReplyConnectionForced, "%s", reason)
}

func errShutdown() *amqp.Error {
	return errForced("broker forced connection closure with reason 'shutdown'")
}

// errReason turns a refusal of the catalogue into an AMQP error. what is what the operation was about; for a binding that is the destination.
func errReason(r *meta.Reply, what resource) *amqp.Error {
	switch r.Reason {
	case meta.ReasonNoVHost:
		return errNoVHost(what.VHost)
	case meta.ReasonNoExchange:
		name := what.Name
		if r.Field != "" {
			name = r.Detail
		}
		return errNotFound(exchangeResource(what.VHost, name))
	case meta.ReasonNoQueue:
		return errNotFound(queueResource(what.VHost, what.Name))
	case meta.ReasonInequivalentArg:
		return amqp.Errorf(amqp.ReplyPreconditionFailed, "inequivalent arg '%s' for %s: received %s but current is %s", r.Field, what, r.Received, r.Current)
	case meta.ReasonInvalidArg:
		return amqp.Errorf(amqp.ReplyPreconditionFailed, "invalid arg '%s' for %s: %s", r.Field, what, r.Detail)
	case meta.ReasonArgOfOtherType:
		return amqp.Errorf(amqp.ReplyPreconditionFailed, "invalid arg '%s' for %s of queue type %s", r.Field, what, r.Detail)
	case meta.ReasonInvalidArgType:
		return amqp.Errorf(amqp.ReplyPreconditionFailed, "invalid type '%s' for arg '%s' in %s", r.Detail, r.Field, what)
	case meta.ReasonUnknownExchangeType:
		return amqp.Errorf(amqp.ReplyPreconditionFailed, "unknown exchange type '%s'", r.Detail)
	case meta.ReasonExclusiveLocked:
		return errLocked(what)
	case meta.ReasonInUse:
		return errInUse(what)
	case meta.ReasonDefaultExchange:
		return errDefaultExchange()
	case meta.ReasonSystemExchange:
		return amqp.Errorf(amqp.ReplyAccessRefused, "deletion of system %s not allowed", what)
	case meta.ReasonReservedName:
		return errReserved(what)
	case meta.ReasonInvalidBinding, meta.ReasonInvalidPolicy:
		return amqp.Errorf(amqp.ReplyPreconditionFailed, "%s", r.Detail)
	}
	return errRareReason(r, what)
}

// errRareReason has the refusals for which RabbitMQ has no text of its own.
func errRareReason(r *meta.Reply, what resource) *amqp.Error {
	switch r.Reason {
	case meta.ReasonLimit:
		switch r.Field {
		case "queues":
			return amqp.Errorf(amqp.ReplyPreconditionFailed, "cannot declare queue '%s': queue limit in cluster (%d) is reached", what.Name, r.Count)
		case "exchanges":
			return amqp.Errorf(amqp.ReplyPreconditionFailed, "cannot declare %s: exchange limit of %d is reached", what, r.Count)
		case "bindings per destination":
			return amqp.Errorf(amqp.ReplyPreconditionFailed, "cannot bind %s: binding limit of %d is reached", what, r.Count)
		case "vhosts":
			return amqp.Errorf(amqp.ReplyPreconditionFailed, "cannot create vhost '%s': vhost limit of %d is reached", what.Name, r.Count)
		}
		return amqp.Errorf(amqp.ReplyPreconditionFailed, "%s: the limit of %d %s is reached", what, r.Count, r.Field)
	case meta.ReasonTooLong:
		return amqp.Errorf(amqp.ReplyPreconditionFailed, "%s should be at most %d bytes", r.Field, r.Count)
	case meta.ReasonInvalidPattern:
		return amqp.Errorf(amqp.ReplyPreconditionFailed, "invalid regular expression for %s: %s", r.Field, r.Detail)
	case meta.ReasonNameInUse:
		return amqp.Errorf(amqp.ReplyPreconditionFailed, "the name is in use")
	case meta.ReasonQueuesMax:
		return amqp.Errorf(amqp.ReplyPreconditionFailed, "cannot declare queue '%s': queue limit in vhost '%s' (%d) is reached", what.Name, what.VHost, r.Count)
	case meta.ReasonStreamUnserved:
		return errUnimplemented("streams are not served")
	case meta.ReasonFenced, meta.ReasonStaleBoot:
		return errForced("the node was declared dead")
	}
	return amqp.Errorf(amqp.ReplyPreconditionFailed, "%s: %s", what, r.Reason)
}

// errCode turns the answer of a queue into an AMQP error, nil for CodeOK.
func errCode(code queue.Code, what resource) *amqp.Error {
	switch code {
	case queue.CodeOK:
		return nil
	case queue.CodeGone:
		return errNotFound(what)
	case queue.CodeExclusive:
		return errExclusiveUse(what)
	case queue.CodeInUse:
		return errInUse(what)
	case queue.CodeNotEmpty:
		return errNotEmpty(what)
	case queue.CodeLimit:
		return amqp.Errorf(amqp.ReplyPreconditionFailed, "%s has reached its maximum of consumers", what)
	case queue.CodeUnavailable:
		return errTimeout(what)
	case queue.CodeSingleActive:
		return amqp.Errorf(amqp.ReplyResourceLocked, "cannot obtain access to locked %s. basic.get operations are not supported by quorum queues with single active consumer", what)
	}
	return amqp.Errorf(amqp.ReplyInternalError, "unexpected answer %d of %s", code, what)
}

// errHost turns an error of the host into an AMQP error.
func errHost(err error, what resource) *amqp.Error {
	switch {
	case errors.Is(err, quorum.ErrNoQueue):
		return errNotFound(what)
	case errors.Is(err, quorum.ErrNoLeader):
		return errTimeout(what)
	case errors.Is(err, quorum.ErrClosed):
		return errShutdown()
	}
	return errCatalogue(what)
}

// errAt is asError with the method that failed, if the error does not name one.
func errAt(err error, method amqp.MethodID) *amqp.Error {
	e := asError(err)
	if e.ClassID == 0 {
		e = (&amqp.Error{Code: e.Code, Text: e.Text}).At(method)
	}
	return e
}

// asError returns the protocol error in err, or 541 for any other.
func asError(err error) *amqp.Error {
	var e *amqp.Error
	if errors.As(err, &e) {
		return e
	}
	return amqp.Errorf(amqp.ReplyInternalError, "%s", fmt.Sprint(err))
}
