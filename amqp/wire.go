package amqp

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/warrenmq/warren/config/limits"
)

// ShortstrBytesMax is the length that a short string has at most; names, keys and reply texts are short strings.
const ShortstrBytesMax = limits.ShortStringBytesMax

// explainBytesMax is how many octets of a bad method a text shows; the reply text is cut at 255 bytes, so more could not be seen.
const explainBytesMax = 128

// fault is what a decoder found wrong first.
type fault uint8

const (
	faultNone fault = iota
	faultMethod
	faultBounds
	faultText
	faultTable
)

// decoder reads the fields of a method off its payload. After the first fault it returns zero values.
type decoder struct {
	buf   []byte
	fault fault
	err   error
}

// startMethod begins with the fields of a method whose id must be the wanted one.
func startMethod(payload []byte, want MethodID) decoder {
	if len(payload) < methodIDBytes || MethodIDOf(payload) != want {
		return decoder{fault: faultMethod}
	}
	return decoder{buf: payload[methodIDBytes:]}
}

// finish reports the first fault. Octets behind the last field are one: RabbitMQ refuses them, too.
func (d *decoder) finish(payload []byte) error {
	if d.fault == faultNone && len(d.buf) == 0 {
		return nil
	}
	return d.explain(payload)
}

// explain is apart from finish so that the good case stays small.
func (d *decoder) explain(payload []byte) error {
	id := MethodIDOf(payload)
	switch d.fault {
	case faultMethod:
		return unimplemented(payload)
	case faultText:
		return Errorf(ReplyFrameError, "Malformed UTF-8 in shortstr")
	case faultTable:
		if e, ok := d.err.(*Error); ok {
			return e.At(id)
		}
		return d.err
	}
	fields := payload[methodIDBytes:]
	if id.carriesSecret() {
		return Errorf(ReplyFrameError, "cannot decode %d octets", len(fields)).At(id)
	}
	return Errorf(ReplyFrameError, "cannot decode %s", erlangBinary(fields[:min(len(fields), explainBytesMax)], false)).At(id)
}

func (d *decoder) fail(f fault) {
	if d.fault == faultNone {
		d.fault = f
	}
	d.buf = nil
}

func (d *decoder) octet() uint8 {
	if len(d.buf) < 1 {
		d.fail(faultBounds)
		return 0
	}
	v := d.buf[0]
	d.buf = d.buf[1:]
	return v
}

func (d *decoder) short() uint16 {
	if len(d.buf) < 2 {
		d.fail(faultBounds)
		return 0
	}
	v := binary.BigEndian.Uint16(d.buf)
	d.buf = d.buf[2:]
	return v
}

func (d *decoder) long() uint32 {
	if len(d.buf) < 4 {
		d.fail(faultBounds)
		return 0
	}
	v := binary.BigEndian.Uint32(d.buf)
	d.buf = d.buf[4:]
	return v
}

func (d *decoder) longlong() uint64 {
	if len(d.buf) < 8 {
		d.fail(faultBounds)
		return 0
	}
	v := binary.BigEndian.Uint64(d.buf)
	d.buf = d.buf[8:]
	return v
}

// shortstr returns bytes that alias the input. They are valid UTF-8, for RabbitMQ refuses others.
func (d *decoder) shortstr() []byte {
	s := d.shortbytes()
	if !utf8.Valid(s) {
		d.fail(faultText)
		return nil
	}
	return s
}

// shortbytes returns the bytes of a short string that need not be text, as routing keys. They alias the input.
func (d *decoder) shortbytes() []byte {
	if len(d.buf) < 1 || len(d.buf) <= int(d.buf[0]) {
		d.fail(faultBounds)
		return nil
	}
	n := int(d.buf[0]) + 1
	s := d.buf[1:n:n]
	d.buf = d.buf[n:]
	return s
}

// longstr returns bytes that alias the input.
func (d *decoder) longstr() []byte {
	n := d.long()
	if uint64(n) > uint64(len(d.buf)) {
		d.fail(faultBounds)
		return nil
	}
	s := d.buf[:n:n]
	d.buf = d.buf[n:]
	return s
}

func (d *decoder) table() Table {
	raw := d.longstr()
	if len(raw) == 0 {
		return nil
	}
	t, err := DecodeTable(raw)
	if err != nil {
		d.err = err
		d.fail(faultTable)
		return nil
	}
	return t
}

func appendShort(dst []byte, v uint16) []byte    { return binary.BigEndian.AppendUint16(dst, v) }
func appendLong(dst []byte, v uint32) []byte     { return binary.BigEndian.AppendUint32(dst, v) }
func appendLonglong(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

func appendTimestamp(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

// appendShortstr cuts what does not fit: names are checked where they enter, so only texts written for people can be too long.
func appendShortstr[S ~string | ~[]byte](dst []byte, s S) []byte {
	if len(s) > ShortstrBytesMax {
		return appendCutShortstr(dst, string(s))
	}
	dst = append(dst, uint8(len(s)))
	return append(dst, s...)
}

func appendCutShortstr(dst []byte, s string) []byte {
	s = cutString(s, ShortstrBytesMax)
	dst = append(dst, uint8(len(s)))
	return append(dst, s...)
}

func appendLongstr(dst []byte, s string) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}

func appendTable(dst []byte, t Table) []byte { return t.Append(dst) }
