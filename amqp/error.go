package amqp

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Scope says what an error closes.
type Scope uint8

// The scopes of reply codes.
const (
	// ScopeNone belongs to codes that are no errors.
	ScopeNone Scope = 0
	// ScopeChannel closes the channel; on channel 0 it closes the connection.
	ScopeChannel Scope = 1
	// ScopeConnection closes the connection.
	ScopeConnection Scope = 2
)

// String returns none, channel or connection.
func (s Scope) String() string {
	switch s {
	case ScopeNone:
		return "none"
	case ScopeChannel:
		return "channel"
	}
	return "connection"
}

// ReplyTextBytesMax is the length that a reply text has at most, for it is a short string.
const ReplyTextBytesMax = ShortstrBytesMax

// Error is a protocol error as connection.close or channel.close carries it. ClassID and MethodID name the method that caused it, 0 and 0
// if there is none.
type Error struct {
	// Code is one of the Reply constants.
	Code uint16
	// Text explains the error, without the name of the code; see ReplyText.
	Text string
	// ClassID is the class of the failing method.
	ClassID uint16
	// MethodID is the failing method within its class.
	MethodID uint16
}

// Errorf returns an error that names no method.
func Errorf(code uint16, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// At returns the error with the failing method set; it changes and returns e.
func (e *Error) At(id MethodID) *Error {
	e.ClassID, e.MethodID = id.Class(), id.Method()
	return e
}

// Method returns the failing method, 0 if there is none.
func (e *Error) Method() MethodID { return NewMethodID(e.ClassID, e.MethodID) }

// Scope says what the error closes.
func (e *Error) Scope() Scope { return ReplyScope(e.Code) }

// ReplyText returns `NAME - explanation`, in at most 255 bytes: a longer text ends in "..." and is cut between characters.
func (e *Error) ReplyText() string {
	text := e.Text
	if name := ReplyName(e.Code); name != "" {
		text = name + " - " + e.Text
	}
	if len(text) <= ReplyTextBytesMax {
		return text
	}
	const ellipsis = "..."
	return cutString(text, ReplyTextBytesMax-len(ellipsis)) + ellipsis
}

// Error returns the code and the reply text.
func (e *Error) Error() string { return strconv.Itoa(int(e.Code)) + " " + e.ReplyText() }

// ConnectionClose returns the method that tells the peer about the error on channel 0.
func (e *Error) ConnectionClose() ConnectionClose {
	return ConnectionClose{ReplyCode: e.Code, ReplyText: e.ReplyText(), ClassID: e.ClassID, MethodID: e.MethodID}
}

// ChannelClose returns the method that tells the peer about the error on a channel.
func (e *Error) ChannelClose() ChannelClose {
	return ChannelClose{ReplyCode: e.Code, ReplyText: e.ReplyText(), ClassID: e.ClassID, MethodID: e.MethodID}
}

// cutString returns the longest start of s that has at most n bytes and does not end inside a character.
func cutString(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := n; i > n-utf8.UTFMax && i > 0; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:n]
}

// frameError is 501 with the text of RabbitMQ: frame type, up to 16 octets of the payload, reason.
func frameError(typ uint8, payload []byte, reason string) *Error {
	return Errorf(ReplyFrameError, "type %d, %s: %s", typ, payloadSnippet(payload), reason)
}

// UnexpectedFrame is 505 for a frame that must not come here, with RabbitMQ's text: frame type and up to 16 octets of the payload.
func UnexpectedFrame(f Frame) *Error {
	return Errorf(ReplyUnexpectedFrame, "type %d, %s", f.Type, payloadSnippet(f.Payload))
}

const snippetBytesMax = 16

func payloadSnippet(payload []byte) string {
	if len(payload) <= snippetBytesMax {
		return "all octets = " + erlangBinary(payload, true)
	}
	return "first 16 octets = " + erlangBinary(payload[:snippetBytesMax], true)
}

// erlangBinary writes bytes as RabbitMQ's texts do: <<1,2,3>>, or, where pretty, <<"abc">> if all of them can be printed.
func erlangBinary(b []byte, pretty bool) string {
	if pretty && len(b) > 0 && printable(b) {
		return `<<` + strconv.Quote(string(b)) + `>>`
	}
	var s strings.Builder
	s.WriteString("<<")
	for i, c := range b {
		if i > 0 {
			s.WriteByte(',')
		}
		s.WriteString(strconv.Itoa(int(c)))
	}
	s.WriteString(">>")
	return s.String()
}

func printable(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}
