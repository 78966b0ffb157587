package amqp

import "encoding/binary"

// beginFrame appends a frame header with a length to be filled in by endFrame, which gets at, the index of the payload.
func beginFrame(dst []byte, typ uint8, channel uint16) (out []byte, at int) {
	dst = append(dst, typ, byte(channel>>8), byte(channel), 0, 0, 0, 0)
	return dst, len(dst)
}

func endFrame(dst []byte, at int) []byte {
	binary.BigEndian.PutUint32(dst[at-lengthBytes:], uint32(len(dst)-at))
	return append(dst, FrameEnd)
}

// AppendMethodFrame appends a method frame. Where the method's type is known, its own AppendFrame does the same without an interface.
func AppendMethodFrame(dst []byte, channel uint16, m Method) []byte {
	return m.AppendFrame(dst, channel)
}

// AppendHeaderFrame appends a content header frame; properties are flags and values as ScanProperties reads and Properties.Append writes
// them. Empty properties stand for no property.
func AppendHeaderFrame(dst []byte, channel, classID uint16, bodySize uint64, properties []byte) []byte {
	dst, at := beginFrame(dst, FrameHeader, channel)
	dst = append(dst, byte(classID>>8), byte(classID), 0, 0)
	dst = appendLonglong(dst, bodySize)
	if len(properties) == 0 {
		dst = append(dst, 0, 0)
	}
	return endFrame(append(dst, properties...), at)
}

// AppendBodyFrames appends the body, split into frames of at most frameMax bytes including the overhead; an empty body takes no frame.
// frameMax 0 means that there is no limit.
func AppendBodyFrames(dst []byte, channel uint16, body []byte, frameMax uint32) []byte {
	part := bodyPartBytes(frameMax, len(body))
	for len(body) > 0 {
		n := min(part, len(body))
		dst = AppendBodyFrameStart(dst, channel, n)
		dst = append(dst, body[:n]...)
		dst = append(dst, FrameEnd)
		body = body[n:]
	}
	return dst
}

// AppendBodyFrameStart appends what stands before a body frame's payload of n bytes. The payload and the octet FrameEnd must follow; a caller
// that writes with writev sends the payload from where it is.
func AppendBodyFrameStart(dst []byte, channel uint16, n int) []byte {
	return append(dst, FrameBody, byte(channel>>8), byte(channel), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// BodyFramesBytes returns how many bytes AppendBodyFrames appends.
func BodyFramesBytes(bodyBytes int, frameMax uint32) int {
	if bodyBytes == 0 {
		return 0
	}
	part := bodyPartBytes(frameMax, bodyBytes)
	return bodyBytes + (bodyBytes+part-1)/part*FrameOverheadBytes
}

// bodyPartBytes is how much of a body one frame takes.
func bodyPartBytes(frameMax uint32, bodyBytes int) int {
	if frameMax == 0 {
		return max(bodyBytes, 1)
	}
	return max(int(frameMax)-FrameOverheadBytes, 1)
}

// AppendHeartbeat appends a heartbeat frame.
func AppendHeartbeat(dst []byte) []byte {
	return append(dst, FrameHeartbeat, 0, 0, 0, 0, 0, 0, FrameEnd)
}
