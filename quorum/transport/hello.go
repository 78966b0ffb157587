package transport

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/warrenmq/warren/config/limits"
)

// Purpose is what a connection is for.
type Purpose byte

// The purposes, as the wire has them.
const (
	// PurposeJoin is one request of a node that has no id yet, and its answer.
	PurposeJoin Purpose = 1
	// PurposeRaft carries Raft messages from the caller to the called node.
	PurposeRaft Purpose = 2
	// PurposeSnapshot carries one snapshot stream from the caller to the called node.
	PurposeSnapshot Purpose = 3
	// PurposeLink is a link.
	PurposeLink Purpose = 4
)

func (p Purpose) String() string {
	switch p {
	case PurposeJoin:
		return "join"
	case PurposeRaft:
		return "raft"
	case PurposeSnapshot:
		return "snapshot"
	case PurposeLink:
		return "link"
	}
	return fmt.Sprintf("purpose %d", byte(p))
}

// Boot is an incarnation of a node (PROTOCOL 1).
type Boot struct {
	Counter, Nonce uint64
}

// Peer is the node at the other end of a connection, proved by the handshake. All is zero for one that joins.
type Peer struct {
	Node, Cluster uint64
	Boot          Boot
	// Address is the network address of its end, for logs.
	Address string
}

// The hello's and the answer's heads stay as they are in every version: magic, versions, length. Numbers are big-endian.
//
//	hello    magic[4] lowest:2 highest:2 length:2 | purpose:1 node:8 cluster:8 counter:8 nonce:8 challenge[32]
//	answer   magic[4] version:2 code:1 length:2   | node:8 cluster:8 counter:8 nonce:8 challenge[32], or a text
//	proof    code:1 length:2                      | proof[32], or a text
//	verdict  code:1 length:2                      | proof[32], or a text
//
// A body may be longer than this version knows; the rest is ignored, and proved.
const (
	helloMagic      = "WRRN"
	versionLowest   = 1
	versionHighest  = 1
	challengeBytes  = 32
	identityBytes   = 4*8 + challengeBytes
	helloHeadBytes  = 10
	helloBodyBytes  = 1 + identityBytes
	answerHeadBytes = 9
	proofHeadBytes  = 3
)

// The two roles say different things under the same secret, so that no proof can be sent back to where it came from.
const (
	roleCaller = "warren handshake, caller"
	roleCalled = "warren handshake, called"
)

// handshake is one end of the first four messages.
type handshake struct {
	conn            net.Conn
	secret          []byte
	self            Peer
	purpose         Purpose
	lowest, highest uint16
	channel         []byte // what only the ends of this TLS connection know
	hello, answer   []byte // as they crossed the wire
}

func newHandshake(conn net.Conn, secret []byte, self Peer) (*handshake, error) {
	h := &handshake{conn: conn, secret: secret, self: self, lowest: versionLowest, highest: versionHighest}
	if c, ok := conn.(*tls.Conn); ok {
		state := c.ConnectionState()
		channel, err := state.ExportKeyingMaterial("EXPORTER-warren-cluster", nil, sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrHandshake, err)
		}
		h.channel = channel
	}
	return h, nil
}

// call is the caller's side. want is the node that must answer, 0 for any node of any cluster.
func (h *handshake) call(purpose Purpose, want uint64) (Peer, error) {
	if len(h.secret) == 0 {
		return Peer{}, refuse(codeNoSecret, "nobody can be called without one")
	}
	h.purpose = purpose
	h.hello = h.appendHello(nil)
	if err := h.write(h.hello); err != nil {
		return Peer{}, err
	}
	peer, err := h.readAnswer()
	if err != nil {
		return Peer{}, err
	}
	var no *RefusedError
	switch {
	case want != 0 && peer.Cluster != h.self.Cluster:
		no = refuse(codeCluster, "the caller is of cluster %016x, the called node of %016x", h.self.Cluster, peer.Cluster)
	case want != 0 && peer.Node != want:
		no = refuse(codeIdentity, "node %d was called, node %d answered", want, peer.Node)
	}
	if no != nil {
		return Peer{}, h.refuse(no, appendVerdict)
	}
	if err := h.write(appendVerdict(nil, codeOK, h.prove(roleCaller))); err != nil {
		return Peer{}, err
	}
	proof, err := h.readVerdict()
	if err != nil {
		return Peer{}, err
	}
	if !hmac.Equal(proof, h.prove(roleCalled)) {
		return Peer{}, refuse(codeSecret, "the called node does not know the secret")
	}
	return peer, nil
}

// answerCall is the called side. serve says whether a caller who knows the secret is served.
func (h *handshake) answerCall(serve func(Peer, Purpose) *RefusedError) (Peer, error) {
	peer, no, err := h.readHello()
	if err != nil {
		return Peer{}, err
	}
	if no == nil {
		no = h.judge(peer)
	}
	if no != nil {
		return peer, h.refuse(no, h.appendRefusal)
	}
	h.answer = h.appendAnswer(nil)
	if err := h.write(h.answer); err != nil {
		return peer, err
	}
	proof, err := h.readVerdict()
	if err != nil {
		return peer, err
	}
	if !hmac.Equal(proof, h.prove(roleCaller)) {
		return peer, h.refuse(refuse(codeSecret, "the caller does not know the secret"), appendVerdict)
	}
	if no := serve(peer, h.purpose); no != nil {
		return peer, h.refuse(no, appendVerdict)
	}
	return peer, h.write(appendVerdict(nil, codeOK, h.prove(roleCalled)))
}

// judge looks at what the caller says of itself.
func (h *handshake) judge(peer Peer) *RefusedError {
	join := h.purpose == PurposeJoin
	switch {
	case h.purpose < PurposeJoin || h.purpose > PurposeLink:
		return refuse(codeMalformed, "%v is not known", h.purpose)
	case len(h.secret) == 0:
		return refuse(codeNoSecret, "it takes nobody")
	case peer.Cluster != h.self.Cluster && !(join && peer.Cluster == 0):
		return refuse(codeCluster, "the caller is of cluster %016x, the called node of %016x", peer.Cluster, h.self.Cluster)
	case peer.Node == h.self.Node:
		return refuse(codeIdentity, "the caller and the called node have one id, %d: a data directory was copied, or the address is the caller's own", peer.Node)
	case peer.Node == 0 && !join:
		return refuse(codeIdentity, "the caller has no node id")
	}
	return nil
}

func appendIdentity(dst []byte, p Peer) []byte {
	for _, n := range []uint64{p.Node, p.Cluster, p.Boot.Counter, p.Boot.Nonce} {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	var challenge [challengeBytes]byte
	rand.Read(challenge[:]) // never fails
	return append(dst, challenge[:]...)
}

func (h *handshake) parseIdentity(b []byte) Peer {
	u := binary.BigEndian.Uint64
	return Peer{Node: u(b), Cluster: u(b[8:]), Boot: Boot{Counter: u(b[16:]), Nonce: u(b[24:])}, Address: h.conn.RemoteAddr().String()}
}

func (h *handshake) appendHello(dst []byte) []byte {
	dst = append(dst, helloMagic...)
	dst = binary.BigEndian.AppendUint16(dst, h.lowest)
	dst = binary.BigEndian.AppendUint16(dst, h.highest)
	dst = binary.BigEndian.AppendUint16(dst, helloBodyBytes)
	return appendIdentity(append(dst, byte(h.purpose)), h.self)
}

// readHello reads the hello. no is a refusal that the caller should hear; err ends the connection without a word.
func (h *handshake) readHello() (peer Peer, no *RefusedError, err error) {
	head := make([]byte, helloHeadBytes)
	if err := h.read(head); err != nil {
		return Peer{}, nil, err
	}
	if string(head[:4]) != helloMagic {
		if head[0] == 0x16 && head[1] == 3 {
			return Peer{}, nil, refuse(codeMalformed, "the caller wants TLS, this node has none")
		}
		return Peer{}, nil, refuse(codeMalformed, "the caller speaks another protocol, it began with %x", head[:4])
	}
	body, err := h.readBody(binary.BigEndian.Uint16(head[8:]))
	if err != nil {
		return Peer{}, nil, err
	}
	h.hello = append(head, body...)
	lowest, highest := binary.BigEndian.Uint16(head[4:]), binary.BigEndian.Uint16(head[6:])
	if lowest > h.highest || highest < h.lowest {
		return Peer{}, refuse(codeVersion, "the caller speaks %d to %d, the called node %d to %d", lowest, highest, h.lowest, h.highest), nil
	}
	h.highest = min(h.highest, highest)
	if len(body) < helloBodyBytes {
		return Peer{}, nil, refuse(codeMalformed, "the hello has %d bytes", len(body))
	}
	h.purpose = Purpose(body[0])
	return h.parseIdentity(body[1:]), nil, nil
}

func (h *handshake) appendAnswer(dst []byte) []byte {
	return appendIdentity(h.appendAnswerHead(dst, codeOK, identityBytes), h.self)
}

func (h *handshake) appendRefusal(dst []byte, code refusalCode, text []byte) []byte {
	return append(h.appendAnswerHead(dst, code, len(text)), text...)
}

func (h *handshake) appendAnswerHead(dst []byte, code refusalCode, bodyBytes int) []byte {
	dst = append(dst, helloMagic...)
	dst = binary.BigEndian.AppendUint16(dst, h.highest)
	dst = append(dst, byte(code))
	return binary.BigEndian.AppendUint16(dst, uint16(bodyBytes))
}

func (h *handshake) readAnswer() (Peer, error) {
	head := make([]byte, answerHeadBytes)
	if err := h.read(head); err != nil {
		return Peer{}, err
	}
	if string(head[:4]) != helloMagic {
		if head[0] == 0x15 && head[1] == 3 {
			return Peer{}, refuse(codeMalformed, "the called node wants TLS, this node has none")
		}
		return Peer{}, refuse(codeMalformed, "the called node speaks another protocol, it began with %x", head[:4])
	}
	body, err := h.readBody(binary.BigEndian.Uint16(head[7:]))
	if err != nil {
		return Peer{}, err
	}
	if code := refusalCode(head[6]); code != codeOK {
		return Peer{}, &RefusedError{code: code, Text: printable(body, refusalTextBytesMax), ByPeer: true}
	}
	if v := binary.BigEndian.Uint16(head[4:]); v < h.lowest || v > h.highest || len(body) < identityBytes {
		return Peer{}, refuse(codeMalformed, "the answer is of version %d and has %d bytes", v, len(body))
	}
	h.answer = append(head, body...)
	return h.parseIdentity(body), nil
}

func appendVerdict(dst []byte, code refusalCode, body []byte) []byte {
	dst = append(dst, byte(code))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(body)))
	return append(dst, body...)
}

// readVerdict reads a proof or a refusal.
func (h *handshake) readVerdict() ([]byte, error) {
	head := make([]byte, proofHeadBytes)
	if err := h.read(head); err != nil {
		return nil, err
	}
	body, err := h.readBody(binary.BigEndian.Uint16(head[1:]))
	if err != nil {
		return nil, err
	}
	if code := refusalCode(head[0]); code != codeOK {
		return nil, &RefusedError{code: code, Text: printable(body, refusalTextBytesMax), ByPeer: true}
	}
	return body, nil
}

// prove is what a role says to show that it knows the secret.
func (h *handshake) prove(role string) []byte {
	key := sha256.Sum256(h.secret) // HMAC itself takes a key and the same with zeros behind it for one
	mac := hmac.New(sha256.New, key[:])
	for _, part := range [][]byte{[]byte(role), h.hello, h.answer, h.channel} {
		mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// refuse tells the other end, in the form that it waits for, and returns the refusal.
func (h *handshake) refuse(no *RefusedError, form func([]byte, refusalCode, []byte) []byte) error {
	text := no.Text
	if len(text) > refusalTextBytesMax {
		text = text[:refusalTextBytesMax]
	}
	h.conn.Write(form(nil, no.code, []byte(text))) // if it fails, the other end learns less
	return no
}

func (h *handshake) readBody(length uint16) ([]byte, error) {
	if length > limits.HandshakeBytesMax {
		return nil, refuse(codeMalformed, "a message has %d bytes, more than %d", length, limits.HandshakeBytesMax)
	}
	body := make([]byte, length)
	return body, h.read(body)
}

// read fills p from the connection itself: nothing behind the handshake is read before it is over.
func (h *handshake) read(p []byte) error {
	if _, err := io.ReadFull(h.conn, p); err != nil {
		return fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	return nil
}

func (h *handshake) write(p []byte) error {
	if _, err := h.conn.Write(p); err != nil {
		return fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	return nil
}
