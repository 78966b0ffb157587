package wal

import (
	"errors"
	"syscall"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/storage"
)

// run is a piece of a batch that stands in one file.
type run struct {
	file     *logFile
	off      int64
	chunk    *chunk
	from, to int
}

// flush writes and syncs the batch that collects and takes it into the index. With mark, a marker is written if the end of the log is not known to be
// durable to who reads the files. writing is held.
func (l *Log) flush(mark bool) error {
	l.mu.Lock()
	b := l.batch
	err := l.failed
	if mark && err == nil && len(b.parts) == 0 && l.unmarked && mutant != mutantMarkerForgotten {
		rec := l.reserve(recordHeaderBytes)
		putRecordHeader(rec, kindMarker, 0, Group{}, 0)
	}
	if err == nil && len(b.parts) == 0 {
		b.written = b.led
		if b.led {
			l.batch = newBatch()
		}
		l.mu.Unlock()
		b.finish(nil)
		return nil
	}
	l.batch = newBatch()
	l.mu.Unlock()
	if err == nil {
		err = l.writeOut(b)
	}
	l.mu.Lock()
	b.written, b.err = true, err
	for _, p := range b.parts {
		p.chunk.pending--
	}
	l.tail.evict(0)
	l.mu.Unlock()
	b.finish(err)
	return err
}

// writeOut writes and syncs a batch and takes it into the index. writing is held.
func (l *Log) writeOut(b *batch) error {
	err := l.write(b)
	if errors.Is(err, ErrClosed) { // while it waited for space
		l.mu.Lock()
		l.failed = err
		l.mu.Unlock()
		return err
	}
	if err != nil {
		return l.fail(err)
	}
	l.mu.Lock()
	err = l.taken(b)
	l.mu.Unlock()
	if err != nil {
		return l.fail(err)
	}
	return nil
}

// finish wakes those that wait for the batch. No one joins it any more.
func (b *batch) finish(err error) {
	if b.done != nil {
		b.err = err
		close(b.done)
	}
}

// taken puts a written batch into the index; mu and writing are held.
func (l *Log) taken(b *batch) error {
	for i := range l.runs {
		r := &l.runs[i]
		r.chunk.wrote(r.file, r.off, r.from, r.to)
		for at := r.from; at < r.to; {
			rec := r.chunk.buf[at:r.to]
			n := recordBytes(bodyBytesOf(rec))
			if err := l.apply(rec[:n], r.file, r.off+int64(at-r.from)); err != nil {
				return err
			}
			at += int(n)
		}
	}
	l.flushes++
	l.unmarked = b.led
	if b.led {
		l.arm()
	}
	if len(l.files) > 1 && l.files[0].live == 0 || l.spares.wanted() {
		l.kick()
	}
	return nil
}

// write gives each record of the batch its place, and writes and syncs them. writing is held.
func (l *Log) write(b *batch) error {
	clear(l.runs)
	l.runs = l.runs[:0]
	started := time.Now()
	for _, p := range b.parts {
		for at := p.from; at < p.to; {
			n := recordBytes(bodyBytesOf(p.chunk.buf[at:p.to]))
			if f := l.active; f == nil || f.end+n+recordHeaderBytes > f.size { // the last place is for a marker
				if err := l.rotate(n); err != nil {
					return err
				}
			}
			f := l.active
			if last := len(l.runs) - 1; last < 0 || l.runs[last].file != f || l.runs[last].chunk != p.chunk || l.runs[last].to != at {
				l.runs = append(l.runs, run{file: f, off: f.end, chunk: p.chunk, from: at, to: at})
			}
			rec := p.chunk.buf[at : at+int(n)]
			synced := f.synced
			if mutant == mutantClaimsTooMuch {
				synced = f.end + n
			}
			f.last = seal(rec[:recordHeaderBytes+bodyBytesOf(rec)], f.nonce, f.end, synced, f.last)
			f.end += n
			at += int(n)
			l.runs[len(l.runs)-1].to = at
		}
	}
	if err := l.writeRuns(); err != nil {
		return err
	}
	took := time.Since(started)
	l.mu.Lock()
	l.stats.LongestSync = max(l.stats.LongestSync, took)
	l.mu.Unlock()
	return nil
}

// writeRuns writes what was given a place in the active file, and syncs that. writing is held.
func (l *Log) writeRuns() error {
	f := l.active
	bytes := 0
	for _, r := range l.runs {
		if r.file != f {
			continue // written when its file was left
		}
		if err := l.writeAt(f.file, r.chunk.buf[r.from:r.to], r.off); err != nil {
			return err
		}
		bytes += r.to - r.from
	}
	if mutant != mutantSyncSkipped {
		if err := f.file.Sync(); err != nil {
			return err
		}
	}
	f.synced = f.end
	l.mu.Lock()
	l.stats.Syncs++
	l.stats.Bytes += uint64(bytes)
	l.mu.Unlock()
	return nil
}

// rotate goes on to a new file, which has room for a record of n bytes. What has a place in the file before becomes durable first. writing is held.
func (l *Log) rotate(n int64) error {
	if f := l.active; f != nil && f.synced < f.end && mutant != mutantRotatesUnsynced {
		if err := l.writeRuns(); err != nil {
			return err
		}
	}
	f := &logFile{nonce: l.bounds.nonce(), size: max(l.bounds.fileBytes, recordsAt+n+recordHeaderBytes)}
	h := fileHeader{incarnation: l.opts.Incarnation, nonce: f.nonce}
	l.mu.Lock()
	f.number, l.next = l.next, l.next+1
	if len(l.files) > 0 {
		before := l.files[len(l.files)-1]
		h.prevEnd, h.prevCRC = before.end, before.last
	}
	l.mu.Unlock()
	var spare spare
	err := l.withSpace(func() (err error) {
		spare, f.filled, err = l.takeSpare(f.size)
		return err
	})
	if err != nil {
		return err
	}
	h.number = f.number
	f.name, f.file = fileName(l.dir, f.number, fileSuffix), spare.file
	// The file gets its name when its header is durable: a file of the log whose header cannot be read is damaged.
	var head [recordsAt]byte
	h.append(head[:0])
	if err := l.writeAt(f.file, head[:], 0); err != nil {
		return err
	}
	if mutant != mutantHeaderUnsynced {
		if err := f.file.Sync(); err != nil {
			return err
		}
	}
	if err := l.withSpace(func() error { return l.fsys.Rename(spare.name, f.name) }); err != nil {
		return err
	}
	if mutant != mutantNamesUnsynced {
		if err := l.fsys.SyncDir(l.dir); err != nil {
			return err
		}
	}
	f.end, f.synced, f.last = recordsAt, recordsAt, h.crc
	l.mu.Lock()
	l.files = append(l.files, f)
	l.active = f
	l.kick()
	l.mu.Unlock()
	return nil
}

// takeSpare returns a file that was made ahead (filled), or else a new one.
func (l *Log) takeSpare(size int64) (s spare, filled bool, err error) {
	l.mu.Lock()
	s, filled = l.spares.take(size)
	if !filled {
		s.name = l.spares.name(l.dir)
	}
	l.mu.Unlock()
	if !filled {
		s.file, err = l.fsys.Create(s.name)
	}
	return s, filled, err
}

// writeAt writes where nothing is yet that anybody relies on.
func (l *Log) writeAt(f storage.File, src []byte, off int64) error {
	return l.withSpace(func() error {
		_, err := f.WriteAt(src, off)
		return err
	})
}

// withSpace does op again and again while the disk is full: that is no failed disk, and commits wait. What op does must not depend on how far it came before. No sync is tried twice.
func (l *Log) withSpace(op func() error) error {
	for {
		err := op()
		if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
			return err
		}
		l.mu.Lock()
		l.stats.Full++
		l.mu.Unlock()
		if l.opts.Full != nil {
			l.opts.Full()
		}
		select {
		case <-l.stop:
			return ErrClosed
		case <-time.After(limits.WALFullRetryMillis * time.Millisecond):
		}
	}
}

// arm sets the timer that writes the marker; mu is held.
func (l *Log) arm() {
	if l.armed || l.closed {
		return
	}
	l.armed, l.seen = true, l.flushes
	if l.bounds.inline {
		return // the test ticks
	}
	l.timer.Reset(limits.WALMarkerMillis * time.Millisecond / 2)
}

// tick writes what nobody waits for, or a marker, if the log has been idle since the timer was set.
func (l *Log) tick() {
	l.mu.Lock()
	l.armed = false
	if l.closed || l.failed != nil {
		l.mu.Unlock()
		return
	}
	if l.flushes != l.seen {
		l.arm()
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if !closed {
		_ = l.flush(true) // an error is final and told to the owner
	}
}
