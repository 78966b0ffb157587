package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Code is a process exit code.
type Code int

// The exit codes of amqpctl. They are part of its interface: scripts branch on them, so a code keeps its meaning for ever.
const (
	OK          Code = 0   // everything was done
	Partial     Code = 3   // of several objects some were done and some failed
	Usage       Code = 64  // the command line is wrong
	Data        Code = 65  // bad data, or the object does not exist
	Auth        Code = 67  // the user is unknown or the password wrong
	Unavailable Code = 69  // the broker refused, is down, or went away
	Internal    Code = 70  // an answer that cannot be, or a bug
	Timeout     Code = 75  // no answer in time; trying again may help
	Denied      Code = 77  // the user is known and may not do this
	Config      Code = 78  // a setting (URL, environment) is wrong
	Interrupted Code = 130 // stopped by SIGINT or SIGTERM
)

// Row is one line of the table of exit codes that `amqpctl help exit-codes` prints.
type Row struct {
	Code    Code
	Meaning string
}

// Rows lists every code in rising order.
func Rows() []Row {
	return []Row{
		{OK, "everything was done"},
		{Partial, "of several objects some were done and some failed"},
		{Usage, "usage: the command line is wrong"},
		{Data, "bad data, or the object does not exist"},
		{Auth, "unknown user or wrong password"},
		{Unavailable, "the broker refused, is down, or the connection was lost"},
		{Internal, "internal error or an answer that makes no sense"},
		{Timeout, "no answer in time"},
		{Denied, "permission denied"},
		{Config, "a setting such as --url or its environment variable is wrong"},
		{Interrupted, "interrupted (SIGINT, SIGTERM)"},
	}
}

// Coder is an error that knows its exit code.
type Coder interface {
	error
	Exit() Code
}

// Error is an error with an exit code and the text for the user. Err, when set, is what caused it; Text already says so.
type Error struct {
	Code Code
	Text string
	Err  error
}

var _ Coder = (*Error)(nil)

// Errorf makes an Error; a %w verb in format is kept as its cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Text: err.Error(), Err: errors.Unwrap(err)}
}

// Wrap puts context in front of err and keeps the code that Of gives to err. It returns nil for nil.
func Wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Error{Code: Of(err), Text: fmt.Sprintf(format, args...) + ": " + Text(err), Err: err}
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Exit returns the code.
func (e *Error) Exit() Code { return e.Code }

// Of maps an error to its exit code. nil is OK; what nothing recognises is Internal.
func Of(err error) Code {
	if err == nil {
		return OK
	}
	var coder Coder
	if errors.As(err, &coder) {
		return coder.Exit()
	}
	var reply *amqp.Error
	if errors.As(err, &reply) {
		return OfReply(reply.Code, reply.Reason)
	}
	var netErr net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.As(err, &netErr):
		if netErr.Timeout() {
			return Timeout
		}
		return Unavailable
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return Unavailable
	}
	return Internal
}

// OfReply maps an AMQP reply code to an exit code (AMQP 0-9-1, constants). The text only tells apart the two meanings of 403 and 530,
// which brokers use for a failed login and a missing vhost as well as for missing permissions.
func OfReply(code int, text string) Code {
	lower := strings.ToLower(text)
	switch code {
	case amqp.AccessRefused:
		if strings.Contains(lower, "login was refused") || strings.Contains(lower, "username or password") || strings.Contains(lower, "sasl") {
			return Auth
		}
		return Denied
	case amqp.NotAllowed:
		if strings.Contains(lower, "not found") {
			return Data
		}
		if strings.Contains(lower, "limit") || strings.Contains(lower, "is down") {
			return Unavailable
		}
		return Denied
	case amqp.NotFound, amqp.PreconditionFailed, amqp.ContentTooLarge, amqp.NoRoute, amqp.NoConsumers, amqp.InvalidPath:
		return Data
	case amqp.ConnectionForced, amqp.ResourceLocked, amqp.ResourceError, amqp.ChannelError:
		return Unavailable
	}
	return Internal
}

// Text returns the message of err as one line for the user: white space runs become one space, and an AMQP error reads
// "404 NOT_FOUND - no queue ..." as the broker sent it.
func Text(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	var coder Coder
	var reply *amqp.Error
	if !errors.As(err, &coder) && errors.As(err, &reply) {
		text = strings.Replace(text, reply.Error(), ReplyText(reply), 1)
	}
	return strings.Join(strings.Fields(text), " ")
}

// ReplyText renders an AMQP exception as code and text.
func ReplyText(reply *amqp.Error) string { return fmt.Sprintf("%d %s", reply.Code, reply.Reason) }
