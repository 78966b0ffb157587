package transport

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// What can go wrong with another node. The reasons of refusals are wrapped in a *RefusedError.
var (
	// ErrUnreachable says that the target node cannot be reached.
	ErrUnreachable = errors.New("transport: node cannot be reached")
	// ErrClosed says that this end was closed.
	ErrClosed = errors.New("transport: closed")
	// ErrBusy says that a link's queue is full: the peer takes less than is sent.
	ErrBusy = errors.New("transport: the link is busy")
	// ErrTooLarge says that a frame is larger than its connection takes.
	ErrTooLarge = errors.New("transport: the frame is too large")
	// ErrSilent says that nothing was heard of the peer, or that it took nothing, for too long.
	ErrSilent = errors.New("transport: the peer is silent")
	// ErrFrame says that a frame was damaged or out of place.
	ErrFrame = errors.New("transport: bad frame")
	// ErrHandshake says that the other end speaks something else or hung up in the middle.
	ErrHandshake = errors.New("transport: no handshake")
	// ErrCertificate says that one end does not believe the other's certificate.
	ErrCertificate = errors.New("transport: a certificate is not believed")

	// ErrVersion says that the two nodes have no version of the protocol in common.
	ErrVersion = errors.New("the protocol version is another one")
	// ErrCluster says that the peer belongs to another cluster.
	ErrCluster = errors.New("the cluster is another one")
	// ErrSecret says that the two nodes do not have the same secret.
	ErrSecret = errors.New("the cluster secret is another one")
	// ErrNoSecret says that the called node has no secret and so takes nobody.
	ErrNoSecret = errors.New("the node has no cluster secret")
	// ErrIdentity says that the node is not the one that was called, or that two nodes have one id.
	ErrIdentity = errors.New("the node is another one")
	// ErrNotReady says that the called node does not serve this purpose now: it is starting or stopping.
	ErrNotReady = errors.New("the node is not ready")
	// ErrNotAdmitted says that the called node's Admit refused.
	ErrNotAdmitted = errors.New("the node is not admitted")
	// ErrCrowded says that the called node has too many connections.
	ErrCrowded = errors.New("the node has too many connections")
)

// refusalCode is a reason as the wire has it.
type refusalCode byte

const (
	codeOK          refusalCode = 0
	codeMalformed   refusalCode = 1
	codeVersion     refusalCode = 2
	codeCluster     refusalCode = 3
	codeSecret      refusalCode = 4
	codeNoSecret    refusalCode = 5
	codeIdentity    refusalCode = 6
	codeNotReady    refusalCode = 7
	codeNotAdmitted refusalCode = 8
	codeCrowded     refusalCode = 9
)

func (c refusalCode) err() error {
	switch c {
	case codeVersion:
		return ErrVersion
	case codeCluster:
		return ErrCluster
	case codeSecret:
		return ErrSecret
	case codeNoSecret:
		return ErrNoSecret
	case codeIdentity:
		return ErrIdentity
	case codeNotReady:
		return ErrNotReady
	case codeNotAdmitted:
		return ErrNotAdmitted
	case codeCrowded:
		return ErrCrowded
	}
	return ErrHandshake
}

// RefusedError says that a handshake ended with a refusal. errors.Is finds the reason, one of the Err values.
type RefusedError struct {
	code refusalCode
	// Text says what does not fit, for the operator.
	Text string
	// ByPeer says that the other node refused; otherwise this one did.
	ByPeer bool
}

func (e *RefusedError) Error() string {
	who := "this node refused"
	if e.ByPeer {
		who = "the other node refused"
	}
	if e.Text == "" {
		return "transport: " + who + ": " + e.code.err().Error()
	}
	return "transport: " + who + ": " + e.code.err().Error() + ": " + e.Text
}

func (e *RefusedError) Unwrap() error { return e.code.err() }

func refuse(code refusalCode, format string, args ...any) *RefusedError {
	return &RefusedError{code: code, Text: fmt.Sprintf(format, args...)}
}

// JoinError says that the cluster's answer to a join is no.
type JoinError struct {
	// Text is the reason as the other node put it.
	Text string
}

func (e *JoinError) Error() string { return "transport: the cluster refused the join: " + e.Text }

// refusalTextBytesMax bounds the text of a refusal on the wire.
const refusalTextBytesMax = 256

// printable makes text of another node fit for a log and a terminal.
func printable(b []byte, bytesMax int) string {
	if len(b) > bytesMax {
		b = b[:bytesMax]
	}
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(string(b), "?"))
}
