package quorum

import (
	"errors"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/storage"
)

// rested is what a node knows of a queue whose replica it has stopped because nobody uses the queue (park.go). It stands in the queue's folder, in the file restedName, for as long as that is true: while
// the file is there, the replica's log ends where its checkpoint does. Who starts the replica removes the file first. Without the file, or with a damaged one, the replica starts with the node.
type rested struct {
	// index is where log and checkpoint end, term the last leader's.
	index, term uint64
	leader      meta.NodeID // who led last
	counts      queue.Counts
	// nextDelayed is when the first delayed message is due, due when the machine wants a command by the configuration of configVersion, in milliseconds since the Unix epoch; 0: never.
	nextDelayed, due int64
	configVersion    uint64
	// since is from when on the queue counts as unused.
	since     int64
	diskBytes int64
}

const (
	restedName     = "parked"
	restedVersion  = 1
	restedBytesMax = 4 << 10
)

func (r *rested) append(dst []byte) []byte {
	dst = codec.AppendUint8(dst, restedVersion)
	for _, n := range []uint64{r.index, r.term, uint64(r.leader), uint64(r.nextDelayed), uint64(r.due), r.configVersion, uint64(r.since), uint64(r.diskBytes), uint64(r.counts.NextSeq)} {
		dst = codec.AppendUvarint(dst, n)
	}
	numbers := r.counts.Numbers()
	dst = codec.AppendUvarint(dst, uint64(len(numbers)))
	for _, n := range numbers {
		dst = codec.AppendUvarint(dst, *n)
	}
	return codec.AppendUint32(dst, crc32.ChecksumIEEE(dst))
}

// readRested reads what append wrote; what a later version counts beside is left out.
func readRested(name string, src []byte) (*rested, error) {
	corrupt := &storage.CorruptError{File: name, OffsetBytes: -1, Reason: "the file does not match its checksum"}
	if len(src) < 5 {
		return nil, corrupt
	}
	body := src[:len(src)-4]
	sum := codec.NewReader(src[len(body):])
	if sum.Uint32() != crc32.ChecksumIEEE(body) {
		return nil, corrupt
	}
	in := codec.NewReader(body)
	if v := in.Uint8(); v != restedVersion {
		return nil, &storage.VersionError{File: name, Found: uint32(v), Supported: restedVersion}
	}
	r := &rested{
		index: in.Uvarint(), term: in.Uvarint(), leader: meta.NodeID(in.Uvarint()), nextDelayed: int64(in.Uvarint()), due: int64(in.Uvarint()), configVersion: in.Uvarint(),
		since: int64(in.Uvarint()), diskBytes: int64(in.Uvarint()),
	}
	r.counts.NextSeq = queue.Seq(in.Uvarint())
	numbers := r.counts.Numbers()
	for i := range in.Count(1) {
		if n := in.Uvarint(); i < len(numbers) {
			*numbers[i] = n
		}
	}
	return r, in.Err()
}

// write makes it durable that a queue rests.
func (r *rested) write(fsys storage.FS, dir string) error {
	return storage.WriteFile(fsys, filepath.Join(dir, restedName), r.append(nil))
}

// loadRested reads what a queue's folder says; nil without an error if the queue does not rest.
func loadRested(fsys storage.FS, dir string) (*rested, error) {
	name := filepath.Join(dir, restedName)
	src, err := storage.ReadFile(fsys, name, restedBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return readRested(name, src)
}

// removeRested makes it durable that a queue does not rest: its log is about to go on.
func removeRested(fsys storage.FS, dir string) error {
	err := fsys.Remove(filepath.Join(dir, restedName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return storage.Fatal(fsys.SyncDir(dir))
}

// messages is how many the queue has.
func (r *rested) messages() uint64 { return r.counts.Ready + r.counts.Delayed }

// wakesAt tells when the queue must run again though nobody wants it, by its present configuration, in milliseconds since the Unix epoch; 0: not by itself.
func (r *rested) wakesAt(cfg *queue.Config) int64 {
	at := r.due
	if cfg.Version > r.configVersion && r.messages() > 0 {
		for _, l := range []queue.Limit{cfg.MessageTTL, cfg.MaxLength, cfg.MaxLengthBytes} {
			if _, ok := l.Get(); ok {
				return 1 // some may have to go, which the machine finds out
			}
		}
	}
	if n, ok := cfg.Expires.Get(); ok && !(cfg.ExpiresIfEmpty && r.messages() > 0) {
		if expires := r.since + int64(min(n, 1<<40)); at == 0 || expires < at {
			at = expires
		}
	}
	return at
}

// status tells how a queue is that rests.
func (r *rested) status(st *QueueStatus) {
	st.Leader, st.Term, st.Applied, st.Checkpoint = r.leader, r.term, r.index, r.index
	st.Counts, st.NextDelayedMillis, st.DiskBytes = r.counts, r.nextDelayed, r.diskBytes
}
