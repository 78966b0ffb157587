package frame

import (
	"encoding/binary"
	"hash/crc32"
)

// OverheadBytes is what a record takes besides its body.
const OverheadBytes = 16

// MarkBytes is the length of one mark.
const MarkBytes = 20

// MarksBytes is the length of the two marks of a file.
const MarksBytes = 2 * MarkBytes

// markSeed keeps a mark from passing as any other sum.
const markSeed = 0x6d61726b

var table = crc32.MakeTable(crc32.Castagnoli)

// Sum continues a CRC-32C over data. Start with a Seed, or 0.
func Sum(crc uint32, data []byte) uint32 { return crc32.Update(crc, table, data) }

// Seed is the start of the CRC of the record at an offset of a file with that salt.
func Seed(salt uint64, offsetBytes int64) uint32 {
	return (uint32(salt>>32) ^ uint32(salt)) + uint32(offsetBytes)
}

// AppendHeader appends the header of a record whose body follows.
func AppendHeader(dst []byte, seed uint32, key uint64, body []byte) []byte {
	at := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(body)))
	dst = binary.BigEndian.AppendUint64(dst, key)
	crc := Sum(Sum(seed, dst[at+4:]), body)
	binary.BigEndian.PutUint32(dst[at:], crc)
	return dst
}

// Append appends a whole record.
func Append(dst []byte, seed uint32, key uint64, body []byte) []byte {
	return append(AppendHeader(dst, seed, key, body), body...)
}

// Header is the head of a record. Nothing in it may be trusted before the CRC was compared.
type Header struct {
	// CRC is the sum that the record claims.
	CRC uint32
	// BodyBytes is the length of the body that follows.
	BodyBytes uint32
	// Key is the record's key (sequence number or log index).
	Key uint64
}

// ParseHeader reads the first OverheadBytes of src.
func ParseHeader(src []byte) Header {
	return Header{
		CRC:       binary.BigEndian.Uint32(src),
		BodyBytes: binary.BigEndian.Uint32(src[4:]),
		Key:       binary.BigEndian.Uint64(src[8:]),
	}
}

// HeaderSum is the CRC over the header of a record, to be continued over its body.
func HeaderSum(seed uint32, header []byte) uint32 { return Sum(seed, header[4:OverheadBytes]) }

// Valid says whether src is exactly one undamaged record.
func Valid(src []byte, seed uint32) bool {
	if len(src) < OverheadBytes {
		return false
	}
	h := ParseHeader(src)
	return uint64(h.BodyBytes) == uint64(len(src)-OverheadBytes) && (Sum(seed, src[4:]) == h.CRC || plantedBlind)
}

// Mark says up to where a file is known to be durable.
type Mark struct {
	// SyncedBytes is the length of the file's durable beginning; 0 means that nothing is known.
	SyncedBytes int64
	// Last is the key of the last record in it.
	Last uint64
}

// Append appends the mark's bytes.
func (m Mark) Append(dst []byte) []byte {
	at := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.SyncedBytes))
	dst = binary.BigEndian.AppendUint64(dst, m.Last)
	return binary.BigEndian.AppendUint32(dst, Sum(markSeed, dst[at:]))
}

// ParseMarks returns the newest valid mark among the two in src and which of them to overwrite next. A mark that is not valid was never written or
// was torn; without a valid one the zero Mark is returned.
func ParseMarks(src []byte) (newest Mark, next int) {
	for i := range 2 {
		m := src[i*MarkBytes : (i+1)*MarkBytes]
		if Sum(markSeed, m[:16]) != binary.BigEndian.Uint32(m[16:]) {
			continue
		}
		synced := int64(binary.BigEndian.Uint64(m))
		if synced > newest.SyncedBytes {
			newest = Mark{SyncedBytes: synced, Last: binary.BigEndian.Uint64(m[8:])}
			next = 1 - i
		}
	}
	return newest, next
}
