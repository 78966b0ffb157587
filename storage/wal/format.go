package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/storage/internal/frame"
)

// formatVersion is the version of the file format that this package writes, and the highest that it reads. Since version 2 a record says by a sum of its own whose it is, so that damage of the rest hides that no more.
const (
	formatVersion = 2
	versionNamed  = 2 // has those sums
)

const (
	magic       = "WRNWLOG\n"
	fileSuffix  = ".wal"
	spareSuffix = ".free"
	nameDigits  = 16

	headerBytes = 56
	// recordsAt is where records start: the sector of the header is not written again.
	recordsAt         = 512
	recordHeaderBytes = 48
	// alignBytes is what offsets of records are multiples of.
	alignBytes = 8
)

// Kinds of records. They stand in files.
const (
	kindMarker   = 1 // no body: what was before it is durable
	kindUpdate   = 2 // what one group adds
	kindCopy     = 3 // what one group still needs of a file that is to go
	kindReset    = 4 // what the group had before is gone; then as kindUpdate
	kindTruncate = 5 // body: entries up to this index are gone
)

// Flags of a record of kind update, copy or reset: what its body has, in this order. They stand in files.
const (
	flagBootstrap = 1 << 0 // bytes u32 | data
	flagState     = 1 << 1 // bytes u32 | data
	flagSnapshot  = 1 << 2 // index u64 | bytes u32 | data
	flagEntries   = 1 << 3 // first u64 | count u32 | where each ends in data, u32 each | data
	flagRestored  = 1 << 4 // nothing: the snapshot takes the place of all entries before
	flagApart     = 1 << 5 // nothing: the entries do not follow those before, which are gone
	flagsKnown    = flagBootstrap | flagState | flagSnapshot | flagEntries | flagRestored | flagApart
)

// fileHeader is the beginning of a file.
type fileHeader struct {
	version     uint32
	incarnation uint64
	number      uint64
	nonce       uint64
	prevEnd     int64  // where the file before ended
	prevCRC     uint32 // of its last record, or of its header if it has none
	crc         uint32
}

func (h *fileHeader) append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, magic...)
	dst = binary.BigEndian.AppendUint32(dst, formatVersion)
	dst = binary.BigEndian.AppendUint64(dst, h.incarnation)
	dst = binary.BigEndian.AppendUint64(dst, h.number)
	dst = binary.BigEndian.AppendUint64(dst, h.nonce)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.prevEnd))
	dst = binary.BigEndian.AppendUint32(dst, h.prevCRC)
	dst = append(dst, 0, 0, 0, 0)
	h.crc = frame.Sum(0, dst[at:])
	return binary.BigEndian.AppendUint32(dst, h.crc)
}

// parseFileHeader reads a header. It says whether the checksum holds; the version is to be judged by the caller.
func parseFileHeader(src []byte) (fileHeader, bool) {
	if len(src) < headerBytes || string(src[:len(magic)]) != magic {
		return fileHeader{}, false
	}
	h := fileHeader{
		version:     binary.BigEndian.Uint32(src[8:]),
		incarnation: binary.BigEndian.Uint64(src[12:]),
		number:      binary.BigEndian.Uint64(src[20:]),
		nonce:       binary.BigEndian.Uint64(src[28:]),
		prevEnd:     int64(binary.BigEndian.Uint64(src[36:])),
		prevCRC:     binary.BigEndian.Uint32(src[44:]),
		crc:         binary.BigEndian.Uint32(src[52:]),
	}
	return h, frame.Sum(0, src[:52]) == h.crc
}

// newNonce draws the number that tells the records of this life of a file from those of all others.
func newNonce() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: the runtime ends the process instead
	return binary.BigEndian.Uint64(b[:])
}

func fileName(dir string, number uint64, suffix string) string {
	return filepath.Join(dir, fmt.Sprintf("%0*x", nameDigits, number)+suffix)
}

// IsLogFile tells whether a file of a log's directory with that name is a part of the log.
func IsLogFile(name string) bool {
	_, ok := parseName(name, fileSuffix)
	return ok
}

// parseName returns the number in the name of a file with that suffix.
func parseName(name, suffix string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != nameDigits || strings.ToLower(digits) != digits {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	return n, err == nil
}

// recordHeader is the head of a record:
//
//	crc u32 | body bytes u32 | crc of the record before u32 | kind u8 | flags u8 | outline u16 | synced u64 | nonce u64 | shard u64 | replica u64
//
// The CRC is CRC-32C over all behind it and the body, seeded with the file's nonce and the record's offset. The body is followed by zeros up to the
// next multiple of alignBytes. The outline is a sum over length, kind, flags and group alone: of a record whose CRC does not hold it tells whose it was and where the next one begins.
type recordHeader struct {
	crc       uint32
	bodyBytes uint32
	prev      uint32
	kind      byte
	flags     byte
	synced    int64 // everything before this offset of the file was durable when the record was written
	nonce     uint64
	group     Group
}

// recordBytes is what a record with such a body takes.
func recordBytes(bodyBytes int64) int64 {
	return (recordHeaderBytes + bodyBytes + alignBytes - 1) &^ (alignBytes - 1)
}

// putRecordHeader writes what is known of a record before its place is: all but prev, synced, nonce and CRC.
func putRecordHeader(dst []byte, kind, flags byte, g Group, bodyBytes int) {
	clear(dst[:recordHeaderBytes])
	binary.BigEndian.PutUint32(dst[4:], uint32(bodyBytes))
	dst[12], dst[13] = kind, flags
	binary.BigEndian.PutUint64(dst[32:], g.Shard)
	binary.BigEndian.PutUint64(dst[40:], g.Replica)
	binary.BigEndian.PutUint16(dst[14:], outlineOf(dst))
}

// outlineOf sums up what a record's head says of its length, its kind and its group.
func outlineOf(head []byte) uint16 {
	sum := outlineSeed
	for _, part := range [...][]byte{head[4:8], head[12:14], head[32:recordHeaderBytes]} {
		for _, b := range part {
			sum = sum<<8 ^ outlineTable[byte(sum>>8)^b]
		}
	}
	return sum
}

// An outline is a CRC-16 (CCITT), which any three flipped bits change. The seed keeps zeros from passing.
const (
	outlinePolynomial uint16 = 0x1021
	outlineSeed       uint16 = 0xffff
)

var outlineTable = func() (table [256]uint16) {
	for i := range table {
		sum := uint16(i) << 8
		for range 8 {
			high := sum&0x8000 != 0
			sum <<= 1
			if high {
				sum ^= outlinePolynomial
			}
		}
		table[i] = sum
	}
	return table
}()

// outlined says whether the head of a record that is damaged elsewhere tells whose it is.
func outlined(src []byte) bool {
	return len(src) >= recordHeaderBytes && binary.BigEndian.Uint16(src[14:]) == outlineOf(src)
}

// seal completes the record rec (without the padding) for its place and returns its CRC.
func seal(rec []byte, nonce uint64, offset, synced int64, prev uint32) uint32 {
	binary.BigEndian.PutUint32(rec[8:], prev)
	binary.BigEndian.PutUint64(rec[16:], uint64(synced))
	binary.BigEndian.PutUint64(rec[24:], nonce)
	crc := frame.Sum(frame.Seed(nonce, offset), rec[4:])
	binary.BigEndian.PutUint32(rec, crc)
	return crc
}

func bodyBytesOf(src []byte) int64 { return int64(binary.BigEndian.Uint32(src[4:])) }

// parseRecordHeader reads a head; nothing in it may be trusted before the CRC was compared.
func parseRecordHeader(src []byte) recordHeader {
	return recordHeader{
		crc:       binary.BigEndian.Uint32(src),
		bodyBytes: binary.BigEndian.Uint32(src[4:]),
		prev:      binary.BigEndian.Uint32(src[8:]),
		kind:      src[12],
		flags:     src[13],
		synced:    int64(binary.BigEndian.Uint64(src[16:])),
		nonce:     binary.BigEndian.Uint64(src[24:]),
		group:     Group{Shard: binary.BigEndian.Uint64(src[32:]), Replica: binary.BigEndian.Uint64(src[40:])},
	}
}

// intact says whether the record that starts src is complete and its CRC holds.
func intact(src []byte, nonce uint64, offset int64) (recordHeader, bool) {
	if len(src) < recordHeaderBytes {
		return recordHeader{}, false
	}
	h := parseRecordHeader(src)
	if h.nonce != nonce || recordBytes(int64(h.bodyBytes)) > int64(len(src)) {
		return h, false
	}
	return h, frame.Sum(frame.Seed(nonce, offset), src[4:recordHeaderBytes+int(h.bodyBytes)]) == h.crc
}

// content is the parsed body of a record. Its slices alias the record.
type content struct {
	kind, flags   byte
	group         Group
	bootstrap     []byte
	state         []byte
	snapshot      []byte
	snapshotIndex uint64
	first         uint64
	count         int
	ends          []byte // 4 bytes for each entry
	entries       []byte
	index         uint64 // of a truncation
}

// entry returns the i-th entry.
func (c *content) entry(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = binary.BigEndian.Uint32(c.ends[4*(i-1):])
	}
	return c.entries[from:binary.BigEndian.Uint32(c.ends[4*i:])]
}

// errBody says that a record whose checksum holds is none that this version writes.
var errBody = errors.New("the record's checksum holds but its content cannot be read")

// parseContent reads a record whose CRC was verified.
func parseContent(rec []byte, c *content) error {
	h := parseRecordHeader(rec)
	*c = content{kind: h.kind, flags: h.flags, group: h.group}
	r := reader{src: rec[recordHeaderBytes : recordHeaderBytes+int(h.bodyBytes)]}
	if h.flags&^flagsKnown != 0 || h.flags != 0 && (h.kind == kindMarker || h.kind == kindTruncate) {
		return errBody
	}
	switch h.kind {
	case kindMarker:
	case kindTruncate:
		c.index = r.u64()
	case kindUpdate, kindCopy, kindReset:
		if h.flags&flagBootstrap != 0 {
			c.bootstrap = r.bytes()
		}
		if h.flags&flagState != 0 {
			c.state = r.bytes()
		}
		if h.flags&flagSnapshot != 0 {
			c.snapshotIndex = r.u64()
			c.snapshot = r.bytes()
		}
		if h.flags&flagEntries != 0 {
			r.entries(c)
		}
	default:
		return errBody
	}
	if r.bad || len(r.src) > 0 {
		return errBody
	}
	return nil
}

// reader takes values off a body.
type reader struct {
	src []byte
	bad bool
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.src)) {
		r.bad, r.src = true, nil
		return nil
	}
	taken := r.src[:n:n]
	r.src = r.src[n:]
	return taken
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) bytes() []byte { return r.take(uint64(r.u32())) }

// entries reads the rest of the body as entries and checks that their ends are in order.
func (r *reader) entries(c *content) {
	c.first = r.u64()
	count := r.u32()
	c.ends = r.take(4 * uint64(count))
	c.count, c.entries = int(count), r.src
	r.src = nil
	last := uint32(0)
	for i := 0; i < len(c.ends); i += 4 {
		end := binary.BigEndian.Uint32(c.ends[i:])
		if end < last {
			r.bad = true
		}
		last = end
	}
	if count == 0 || c.first == 0 || c.first+uint64(count) < c.first || int64(last) != int64(len(c.entries)) {
		r.bad = true
	}
}

// appendBytes appends the length of data and data.
func appendBytes(dst, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(data))), data...)
}
