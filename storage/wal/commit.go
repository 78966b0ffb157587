package wal

import (
	"encoding/binary"
	"fmt"

	"github.com/warrenmq/warren/config/limits"
)

// batch is what one write and one sync make durable. It is guarded by Log.mu until it is taken to be written, then by Log.writing.
type batch struct {
	parts   []part // in the order of the log
	one     [1]part
	led     bool // someone waits for it and will write it
	written bool
	err     error
	done    chan struct{} // closed when written; nil if only the leader waits
}

// part is a piece of a chunk that has whole records.
type part struct {
	chunk    *chunk
	from, to int
}

// Commit makes all updates durable. Those of concurrent callers share one write and one sync. An error is final: nobody knows what of it is durable.
func (l *Log) Commit(updates []Update) error {
	for i := range updates {
		if err := updates[i].check(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	if err := l.usable(); err != nil {
		l.mu.Unlock()
		return err
	}
	empty := true
	for i := range updates {
		if u := &updates[i]; u.Bootstrap != nil || u.bodyBytes() > 0 {
			l.put(kindUpdate, u.Bootstrap, u)
			empty = false
		}
	}
	if empty {
		l.mu.Unlock()
		return nil
	}
	return l.commit()
}

// Bootstrap keeps the bootstrap record of a group. It is durable when Bootstrap returns.
func (l *Log) Bootstrap(g Group, data []byte) error {
	l.mu.Lock()
	if err := l.usable(); err != nil {
		l.mu.Unlock()
		return err
	}
	if data == nil {
		data = []byte{}
	}
	l.put(kindUpdate, data, &Update{Group: g})
	return l.commit()
}

// Import replaces everything of a group. It is durable when Import returns.
func (l *Log) Import(g Group, bootstrap, state, snapshot []byte, snapshotIndex uint64) error {
	l.mu.Lock()
	if err := l.usable(); err != nil {
		l.mu.Unlock()
		return err
	}
	l.put(kindReset, bootstrap, &Update{Group: g, State: state, Snapshot: snapshot, SnapshotIndex: snapshotIndex})
	return l.commit()
}

// Remove removes everything of a group. It is durable when Remove returns.
func (l *Log) Remove(g Group) error { return l.Import(g, nil, nil, nil, 0) }

// TruncateTo removes the entries up to index that are there now. They cannot be read any more; a crash may bring them back, until the next Commit returns
// or the log has been idle for limits.WALMarkerMillis.
func (l *Log) TruncateTo(g Group, index uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	gr := l.groups[g]
	if gr == nil {
		return nil
	}
	if index+1 >= gr.ahead.next {
		gr.ahead.next = 0
	}
	gr.pending++
	if mutant == mutantTruncatesEarly {
		gr.truncate(index)
	}
	gr.truncations++
	gr.floor = max(gr.floor, index)
	rec := l.reserve(recordHeaderBytes + 8)
	putRecordHeader(rec, kindTruncate, 0, g, 8)
	binary.BigEndian.PutUint64(rec[recordHeaderBytes:], index)
	l.arm()
	return nil
}

// check says whether an update can be written.
func (u *Update) check() error {
	last := uint32(0)
	for _, end := range u.Ends {
		if end < last {
			return fmt.Errorf("wal: the ends of the entries from %d of %v are not in order", u.First, u.Group)
		}
		last = end
	}
	if int64(last) != int64(len(u.Entries)) || len(u.Ends) > 0 && (u.First == 0 || u.First+uint64(len(u.Ends)) < u.First) {
		return fmt.Errorf("wal: the entries from %d of %v and their ends do not fit", u.First, u.Group)
	}
	if n := u.bodyBytes() + 4 + len(u.Bootstrap); n > limits.WALRecordBytesMax {
		return fmt.Errorf("wal: an update of %v has %d bytes, the most is %d", u.Group, n, limits.WALRecordBytesMax)
	}
	return nil
}

// bodyBytes is the length of the body that put makes without a bootstrap record.
func (u *Update) bodyBytes() int {
	n := 0
	if u.State != nil {
		n += 4 + len(u.State)
	}
	if u.Snapshot != nil {
		n += 12 + len(u.Snapshot)
	}
	if len(u.Ends) > 0 {
		n += 12 + 4*len(u.Ends) + len(u.Entries)
	}
	return n
}

// put adds a record to the batch that collects; mu is held.
func (l *Log) put(kind byte, bootstrap []byte, update *Update) {
	u := *update
	g := l.groups[u.Group]
	if g == nil {
		g = &group{}
		l.groups[u.Group] = g
	}
	g.pending++
	if kind == kindReset {
		g.ahead = ahead{}
	}
	flags := byte(0)
	snapshot, apart := g.ahead.put(&u)
	if !snapshot {
		u.Snapshot = nil
	}
	if apart {
		flags = flagApart
	}
	n := u.bodyBytes()
	if bootstrap != nil {
		n += 4 + len(bootstrap)
	}
	encode(l.reserve(recordHeaderBytes+n), kind, flags, bootstrap, &u, n)
}

// encode writes the record with a body of n bytes to rec, which has that length.
func encode(rec []byte, kind, flags byte, bootstrap []byte, u *Update, n int) {
	body := rec[recordHeaderBytes:recordHeaderBytes]
	if bootstrap != nil {
		flags |= flagBootstrap
		body = appendBytes(body, bootstrap)
	}
	if u.State != nil {
		flags |= flagState
		body = appendBytes(body, u.State)
	}
	if u.Snapshot != nil {
		flags |= flagSnapshot
		body = appendBytes(binary.BigEndian.AppendUint64(body, u.SnapshotIndex), u.Snapshot)
		if u.Restored {
			flags |= flagRestored
		}
	}
	if len(u.Ends) > 0 {
		flags |= flagEntries
		body = binary.BigEndian.AppendUint64(body, u.First)
		body = binary.BigEndian.AppendUint32(body, uint32(len(u.Ends)))
		for _, end := range u.Ends {
			body = binary.BigEndian.AppendUint32(body, end)
		}
		_ = append(body, u.Entries...)
	}
	putRecordHeader(rec, kind, flags, u.Group, n)
}

// reserve returns the next n bytes of the batch that collects, and zeros what aligns the record; mu is held.
func (l *Log) reserve(n int) []byte {
	padded := (n + alignBytes - 1) &^ (alignBytes - 1)
	c := l.tail.room(padded)
	from := c.used
	c.used += padded
	clear(c.buf[from+n : from+padded])
	b := l.batch
	if last := len(b.parts) - 1; last >= 0 && b.parts[last].chunk == c && b.parts[last].to == from {
		b.parts[last].to = c.used
	} else {
		b.parts = append(b.parts, part{chunk: c, from: from, to: c.used})
		c.pending++
	}
	return c.buf[from : from+n : from+n]
}

// commit waits until the batch that collects is durable. mu is held, and no more when it returns.
func (l *Log) commit() error {
	b := l.batch
	l.stats.Commits++
	if b.led {
		if b.done == nil {
			b.done = make(chan struct{})
		}
		done := b.done
		l.mu.Unlock()
		<-done
		return b.err
	}
	b.led = true
	l.mu.Unlock()
	l.writing.Lock()
	if !b.written {
		_ = l.flush(false)
	}
	err := b.err
	l.writing.Unlock()
	if l.bounds.inline && err == nil {
		l.tidy()
	}
	return err
}

func newBatch() *batch {
	b := &batch{}
	b.parts = b.one[:0] // mostly one is enough
	return b
}
