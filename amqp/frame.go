package amqp

import "encoding/binary"

// Sizes of frames and contents.
const (
	// FrameOverheadBytes is what a frame has around its payload: type, channel, length, end octet.
	FrameOverheadBytes = frameHeaderBytes + 1
	// ContentBodyBytesMax is the largest body that a content header may announce, whatever a broker is configured to take.
	ContentBodyBytesMax = 512 << 20

	frameHeaderBytes   = 7
	contentHeaderBytes = 12
	protocolBytes      = 8
)

// Frame is one frame as it was read.
//
//	| type 1 | channel 2 | length 4 | payload | end 1 |
type Frame struct {
	// Type is FrameMethod, FrameHeader, FrameBody or FrameHeartbeat.
	Type uint8
	// Channel is 0 for the connection itself.
	Channel uint16
	// Payload aliases the reader's buffer; see Reader for how long it is good.
	Payload []byte
}

// Method returns the id of the method that a method frame carries, 0 for other frames.
func (f Frame) Method() MethodID {
	if f.Type != FrameMethod {
		return 0
	}
	return MethodIDOf(f.Payload)
}

// check refuses frames that cannot be taken apart, so that nobody behind the reader has to look at lengths again.
func (f Frame) check() error {
	switch f.Type {
	case FrameMethod:
		if len(f.Payload) >= methodIDBytes {
			return nil
		}
	case FrameHeader:
		if len(f.Payload) >= contentHeaderBytes {
			return nil
		}
	case FrameBody:
		return nil
	case FrameHeartbeat:
		if len(f.Payload) != 0 {
			break
		}
		if f.Channel != 0 {
			return UnexpectedFrame(f)
		}
		return nil
	}
	return frameError(f.Type, f.Payload, "unknown_frame")
}

// ProtocolHeader is what a client sends first, and what a server answers to anything else before it closes.
const ProtocolHeader = "AMQP\x00\x00\x09\x01"

// protocolHeaderOld is how 0-9 clients ask for the same protocol.
const protocolHeaderOld = "AMQP\x01\x01\x00\x09"

// ContentHeader is the payload of a header frame.
type ContentHeader struct {
	// ClassID is the class of the method before it; only ClassBasic has contents.
	ClassID uint16
	// BodySize is the number of bytes that follow in body frames.
	BodySize uint64
	// Properties are the flags and values as they came; see ScanProperties. They alias the payload.
	Properties []byte
}

// ParseContentHeader takes the payload of a header frame apart. A payload that is too short or has a weight other than 0 is 501.
func ParseContentHeader(payload []byte) (ContentHeader, error) {
	if len(payload) < contentHeaderBytes {
		return ContentHeader{}, frameError(FrameHeader, payload, "unknown_frame")
	}
	if weight := binary.BigEndian.Uint16(payload[2:]); weight != 0 {
		return ContentHeader{}, Errorf(ReplyFrameError, "content header has weight %d", weight)
	}
	return ContentHeader{
		ClassID:    binary.BigEndian.Uint16(payload),
		BodySize:   binary.BigEndian.Uint64(payload[4:]),
		Properties: payload[contentHeaderBytes:],
	}, nil
}
