package amqp

import "encoding/binary"

// Part says what a frame is to the channel that it belongs to.
type Part uint8

// The parts of a command, in order.
const (
	// PartMethod is a method.
	PartMethod Part = 1
	// PartHeader is the content header of the method before it.
	PartHeader Part = 2
	// PartBody is a piece of the body, possibly empty.
	PartBody Part = 3
)

// Assembler follows the frames of one channel and says what each one is: a method, and for methods with content a header and then body frames
// until the announced size is there. It keeps no bytes. The zero Assembler expects a method; assign it anew when a channel is closed.
type Assembler struct {
	method    MethodID // the method whose content is coming
	expect    Part     // 0 stands for PartMethod
	remaining uint64   // bytes of body to come
}

// Accept takes the channel's next frame. done says that the command is complete with it. Errors are RabbitMQ's: 505 for a frame out of order,
// 501 for a body that is larger than announced or than ContentBodyBytesMax.
func (a *Assembler) Accept(f Frame) (part Part, done bool, err error) {
	switch a.expect {
	case PartHeader:
		return a.acceptHeader(f)
	case PartBody:
		return a.acceptBody(f)
	}
	if f.Type != FrameMethod {
		return 0, false, Errorf(ReplyUnexpectedFrame, "expected method frame, got non method frame instead")
	}
	id := f.Method()
	if !id.HasContent() {
		return PartMethod, true, nil
	}
	a.method, a.expect = id, PartHeader
	return PartMethod, false, nil
}

// Remaining returns how many bytes of body are still to come.
func (a *Assembler) Remaining() uint64 { return a.remaining }

func (a *Assembler) acceptHeader(f Frame) (Part, bool, error) {
	class := a.method.Class()
	if f.Type != FrameHeader || binary.BigEndian.Uint16(f.Payload[2:]) != 0 {
		return 0, false, Errorf(ReplyUnexpectedFrame,
			"expected content header for class %d, got non content header frame instead", class).At(a.method)
	}
	h, err := ParseContentHeader(f.Payload)
	if err != nil {
		return 0, false, err
	}
	if h.ClassID != class {
		return 0, false, Errorf(ReplyUnexpectedFrame,
			"expected content header for class %d, got one for class %d instead", class, h.ClassID).At(a.method)
	}
	if h.BodySize > ContentBodyBytesMax {
		return 0, false, Errorf(ReplyFrameError,
			"content body size %d exceeds maximum allowed size %d", h.BodySize, ContentBodyBytesMax).At(a.method)
	}
	a.remaining = h.BodySize
	a.expect = PartBody
	if a.remaining == 0 {
		a.expect = PartMethod
	}
	return PartHeader, a.remaining == 0, nil
}

func (a *Assembler) acceptBody(f Frame) (Part, bool, error) {
	if f.Type != FrameBody {
		return 0, false, Errorf(ReplyUnexpectedFrame,
			"expected content body, got non content body frame instead").At(a.method)
	}
	n := uint64(len(f.Payload))
	if n > a.remaining {
		return 0, false, Errorf(ReplyFrameError, "content body frame exceeds remaining content size").At(a.method)
	}
	a.remaining -= n
	if a.remaining == 0 {
		a.expect = PartMethod
	}
	return PartBody, a.remaining == 0, nil
}
