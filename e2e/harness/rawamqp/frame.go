package rawamqp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Frame types and the octet that ends every frame (AMQP 0-9-1, 4.2.3).
const (
	TypeMethod    = 1
	TypeHeader    = 2
	TypeBody      = 3
	TypeHeartbeat = 8
	FrameEnd      = 0xCE
)

// frameBytesMax bounds a frame that is read.
const frameBytesMax = 16 << 20

// Header is the protocol header that a client sends first.
const Header = "AMQP\x00\x00\x09\x01"

// Frame is one frame.
type Frame struct {
	// Type is the frame type.
	Type byte
	// Channel is the channel's number.
	Channel uint16
	// Payload is what stands between the frame header and its end.
	Payload []byte
}

// Method returns class and method of a method frame, zeros for any other.
func (f Frame) Method() (class, method uint16) {
	if f.Type != TypeMethod || len(f.Payload) < 4 {
		return 0, 0
	}
	return binary.BigEndian.Uint16(f.Payload), binary.BigEndian.Uint16(f.Payload[2:])
}

// String names a frame in a failure.
func (f Frame) String() string {
	if f.Type == TypeMethod {
		class, method := f.Method()
		return fmt.Sprintf("method %d.%d on channel %d (%d bytes)", class, method, f.Channel, len(f.Payload))
	}
	return fmt.Sprintf("frame of type %d on channel %d (%d bytes)", f.Type, f.Channel, len(f.Payload))
}

// Append encodes a frame.
func (f Frame) Append(dst []byte) []byte {
	dst = append(dst, f.Type)
	dst = binary.BigEndian.AppendUint16(dst, f.Channel)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.Payload)))
	dst = append(dst, f.Payload...)
	return append(dst, FrameEnd)
}

func readFrame(r io.Reader) (Frame, error) {
	var head [7]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	size := binary.BigEndian.Uint32(head[3:])
	if string(head[:4]) == "AMQP" {
		return Frame{}, errors.New("a protocol header instead of a frame")
	}
	if size > frameBytesMax {
		return Frame{}, fmt.Errorf("a frame of %d bytes", size)
	}
	payload := make([]byte, size+1)
	if _, err := io.ReadFull(r, payload); err != nil {
		return Frame{}, err
	}
	if payload[size] != FrameEnd {
		return Frame{}, fmt.Errorf("a frame ends with %#x", payload[size])
	}
	return Frame{Type: head[0], Channel: binary.BigEndian.Uint16(head[1:]), Payload: payload[:size]}, nil
}

// Method begins a method frame's payload.
func Method(class, method uint16) *Arguments {
	a := &Arguments{}
	return a.Short(class).Short(method)
}

// Arguments builds a payload field by field.
type Arguments struct{ bytes []byte }

// Octet appends one octet.
func (a *Arguments) Octet(v byte) *Arguments {
	a.bytes = append(a.bytes, v)
	return a
}

// Short appends 16 bits.
func (a *Arguments) Short(v uint16) *Arguments {
	a.bytes = binary.BigEndian.AppendUint16(a.bytes, v)
	return a
}

// Long appends 32 bits.
func (a *Arguments) Long(v uint32) *Arguments {
	a.bytes = binary.BigEndian.AppendUint32(a.bytes, v)
	return a
}

// LongLong appends 64 bits.
func (a *Arguments) LongLong(v uint64) *Arguments {
	a.bytes = binary.BigEndian.AppendUint64(a.bytes, v)
	return a
}

// ShortString appends a string of at most 255 octets.
func (a *Arguments) ShortString(s string) *Arguments {
	a.bytes = append(append(a.bytes, byte(len(s))), s...)
	return a
}

// LongString appends a string with 32 bits of length, which is also the form of a table.
func (a *Arguments) LongString(s string) *Arguments {
	a.Long(uint32(len(s)))
	a.bytes = append(a.bytes, s...)
	return a
}

// Raw appends octets as they are.
func (a *Arguments) Raw(s string) *Arguments {
	a.bytes = append(a.bytes, s...)
	return a
}

// Frame makes the method frame for a channel.
func (a *Arguments) Frame(channel uint16) Frame {
	return Frame{Type: TypeMethod, Channel: channel, Payload: a.bytes}
}

// BodyHeader is the content header of a message of class basic without properties.
func BodyHeader(channel uint16, bodyBytes uint64) Frame {
	a := (&Arguments{}).Short(60).Short(0).LongLong(bodyBytes).Short(0)
	return Frame{Type: TypeHeader, Channel: channel, Payload: a.bytes}
}

// Publish is basic.publish to the default exchange.
func Publish(channel uint16, key string) Frame {
	return Method(60, 40).Short(0).ShortString("").ShortString(key).Octet(0).Frame(channel)
}
