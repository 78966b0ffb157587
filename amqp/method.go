package amqp

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
)

// MethodID names a method: the class id in the upper 16 bits, the method's id within the class in the lower, as they stand on the wire.
type MethodID uint32

const methodIDBytes = 4

// NewMethodID joins a class id and a method id.
func NewMethodID(class, method uint16) MethodID { return MethodID(class)<<16 | MethodID(method) }

// MethodIDOf returns the id at the front of a method frame's payload, 0 if the payload is too short to have one.
func MethodIDOf(payload []byte) MethodID {
	if len(payload) < methodIDBytes {
		return 0
	}
	return MethodID(binary.BigEndian.Uint32(payload))
}

// Class returns the class id.
func (id MethodID) Class() uint16 { return uint16(id >> 16) }

// Method returns the id within the class.
func (id MethodID) Method() uint16 { return uint16(id) }

// Known says whether the protocol has the method.
func (id MethodID) Known() bool { return NewMethod(id) != nil }

func (id MethodID) digits() string {
	return strconv.Itoa(int(id.Class())) + "." + strconv.Itoa(int(id.Method()))
}

// MethodIDs returns the ids of all methods, class by class.
func MethodIDs() []MethodID { return slices.Clone(methodIDs[:]) }

// Method is any method of the protocol. Each has a struct of its own (BasicPublish, QueueDeclare), whose pointer is a Method.
type Method interface {
	// ID names the method.
	ID() MethodID
	// Append appends the payload of a method frame: class id, method id, fields.
	Append(dst []byte) []byte
	// AppendFrame appends a whole method frame.
	AppendFrame(dst []byte, channel uint16) []byte
	// Decode reads the payload of a method frame. On an error the fields are not to be used.
	Decode(payload []byte) error
	// String returns the name and the fields, for logs and tests.
	String() string
}

// DecodeMethod reads the payload of a method frame into a new struct. The hot path decodes into a struct or view that it keeps (see
// DispatchChannel and BasicPublishView). An unknown method is 503 COMMAND_INVALID.
func DecodeMethod(payload []byte) (Method, error) {
	m := NewMethod(MethodIDOf(payload))
	if m == nil {
		return nil, unimplemented(payload)
	}
	if err := m.Decode(payload); err != nil {
		return nil, err
	}
	return m, nil
}

// unimplemented is the answer to a method that does not exist or that this side does not receive.
func unimplemented(payload []byte) *Error {
	return Errorf(ReplyCommandInvalid, "unimplemented method").At(MethodIDOf(payload))
}

// text writes a method for people: name, then key=value for each field.
type text struct{ b strings.Builder }

func startText(id MethodID) *text {
	t := &text{}
	t.b.WriteString(id.String())
	return t
}

func (t *text) key(name string) {
	if t.b.Len() > 0 {
		t.b.WriteByte(' ')
	}
	t.b.WriteString(name)
}

func (t *text) str(name, v string) {
	t.key(name)
	t.b.WriteByte('=')
	t.b.WriteString(strconv.Quote(v))
}

func (t *text) secret(name string, n int) {
	t.key(name)
	t.b.WriteString("=[" + strconv.Itoa(n) + " bytes]")
}

func (t *text) num(name string, v uint64) {
	t.key(name)
	t.b.WriteByte('=')
	t.b.WriteString(strconv.FormatUint(v, 10))
}

func (t *text) bit(name string, v bool) {
	if v {
		t.key(name)
	}
}

func (t *text) table(name string, v Table) {
	t.key(name)
	t.b.WriteByte('=')
	t.b.WriteString(v.String())
}

// String returns the text.
func (t *text) String() string { return t.b.String() }
