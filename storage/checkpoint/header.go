package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/internal/frame"
)

// formatVersion is the version of the file format that this package writes, and the highest that it reads.
const formatVersion = 1

const (
	magic       = "WRNCKPT\n"
	fileSuffix  = ".ckpt"
	headerCRCAt = len(magic) + 4 + 8 + 8 + 8 + 4 + 8
	marksAt     = headerCRCAt + 4
	headerBytes = marksAt + frame.MarksBytes
)

// Header is what can be known of a checkpoint without reading the snapshot.
type Header struct {
	// ShardID is the Raft group that the machine belongs to.
	ShardID uint64
	// Index is the log index of the last entry that the snapshot contains.
	Index uint64
	// SnapshotBytes is the length of the snapshot.
	SnapshotBytes int64
	// SyncedIndex is the index of the last entry, in snapshot or tail, that is known to be durable. After a crash the tail may go further.
	SyncedIndex uint64

	snapshotCRC uint32
	salt        uint64
	mark        frame.Mark
	nextMark    int
}

func (h *Header) append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, magic...)
	dst = binary.BigEndian.AppendUint32(dst, formatVersion)
	dst = binary.BigEndian.AppendUint64(dst, h.ShardID)
	dst = binary.BigEndian.AppendUint64(dst, h.Index)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.SnapshotBytes))
	dst = binary.BigEndian.AppendUint32(dst, h.snapshotCRC)
	dst = binary.BigEndian.AppendUint64(dst, h.salt)
	dst = binary.BigEndian.AppendUint32(dst, frame.Sum(0, dst[at:]))
	dst = h.mark.Append(dst)
	return append(dst, make([]byte, frame.MarkBytes)...)
}

// parseHeader reads and checks the first headerBytes of the file name, which has sizeBytes.
func parseHeader(name string, src []byte, sizeBytes int64) (Header, error) {
	var h Header
	if len(src) < headerBytes || string(src[:len(magic)]) != magic ||
		frame.Sum(0, src[:headerCRCAt]) != binary.BigEndian.Uint32(src[headerCRCAt:]) {
		return h, &storage.CorruptError{File: name, OffsetBytes: 0, Reason: "the file header does not match its checksum"}
	}
	at := src[len(magic):]
	if v := binary.BigEndian.Uint32(at); v != formatVersion {
		return h, &storage.VersionError{File: name, Found: v, Supported: formatVersion}
	}
	h.ShardID = binary.BigEndian.Uint64(at[4:])
	h.Index = binary.BigEndian.Uint64(at[12:])
	h.SnapshotBytes = int64(binary.BigEndian.Uint64(at[20:]))
	h.snapshotCRC = binary.BigEndian.Uint32(at[28:])
	h.salt = binary.BigEndian.Uint64(at[32:])
	h.mark, h.nextMark = frame.ParseMarks(src[marksAt:])
	h.SyncedIndex = max(h.Index, h.mark.Last)
	switch {
	case filepath.Base(name) != baseName(h.Index):
		return h, &storage.CorruptError{File: name, OffsetBytes: 0, Reason: "the file header names another file"}
	case h.SnapshotBytes < 0 || h.SnapshotBytes > sizeBytes-int64(headerBytes) || h.mark.SyncedBytes > sizeBytes:
		return h, &storage.CorruptError{File: name, OffsetBytes: sizeBytes, Reason: "the file is shorter than it was when it was synced"}
	}
	return h, nil
}

func baseName(index uint64) string { return fmt.Sprintf("%016x", index) + fileSuffix }

func parseName(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, fileSuffix)
	if !ok || len(digits) != 16 || strings.ToLower(digits) != digits {
		return 0, false
	}
	index, err := strconv.ParseUint(digits, 16, 64)
	return index, err == nil
}

// list returns the indexes of the checkpoints in dir in ascending order. A missing folder has none.
func list(fsys storage.FS, dir string) ([]uint64, error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []uint64
	for _, name := range names { // in ascending order, and so are the fixed-width numbers in them
		if index, ok := parseName(name); ok {
			found = append(found, index)
		}
	}
	return found, nil
}

// newest returns the path of the checkpoint with the highest index in dir, ok false if there is none.
func newest(fsys storage.FS, dir string) (name string, ok bool, err error) {
	found, err := list(fsys, dir)
	if err != nil || len(found) == 0 {
		return "", false, err
	}
	return filepath.Join(dir, baseName(found[len(found)-1])), true, nil
}

// ReadHeader returns the header of the newest checkpoint in dir without reading the rest of it; ok is false if there is no checkpoint.
func ReadHeader(fsys storage.FS, dir string) (h Header, ok bool, err error) {
	name, ok, err := newest(fsys, dir)
	if err != nil || !ok {
		return Header{}, false, err
	}
	f, err := fsys.Open(name)
	if err != nil {
		return Header{}, false, err
	}
	size, err := f.Size()
	if err == nil {
		src := make([]byte, min(size, int64(headerBytes)))
		if err = storage.ReadFull(f, src, 0); err == nil {
			h, err = parseHeader(name, src, size)
		}
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return Header{}, false, err
	}
	return h, true, nil
}
