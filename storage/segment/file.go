package segment

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/internal/frame"
)

// formatVersion is the version of the file format that this package writes, and the highest that it reads.
const formatVersion = 1

const (
	magic       = "WRNSEGM\n"
	fileSuffix  = ".seg"
	headerCRCAt = len(magic) + 4 + 4 + 8
	marksAt     = headerCRCAt + 4
	headerBytes = marksAt + frame.MarksBytes
)

// segmentFile is one file of the store. Store.mu guards it, except where noted.
type segmentFile struct {
	number uint32
	name   string
	salt   uint64

	end       int64 // where the next record goes; everything behind it is garbage
	nextMark  int   // which of the two marks to overwrite
	lastSeq   uint64
	records   int   // that the index points at
	liveBytes int64 // of them, with overhead

	list   spanList // all records of the active file, in the order of the file; empty once it is sealed
	listed bool     // there is a file with the list

	file storage.File // nil while closed
	refs int          // readers that use file
	used uint64       // when file was used last, to close the one idle longest
	gone bool         // removed from the folder: close when refs is 0
}

func newSegmentFile(dir string, number uint32) *segmentFile {
	seg := &segmentFile{number: number, name: fileName(dir, number)}
	seg.list.written.place = place{number: number, offset: uint32(headerBytes)}
	return seg
}

func fileName(dir string, number uint32) string {
	return filepath.Join(dir, fmt.Sprintf("%08x", number)+fileSuffix)
}

// parseName returns the number in the name of a segment file.
func parseName(name string) (uint32, bool) {
	digits, ok := strings.CutSuffix(name, fileSuffix)
	if !ok || len(digits) != 8 || strings.ToLower(digits) != digits {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 32)
	return uint32(n), err == nil
}

// appendFileHeader appends the header of a file that nothing of is known to be durable.
func appendFileHeader(dst []byte, number uint32, salt uint64) []byte {
	at := len(dst)
	dst = append(dst, magic...)
	dst = binary.BigEndian.AppendUint32(dst, formatVersion)
	dst = binary.BigEndian.AppendUint32(dst, number)
	dst = binary.BigEndian.AppendUint64(dst, salt)
	dst = binary.BigEndian.AppendUint32(dst, frame.Sum(0, dst[at:]))
	return append(dst, make([]byte, frame.MarksBytes)...)
}

// fileHeader is what the head of a segment file says.
type fileHeader struct {
	intact  bool // else only mark means something
	version uint32
	number  uint32
	salt    uint64
	mark    frame.Mark
	next    int
}

// parseFileHeader reads a header; src may be shorter than one.
func parseFileHeader(src []byte) fileHeader {
	full := make([]byte, headerBytes)
	copy(full, src)
	var h fileHeader
	h.mark, h.next = frame.ParseMarks(full[marksAt:])
	h.intact = len(src) >= headerBytes && string(full[:len(magic)]) == magic &&
		frame.Sum(0, full[:headerCRCAt]) == binary.BigEndian.Uint32(full[headerCRCAt:])
	h.version = binary.BigEndian.Uint32(full[len(magic):])
	h.number = binary.BigEndian.Uint32(full[len(magic)+4:])
	h.salt = binary.BigEndian.Uint64(full[len(magic)+8:])
	return h
}

// newSalt draws the salt of a new file.
func newSalt() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: the runtime ends the process instead
	return binary.BigEndian.Uint64(b[:])
}
