// Package codec appends and reads the deterministic binary form of commands, snapshots and files: big-endian fixed integers, unsigned
// varints and length-prefixed byte strings.
//
// It is a pure leaf. Equal values give equal bytes. A Reader never panics on bad input: it remembers the first error and returns zero values after it.
package codec

import (
	"encoding/binary"
	"errors"
)

// ErrTruncated says that the input ends before the value does.
var ErrTruncated = errors.New("codec: input is truncated")

// ErrMalformed says that the input cannot be the encoding of a value (varint overflow, impossible flag, length past a limit).
var ErrMalformed = errors.New("codec: input is malformed")

// AppendUint8 appends one octet.
func AppendUint8(dst []byte, v uint8) []byte { return append(dst, v) }

// AppendUint16 appends a big-endian 16-bit integer.
func AppendUint16(dst []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(dst, v) }

// AppendUint32 appends a big-endian 32-bit integer.
func AppendUint32(dst []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(dst, v) }

// AppendUint64 appends a big-endian 64-bit integer.
func AppendUint64(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

// AppendUvarint appends an unsigned varint (at most 10 octets).
func AppendUvarint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

// AppendBool appends one octet, 0 or 1.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// AppendBytes appends a varint length and the bytes.
func AppendBytes(dst, v []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(v)))
	return append(dst, v...)
}

// AppendString appends a varint length and the bytes of a string.
func AppendString(dst []byte, v string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(v)))
	return append(dst, v...)
}

// Reader reads values off a byte slice from the front. The zero Reader is at the end of nothing.
type Reader struct {
	buf []byte
	err error
}

// NewReader reads from src, which must not change while values returned by Bytes are in use.
func NewReader(src []byte) Reader { return Reader{buf: src} }

// Err returns the first error met, nil if there was none.
func (r *Reader) Err() error { return r.err }

// Len returns how many bytes are left.
func (r *Reader) Len() int { return len(r.buf) }

// Rest returns what is left without consuming it.
func (r *Reader) Rest() []byte { return r.buf }

// Fail records err as the reader's error unless it has one.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.buf = nil
}

func (r *Reader) take(n int) []byte {
	if r.err != nil || n > len(r.buf) {
		r.Fail(ErrTruncated)
		return nil
	}
	b := r.buf[:n:n]
	r.buf = r.buf[n:]
	return b
}

// Uint8 reads one octet.
func (r *Reader) Uint8() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint16 reads a big-endian 16-bit integer.
func (r *Reader) Uint16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

// Uint32 reads a big-endian 32-bit integer.
func (r *Reader) Uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// Uint64 reads a big-endian 64-bit integer.
func (r *Reader) Uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Uvarint reads an unsigned varint.
func (r *Reader) Uvarint() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.buf)
	switch {
	case n > 0:
		r.buf = r.buf[n:]
		return v
	case n == 0:
		r.Fail(ErrTruncated)
	default:
		r.Fail(ErrMalformed)
	}
	return 0
}

// Bool reads one octet that must be 0 or 1.
func (r *Reader) Bool() bool {
	switch r.Uint8() {
	case 0:
		return false
	case 1:
		return r.err == nil
	}
	r.Fail(ErrMalformed)
	return false
}

// Bytes reads a length-prefixed byte string. The result aliases the input.
func (r *Reader) Bytes() []byte {
	n := r.Uvarint()
	if n > uint64(len(r.buf)) {
		r.Fail(ErrTruncated)
		return nil
	}
	return r.take(int(n))
}

// String reads a length-prefixed string (a copy).
func (r *Reader) String() string { return string(r.Bytes()) }

// Count reads a varint element count and refuses one that cannot fit in what is left, given that an element takes at least minBytes (>= 1).
// It keeps a malformed length from allocating more than the input's size.
func (r *Reader) Count(minBytes int) int {
	n := r.Uvarint()
	if n > uint64(len(r.buf)/minBytes) {
		r.Fail(ErrTruncated)
		return 0
	}
	return int(n)
}
