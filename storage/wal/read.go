package wal

import (
	"cmp"
	"slices"
	"sync"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/storage"
)

// Groups returns the groups with a bootstrap record, in order.
func (l *Log) Groups() []Group {
	l.mu.Lock()
	defer l.mu.Unlock()
	var groups []Group
	for g, gr := range l.groups {
		if gr.bootstrap.file != nil {
			groups = append(groups, g)
		}
	}
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Replica, b.Replica)) })
	return groups
}

// BootstrapOf returns a copy of the group's bootstrap record.
func (l *Log) BootstrapOf(g Group) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if gr := l.groups[g]; gr != nil {
		return gr.bootstrap.get()
	}
	return nil, false
}

// StateOf returns a copy of the group's state.
func (l *Log) StateOf(g Group) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if gr := l.groups[g]; gr != nil {
		return gr.state.get()
	}
	return nil, false
}

// SnapshotOf returns a copy of the group's snapshot record and its index.
func (l *Log) SnapshotOf(g Group) ([]byte, uint64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gr := l.groups[g]
	if gr == nil {
		return nil, 0, false
	}
	data, ok := gr.snapshot.get()
	return data, gr.snapshotIndex, ok
}

// Range returns the index of the first and of the last entry of a group; ok is false if it has none.
func (l *Log) Range(g Group) (first, last uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if gr := l.groups[g]; gr != nil {
		return gr.bounds()
	}
	return 0, 0, false
}

// Read calls f for the entries low, low+1 and so on up to high-1, until f returns false or the next entry is not there. data is valid during the call only.
// Damage of a file is a *storage.CorruptError; f has then been called for nothing of the damaged record.
func (l *Log) Read(g Group, low, high uint64, f func(index uint64, data []byte) bool) error {
	for low < high {
		next, err := l.readSpan(g, low, high, f)
		if err != nil || next == low {
			return err
		}
		low = next
	}
	return nil
}

// readSpan reads the entries from low on that are in one record. It returns the index that comes next: high if f wants no more, low if the entry is not there.
func (l *Log) readSpan(g Group, low, high uint64, f func(index uint64, data []byte) bool) (uint64, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return low, ErrClosed
	}
	gr := l.groups[g]
	if gr == nil {
		l.mu.Unlock()
		return low, nil
	}
	first, last, ok := gr.bounds()
	if !ok || low < first || low > last {
		l.mu.Unlock()
		return low, nil
	}
	s := gr.spans[gr.find(low)]
	if mem, c := l.tail.find(s.file, s.off); c != nil {
		l.mu.Unlock()
		defer func() {
			l.mu.Lock()
			l.tail.release(c)
			l.mu.Unlock()
		}()
		return s.visit(mem[:s.bytes], low, high, f)
	}
	s.file.refs++
	l.mu.Unlock()
	defer l.release(s.file)
	buf := readBuffers.Get().(*[]byte)
	defer putReadBuffer(buf)
	*buf = slices.Grow((*buf)[:0], int(s.bytes))[:s.bytes]
	if err := s.read(*buf, g); err != nil {
		return low, err
	}
	return s.visit(*buf, low, high, f)
}

// read fills buf with the record of the span and verifies it.
func (s *span) read(buf []byte, g Group) error {
	if err := storage.ReadFull(s.file.file, buf, s.off); err != nil {
		return err
	}
	h, ok := intact(buf, s.file.nonce, s.off)
	if (!ok || h.group != g || recordBytes(int64(h.bodyBytes)) != s.bytes) && mutant != mutantReadsUnverified {
		return &storage.CorruptError{File: s.file.name, OffsetBytes: s.off, Reason: "the record does not match its checksum"}
	}
	return nil
}

// visit calls f for the entries of the record rec that belong to the span.
func (s *span) visit(rec []byte, low, high uint64, f func(index uint64, data []byte) bool) (uint64, error) {
	var c content
	if err := parseContent(rec, &c); err != nil || c.first > s.first || c.first+uint64(c.count) < s.first+s.count {
		return low, &storage.CorruptError{File: s.file.name, OffsetBytes: s.off, Reason: "the record has other entries than it had"}
	}
	for ; low < min(high, s.first+s.count); low++ {
		if !f(low, c.entry(int(low-c.first))) {
			return high, nil
		}
	}
	return low, nil
}

// release ends a reader's use of a file.
func (l *Log) release(f *logFile) {
	l.mu.Lock()
	f.refs--
	file := f.unused()
	l.mu.Unlock()
	if file != nil {
		_ = file.Close() // it was only read
	}
}

// unused returns what is to be closed if the file is no part of the log any more and nobody reads it; Log.mu is held.
func (f *logFile) unused() storage.File {
	if !f.gone || f.refs > 0 {
		return nil
	}
	file := f.file
	f.file = nil
	return file
}

// readBuffers are shared by all readers.
var readBuffers = sync.Pool{New: func() any { return new([]byte) }}

func putReadBuffer(buf *[]byte) {
	if cap(*buf) <= limits.WALFillBytes {
		readBuffers.Put(buf)
	}
}
