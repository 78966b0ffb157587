package wal

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/storage"
)

// ErrClosed says that the log was closed.
var ErrClosed = errors.New("wal: the log is closed")

// IncarnationError says that a log belongs to another life of the node's storage.
type IncarnationError struct {
	// File is the path of the file that says so.
	File string
	// Found is the incarnation in it, Want the one that the log was opened with.
	Found, Want uint64
}

// Error names the file and both incarnations.
func (e *IncarnationError) Error() string {
	return fmt.Sprintf("%s is of storage incarnation %d, this node's is %d", e.File, e.Found, e.Want)
}

// Group is one replica of a Raft group.
type Group struct {
	// Shard is the group, Replica the member.
	Shard, Replica uint64
}

// Options say where and how a log is kept.
type Options struct {
	// FS is the file system.
	FS storage.FS
	// Dir is the directory, which the log has for itself. It is made if it is missing.
	Dir string
	// Incarnation is that of the node's storage: files with another one are refused with an *IncarnationError.
	Incarnation uint64
	// FileBytes is the length of a file; 0 stands for limits.WALFileBytes.
	FileBytes int64
	// NeedCheckpoint is told of groups that keep an old file from going, and of the last entry that each has in it: each should take a checkpoint and truncate up to there. It must not block nor
	// call the log; it may be told the same again. nil is allowed.
	NeedCheckpoint func(g Group, index uint64)
	// Damaged, unless it is nil, is told while Open runs of the replicas of which something was lost to damage, when that is sure to be all. When it returns nil the log forgets all that it has of them, for good, and goes on with
	// the others; the caller must have noted durably that these replicas are never started again. Its error is Open's. The files of the log are as they were found, and may be copied.
	Damaged func([]Lost) error
	// Full is told, again and again, that a write waits for space on a full disk. It must not block nor call the log. nil is allowed.
	Full func()
	// Fatal is told once that a write or a sync failed: the process must stop. It must not call the log. nil is allowed.
	Fatal func(error)
}

// Lost is a replica that lost records to damage.
type Lost struct {
	Group
	// Err is a *storage.CorruptError with the first place.
	Err error
}

// bounds are the sizes of a log; tests have small ones.
type bounds struct {
	fileBytes, filesBytes, pinnedBytes int64
	copyBytes, tailBytes, chunkBytes   int
	fillBytes                          int64
	// inline: what is done in the background is done by the committer instead, so that a test repeats itself.
	inline bool
	nonce  func() uint64
}

func boundsOf(o Options) bounds {
	b := bounds{
		fileBytes: o.FileBytes, filesBytes: limits.WALFilesBytes, pinnedBytes: limits.WALPinnedBytes, copyBytes: limits.WALCopyBytes,
		tailBytes: limits.WALTailBytes, chunkBytes: limits.WALChunkBytes, fillBytes: limits.WALFillBytes, nonce: newNonce,
	}
	if b.fileBytes == 0 {
		b.fileBytes = limits.WALFileBytes
	}
	b.fileBytes = max(b.fileBytes, 4096)
	// Smaller files are for tests: then all is as much smaller.
	b.filesBytes = min(b.filesBytes, b.fileBytes*(limits.WALFilesBytes/limits.WALFileBytes))
	b.pinnedBytes = min(b.pinnedBytes, b.fileBytes*(limits.WALPinnedBytes/limits.WALFileBytes))
	return b
}

// logFile is one file of the log. The fields below refs are guarded by Log.mu, end, synced and last by Log.writing (and constant once the file is not the last one).
type logFile struct {
	number uint64
	name   string
	nonce  uint64
	file   storage.File
	size   int64 // what it may hold
	filled bool  // it has that length: what is written replaces what is there

	end    int64  // where the next record goes
	synced int64  // known to be durable up to here
	last   uint32 // CRC of the last record, or of the header

	refs int  // readers that use file
	live int  // places of the index in this file
	gone bool // no part of the log any more: close it when refs is 0
}

// turn is a lock that may be held while a disk stands still. It is a channel so that those who wait for it count as waiting in virtual time.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// Lock waits until nobody has it.
func (t turn) Lock() { t <- struct{}{} }

// Unlock gives it back.
func (t turn) Unlock() { <-t }

// Log is the write-ahead log of a node. All methods may be called concurrently.
type Log struct {
	fsys   storage.FS
	dir    string
	opts   Options
	bounds bounds

	// writing is the right to write the end of the log. Who has it finds all that was written before in the index. It is taken before mu.
	writing turn
	runs    []run // of the batch being written (guarded by writing)

	mu     sync.Mutex
	failed error // nothing is written any more
	closed bool
	groups map[Group]*group
	files  []*logFile // ascending by number, the last one is written if open is set
	// active is the file that is written, nil if the next batch begins one (guarded by writing; set under mu, too).
	active *logFile
	next   uint64 // number of the next file
	batch  *batch // collects
	tail   tail
	spares spares
	stats  Stats

	// The marker of an idle log, guarded by mu.
	timer    *time.Timer
	armed    bool
	flushes  uint64 // batches so far
	seen     uint64 // flushes when the timer was set
	unmarked bool   // a confirmed batch is not yet known to be durable to who reads the files

	wake       chan struct{} // capacity 1: there is something to tidy up
	stop       chan struct{}
	background sync.WaitGroup
	tidying    turn // one goroutine at a time tidies up
}

// Update is what one group adds in one step: it is there after a crash as a whole or not at all. The log keeps no reference to the slices.
type Update struct {
	// Group is the replica.
	Group Group
	// Bootstrap replaces the group's bootstrap record; nil leaves it.
	Bootstrap []byte
	// State replaces the group's state; nil leaves it.
	State []byte
	// Snapshot replaces the group's snapshot record, unless that has a higher index; nil leaves it.
	Snapshot []byte
	// SnapshotIndex is the index of Snapshot.
	SnapshotIndex uint64
	// Restored says that Snapshot takes the place of all entries that were there before this update (it was received, not taken). It counts if the snapshot does.
	Restored bool
	// First is the index of the first entry, at least 1. Entries from First on that were there before go; if it lies beyond the last one + 1, all go.
	First uint64
	// Ends has for each entry where it ends in Entries; empty if there are none. Entry First+i is Entries[Ends[i-1]:Ends[i]].
	Ends []uint32
	// Entries are the entries' bytes, one behind the other.
	Entries []byte
}

// Stats are figures of a log.
type Stats struct {
	// Syncs counts syncs of the log's end, Commits those that asked for one, Bytes what was written, all since Open.
	Syncs, Commits, Bytes uint64
	// LongestSync is the longest time that writing and syncing one batch took since the last call of Stats.
	LongestSync time.Duration
	// Files is how many files are part of the log, FilesBytes their length; Spares is how many wait to become that.
	Files, Spares int
	FilesBytes    int64
	// CopiedBytes is what was copied to make old files free.
	CopiedBytes uint64
	// Full counts how often a write found the disk full and was tried again.
	Full uint64
	// NoSpare is why no file could be made ahead, empty if one is there or being made.
	NoSpare string
}

// BytesPerSync is the mean of what one sync made durable.
func (s Stats) BytesPerSync() float64 {
	if s.Syncs == 0 {
		return 0
	}
	return float64(s.Bytes) / float64(s.Syncs)
}

// Stats returns the figures.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	l.stats.LongestSync = 0
	s.Files, s.Spares, s.FilesBytes = len(l.files), len(l.spares.files), 0
	for _, f := range l.files {
		s.FilesBytes += f.size
	}
	return s
}

// usable says why the log cannot be used; mu is held.
func (l *Log) usable() error {
	if l.failed != nil {
		return l.failed
	}
	if l.closed {
		return ErrClosed
	}
	return nil
}

// fail makes err final and tells the owner. It returns what calls answer from now on.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	if l.failed != nil {
		defer l.mu.Unlock()
		return l.failed
	}
	l.failed = storage.Fatal(err)
	failed := l.failed
	l.mu.Unlock()
	if l.opts.Fatal != nil && mutant != mutantFatalUntold {
		l.opts.Fatal(failed)
	}
	return failed
}

// Close makes durable what was given to the log, marks its end and gives the files back. Calls that come later answer ErrClosed.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	l.closed = true
	l.timer.Stop()
	close(l.stop)
	l.mu.Unlock()
	l.background.Wait()
	l.tidying.Lock()
	defer l.tidying.Unlock()
	l.writing.Lock()
	defer l.writing.Unlock()
	return errors.Join(l.flush(false), l.flush(true), l.closeFiles())
}

// closeFiles gives all files back that no reader uses; a reader closes the others.
func (l *Log) closeFiles() error {
	var idle []storage.File
	l.mu.Lock()
	for _, f := range l.files {
		f.gone = true
		if f.refs == 0 && f.file != nil {
			idle = append(idle, f.file)
			f.file = nil
		}
	}
	for _, s := range l.spares.files {
		idle = append(idle, s.file)
	}
	l.spares.files = nil
	l.mu.Unlock()
	var errs []error
	for _, file := range idle {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
