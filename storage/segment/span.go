package segment

import (
	"encoding/binary"

	"github.com/warrenmq/warren/storage/internal/frame"
)

// place says where a record is.
type place struct {
	number    uint32 // of the segment file
	offset    uint32 // of the record in it
	bodyBytes uint32
}

// bytes is what the record takes on disk.
func (p place) bytes() int64 { return frame.OverheadBytes + int64(p.bodyBytes) }

// span is n records from seq on, of equal length, that lie one behind the other in a file.
type span struct {
	seq uint64
	n   uint64
	place
}

// at returns the place of record i.
func (s *span) at(i uint64) place {
	p := s.place
	p.offset += uint32(i * uint64(p.bytes()))
	return p
}

// extends tells whether s goes on with x.
func (s *span) extends(x *span) bool {
	return s.n > 0 && x.seq == s.seq+s.n && x.bodyBytes == s.bodyBytes && x.number == s.number && uint64(x.offset) == uint64(s.offset)+s.n*uint64(s.bytes())
}

// A list of spans tells of each what differs from the one before:
//
//	control   uvarint: records << 3 | spanJumps | spanBytes | spanSkips
//	skips     zigzag varint, from the seq behind the span before
//	bytes     uvarint, the length of each body
//	file      uvarint, and offset uvarint, unless the records lie behind those of the span before
const (
	spanSkips = 1
	spanBytes = 2
	spanJumps = 4

	spanCountShift = 3
)

// spanList makes a list. The zero value begins one whose first span jumps.
type spanList struct {
	dst     []byte
	written span // the last one in dst
	open    span // may still grow; none if n is 0
}

func (l *spanList) add(x span) {
	if l.open.extends(&x) {
		l.open.n += x.n
		return
	}
	l.flush()
	l.open = x
}

// flush appends the span that is open.
func (l *spanList) flush() {
	x, last := &l.open, &l.written
	if x.n == 0 {
		return
	}
	control := x.n << spanCountShift
	skips := x.seq - (last.seq + last.n)
	if skips != 0 {
		control |= spanSkips
	}
	if x.bodyBytes != last.bodyBytes {
		control |= spanBytes
	}
	if x.number != last.number || x.offset != last.at(last.n).offset {
		control |= spanJumps
	}
	l.dst = binary.AppendUvarint(l.dst, control)
	if control&spanSkips != 0 {
		l.dst = binary.AppendVarint(l.dst, int64(skips))
	}
	if control&spanBytes != 0 {
		l.dst = binary.AppendUvarint(l.dst, uint64(x.bodyBytes))
	}
	if control&spanJumps != 0 {
		l.dst = binary.AppendUvarint(l.dst, uint64(x.number))
		l.dst = binary.AppendUvarint(l.dst, uint64(x.offset))
	}
	l.written, l.open = *x, span{}
}

// spanReader reads a list.
type spanReader struct {
	src []byte
	span
	bad bool // what follows is no span
}

func (r *spanReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.src)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.src = r.src[n:]
	return v
}

// next reads one more span; false at the end, or if there is no span.
func (r *spanReader) next() bool {
	if len(r.src) == 0 || r.bad {
		return false
	}
	s := &r.span
	control := r.uvarint()
	s.offset = s.at(s.n).offset
	s.seq += s.n
	s.n = control >> spanCountShift
	if control&spanSkips != 0 {
		v, n := binary.Varint(r.src)
		if n <= 0 {
			r.bad = true
			return false
		}
		r.src = r.src[n:]
		s.seq += uint64(v)
	}
	if control&spanBytes != 0 {
		s.bodyBytes = r.uint32()
	}
	if control&spanJumps != 0 {
		s.number, s.offset = r.uint32(), r.uint32()
	}
	r.bad = r.bad || s.n == 0
	return !r.bad
}

func (r *spanReader) uint32() uint32 {
	v := r.uvarint()
	r.bad = r.bad || v > 1<<32-1
	return uint32(v)
}
