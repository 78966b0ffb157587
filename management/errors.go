package management

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// This file is the one table from refusals (meta.Reason, queue.Code, AMQP errors, errors of the host) to HTTP statuses and RabbitMQ's error bodies. The words of what AMQP refuses, too, are the broker's.

// failure is an answer that is no success. As an error it ends a handler.
type failure struct {
	status int
	// kind is the word under "error"; without one the body is empty. reason is the text under "reason", words instead an array of texts there.
	kind, reason string
	words        []string
	// challenge asks for a login.
	challenge bool
}

var _ error = (*failure)(nil)

func (f *failure) Error() string { return fmt.Sprint(f.status, " ", f.kind, ": ", f.reason, f.words) }

// write writes the body.
func (f *failure) write(w *writer) {
	w.Object("")
	w.Str("error", f.kind)
	if f.words != nil {
		w.Strings("reason", f.words)
	} else {
		w.Str("reason", f.reason)
	}
	w.End()
}

func badRequest(reason string) *failure {
	return &failure{status: http.StatusBadRequest, kind: "bad_request", reason: reason}
}

func badRequestf(format string, args ...any) *failure {
	return badRequest(fmt.Sprintf(format, args...))
}

// badRequestWords is RabbitMQ's form for a value that is not of the type wanted: ["not_integer","x"].
func badRequestWords(words ...string) *failure {
	return &failure{status: http.StatusBadRequest, kind: "bad_request", words: words}
}

func bodyTooLarge(bytesMax int64) *failure {
	return &failure{status: http.StatusRequestEntityTooLarge, kind: "bad_request", reason: fmt.Sprintf("the request body is larger than %d bytes", bytesMax)}
}

func notAuthorised(reason string) *failure {
	return &failure{status: http.StatusUnauthorized, kind: "not_authorised", reason: reason}
}

// objectNotFound is the answer to a path that names nothing, notFound the one of an operation that misses something.
func objectNotFound() *failure {
	return &failure{status: http.StatusNotFound, kind: "Object Not Found", reason: "Not Found"}
}

func notFound(reason string) *failure {
	return &failure{status: http.StatusNotFound, kind: "not_found", reason: reason}
}

func unavailable(reason string) *failure {
	return &failure{status: http.StatusServiceUnavailable, kind: "service_unavailable", reason: reason}
}

func internalError() *failure {
	return &failure{status: http.StatusInternalServerError, kind: "internal_server_error", reason: "internal error, see the log of the node"}
}

// resource names what an operation is about.
type resource = broker.Resource

func queueResource(vhost, name string) resource {
	return resource{Kind: "queue", VHost: vhost, Name: name}
}

// exchangeResource names an exchange; in texts about permissions the default exchange is amq.default.
func exchangeResource(vhost, name string) resource {
	return resource{Kind: "exchange", VHost: vhost, Name: meta.PermissionName(name)}
}

func locked(what resource) *failure {
	return refused(broker.Refusal(&meta.Reply{Reason: meta.ReasonExclusiveLocked}, what))
}

// refused is a refusal that AMQP has, too, with its text.
func refused(e *amqp.Error) *failure {
	switch e.Code {
	case amqp.ReplyNotFound:
		return notFound(e.Text)
	case amqp.ReplyAccessRefused:
		return notAuthorised(e.ReplyText())
	}
	return badRequest(e.Text)
}

// refusal turns the catalogue's answer into a failure, nil if it did what was asked. what is what the request names; of a binding the destination.
func refusal(r *meta.Reply, what resource) error {
	switch r.Reason {
	case meta.ReasonOK:
		return nil
	case meta.ReasonNoVHost:
		return notFound("vhost_not_found")
	case meta.ReasonNoUser, meta.ReasonNoNode:
		return objectNotFound()
	case meta.ReasonFenced, meta.ReasonStaleBoot, meta.ReasonAborted:
		return unavailable("the node was declared dead or the operation was called off; try again")
	}
	if r.Reason == meta.ReasonInvalidPolicy {
		return invalid(r.Detail)
	}
	return refused(broker.Refusal(r, what))
}

// codeFailure turns the answer of a queue's machine to a conditional delete into a failure.
func codeFailure(code queue.Code, what resource) error {
	switch code {
	case queue.CodeOK:
		return nil
	case queue.CodeGone:
		return objectNotFound()
	case queue.CodeInUse, queue.CodeNotEmpty:
		return refused(broker.CodeRefusal(code, what))
	}
	return unavailable(what.String() + " does not answer")
}

// hostFailure turns an error of the host into a failure.
func hostFailure(err error, what resource) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, quorum.ErrNoQueue):
		return objectNotFound()
	case errors.Is(err, quorum.ErrNoLeader):
		return unavailable(what.String() + " has no leader now; try again")
	case errors.Is(err, quorum.ErrClosed):
		return unavailable("the node is stopping")
	case errors.Is(err, quorum.ErrNoCatalogue):
		return unavailable(what.String() + ": the catalogue does not answer; it is not known whether the change took effect")
	}
	return timeoutFailure(err, what)
}

// memberFailure turns a refused change of a queue's replicas into a failure: RabbitMQ answers 503 and a word of its own, behind which a sentence stands here.
func memberFailure(err error, q *meta.Queue, node string) error {
	what := queueResource(q.VHost, q.Name)
	switch {
	case errors.Is(err, quorum.ErrNoNode):
		return noSuchNode(node)
	case errors.Is(err, quorum.ErrNoMember):
		return unavailable(fmt.Sprintf("not_member: node '%s' has no replica of %s", node, what))
	case errors.Is(err, quorum.ErrLastMember):
		return unavailable(fmt.Sprintf("last_node: node '%s' has the only replica of %s; delete the queue instead", node, what))
	case errors.Is(err, quorum.ErrNoLeader):
		return unavailable(what.String() + " has no leader now, and nothing was changed; try again")
	case errors.Is(err, context.DeadlineExceeded):
		return unavailable("timeout: it is not known whether the replicas of " + what.String() + " were changed")
	case errors.Is(err, quorum.ErrNoQueue), errors.Is(err, quorum.ErrClosed), errors.Is(err, quorum.ErrNoCatalogue), errors.Is(err, context.Canceled):
		return hostFailure(err, what)
	}
	return unavailable("the replicas of " + what.String() + " could not be changed: " + err.Error())
}

// noSuchNode is the answer to a change of replicas on a node that is not there.
func noSuchNode(node string) *failure {
	return unavailable(fmt.Sprintf("node_not_running: the cluster has no node '%s' that is up", node))
}

func timeoutFailure(err error, what resource) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return unavailable("failed to perform operation on " + what.String() + " due to timeout")
	}
	return err
}

// amqpFailure turns an error of the broker's client into a failure: RabbitMQ answers with the text that would close the channel.
func amqpFailure(err error, what resource) error {
	var e *amqp.Error
	if !errors.As(err, &e) {
		return hostFailure(err, what)
	}
	switch e.Code {
	case amqp.ReplyNotFound:
		return notFound(e.ReplyText())
	case amqp.ReplyAccessRefused:
		return notAuthorised(e.ReplyText())
	}
	return badRequest(e.Error())
}

// publishFailure is amqpFailure for a publish: whatever closes the channel is a bad request there, but for a missing permission.
func publishFailure(err error, what resource) error {
	var blocked *broker.BlockedError
	if errors.As(err, &blocked) {
		return unavailable(blocked.Error())
	}
	var e *amqp.Error
	if errors.As(err, &e) && e.Code == amqp.ReplyNotFound {
		return badRequest(e.Error())
	}
	return amqpFailure(err, what)
}
