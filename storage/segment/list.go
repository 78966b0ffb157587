package segment

import (
	"encoding/binary"
	"path/filepath"
	"strings"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/internal/frame"
)

// Beside a sealed segment file stands the list of its records, so that nobody has to read the file to know what is in it:
//
//	NNNNNNNN.lst  "WRNSEGL\n" | version u32 | number u32 | salt u64 | end u64 | spans | crc u32
//
// Number and salt are those of the segment file, end is its length; the spans (see spanList) have no jumps and reach from its header to its end. A list is never synced and may be missing: what does not fit the file, or its
// own checksum, is ignored, and the file is read instead.
const (
	listMagic       = "WRNSEGL\n"
	listSuffix      = ".lst"
	listVersion     = 1
	listHeaderBytes = len(listMagic) + 4 + 4 + 8 + 8
	listCRCBytes    = 4
	// listBytesMax bounds what is read of a list: a control of three octets, skips and a length for each record of the longest file, and much more than lists have.
	listBytesMax = SegmentBytesMax
)

func (seg *segmentFile) listName(dir string) string {
	return filepath.Join(dir, strings.TrimSuffix(filepath.Base(seg.name), fileSuffix)+listSuffix)
}

func (seg *segmentFile) appendListHeader(dst []byte, end int64) []byte {
	dst = append(dst, listMagic...)
	dst = binary.BigEndian.AppendUint32(dst, listVersion)
	dst = binary.BigEndian.AppendUint32(dst, seg.number)
	dst = binary.BigEndian.AppendUint64(dst, seg.salt)
	return binary.BigEndian.AppendUint64(dst, uint64(end))
}

// writeList writes the list of a file that was just sealed, and forgets it. A failure only costs the next start the time to read the file.
func (seg *segmentFile) writeList(fsys storage.FS, dir string) {
	seg.list.flush()
	data := append(seg.appendListHeader(nil, seg.end), seg.list.dst...)
	data = binary.BigEndian.AppendUint32(data, frame.Sum(0, data))
	seg.list = spanList{}
	file, err := fsys.Create(seg.listName(dir))
	if err != nil {
		return
	}
	seg.listed = true
	_, _ = file.WriteAt(data, 0)
	_ = file.Close()
}

// readList reads the list of a file of so many bytes into seg.list and tells whether it is whole and belongs to it.
func (seg *segmentFile) readList(fsys storage.FS, dir string, sizeBytes int64) bool {
	file, err := fsys.Open(seg.listName(dir))
	if err != nil {
		return false
	}
	seg.listed = true
	defer file.Close()
	size, err := file.Size()
	if err != nil || size < int64(listHeaderBytes+listCRCBytes) || size > listBytesMax {
		return false
	}
	data := make([]byte, size)
	if storage.ReadFull(file, data, 0) != nil {
		return false
	}
	body := data[:size-listCRCBytes]
	if string(body[:listHeaderBytes]) != string(seg.appendListHeader(nil, sizeBytes)) || frame.Sum(0, body) != binary.BigEndian.Uint32(data[len(body):]) {
		return false
	}
	seg.list.dst = body[listHeaderBytes:]
	end, whole := int64(headerBytes), true
	rest := seg.eachSpan(func(x span) {
		whole = whole && x.number == seg.number && int64(x.offset) == end && x.n <= uint64(sizeBytes)
		if whole {
			end += int64(x.n) * x.bytes()
			seg.lastSeq = x.seq + x.n - 1
		}
	})
	return whole && !rest && end == sizeBytes
}

// eachSpan calls visit for the spans of the list and tells whether something else follows them.
func (seg *segmentFile) eachSpan(visit func(x span)) (rest bool) {
	r := spanReader{src: seg.list.dst, span: span{place: place{number: seg.number, offset: uint32(headerBytes)}}}
	for r.next() {
		visit(r.span)
	}
	return r.bad
}
