package wal

import (
	"errors"
	"os"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/storage"
)

// spare is a file that waits to become part of the log.
type spare struct {
	name string
	file storage.File
	size int64
}

// spares are the files made ahead. Log.mu guards them.
type spares struct {
	files   []spare
	next    uint64    // no spare's name has this number or a higher one
	retry   time.Time // after a failure: not before
	failure error
}

// name returns a name that no spare had.
func (s *spares) name(dir string) string {
	s.next++
	return fileName(dir, s.next-1, spareSuffix)
}

// take returns a spare of that length.
func (s *spares) take(size int64) (spare, bool) {
	for i := len(s.files) - 1; i >= 0; i-- {
		if sp := s.files[i]; sp.size == size {
			s.files = append(s.files[:i], s.files[i+1:]...)
			return sp, true
		}
	}
	return spare{}, false
}

// wanted says whether a spare is to be made again after a failure.
func (s *spares) wanted() bool {
	return s.failure != nil && len(s.files) == 0 && !time.Now().Before(s.retry)
}

// kick has the log tidied up; mu is held, or nobody else knows the log.
func (l *Log) kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// tidyInBackground makes old files free and new ones ahead whenever it is asked to.
func (l *Log) tidyInBackground() {
	defer l.background.Done()
	for {
		select {
		case <-l.stop:
			return
		case <-l.wake:
			l.tidy()
		}
	}
}

// tidy makes old files free and new ones ahead.
func (l *Log) tidy() {
	l.tidying.Lock()
	defer l.tidying.Unlock()
	for l.usableNow() && (l.freeOldest() || l.copyOldest()) {
	}
	if l.usableNow() {
		l.makeSpare()
	}
}

func (l *Log) usableNow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.usable() == nil
}

// freeOldest takes the oldest file out of the log if nothing in it is needed. It says whether it did.
func (l *Log) freeOldest() bool {
	l.mu.Lock()
	if len(l.files) < 2 || l.files[0].live > 0 && (mutant != mutantFreesEarly || l.files[0].live > 2) {
		l.mu.Unlock()
		return false
	}
	f := l.files[0]
	held := int64(len(l.spares.files)) * l.bounds.fileBytes
	for _, other := range l.files {
		held += other.size
	}
	keep := f.filled && f.refs == 0 && f.size == l.bounds.fileBytes && held <= l.bounds.filesBytes
	s := spare{size: f.size}
	if keep {
		s.name = l.spares.name(l.dir)
	}
	l.mu.Unlock()
	var err error
	if keep {
		err = l.fsys.Rename(f.name, s.name)
	} else {
		err = l.fsys.Remove(f.name)
	}
	if err != nil {
		return false // it stays part of the log until the next try
	}
	// The name must be gone before the next file's is, else a crash could leave a gap, and before the content is written over.
	if err := l.fsys.SyncDir(l.dir); err != nil {
		_ = l.fail(err)
		return false
	}
	l.mu.Lock()
	l.files = append(l.files[:0:0], l.files[1:]...)
	var unused storage.File
	if keep {
		s.file = f.file
		l.spares.files = append(l.spares.files, s)
	} else {
		f.gone = true
		unused = f.unused()
	}
	l.mu.Unlock()
	if unused != nil {
		_ = unused.Close() // nothing in it is needed
	}
	return true
}

// makeSpare makes a file ahead if there is none. A disk that refuses is asked again later: only a rotation that finds no spare needs space at once.
func (l *Log) makeSpare() {
	l.mu.Lock()
	need := len(l.spares.files) == 0 && !time.Now().Before(l.spares.retry)
	s := spare{size: l.bounds.fileBytes}
	if need {
		s.name = l.spares.name(l.dir)
	}
	l.mu.Unlock()
	if !need {
		return
	}
	err := l.fill(&s)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.spares.files = append(l.spares.files, s)
		l.spares.failure, l.stats.NoSpare = nil, ""
		return
	}
	if !errors.Is(err, ErrClosed) {
		l.spares.failure, l.stats.NoSpare = err, err.Error()
		l.spares.retry = time.Now().Add(limits.WALSpareRetryMillis * time.Millisecond)
	}
}

// fill creates the file of a spare and writes zeros step by step, each of them durable, so that no commit waits long for the disk.
func (l *Log) fill(s *spare) (err error) {
	if s.file, err = l.fsys.Create(s.name); err != nil {
		return err
	}
	zeros := make([]byte, min(l.bounds.fillBytes, s.size))
	for at := int64(0); at < s.size && err == nil; at += int64(len(zeros)) {
		select {
		case <-l.stop:
			err = ErrClosed
			continue
		default:
		}
		if _, err = s.file.WriteAt(zeros[:min(int64(len(zeros)), s.size-at)], at); err == nil {
			err = s.file.Sync()
		}
	}
	if err != nil {
		return errors.Join(err, s.file.Close(), l.fsys.Remove(s.name))
	}
	return nil
}

// findSpares takes over the spares of the process before and removes those that are not whole.
func (l *Log) findSpares(names []string) error {
	l.spares.next = 1
	for _, n := range numbersOf(names, spareSuffix) {
		l.spares.next = n + 1
		s := spare{name: fileName(l.dir, n, spareSuffix)}
		info, err := l.fsys.Stat(s.name)
		if err != nil {
			return err
		}
		held := int64(len(l.spares.files)+len(l.files)) * l.bounds.fileBytes
		if info.SizeBytes != l.bounds.fileBytes || held+l.bounds.fileBytes > l.bounds.filesBytes {
			if err := l.fsys.Remove(s.name); err != nil {
				return err
			}
			continue
		}
		if s.file, err = l.fsys.OpenFile(s.name, os.O_RDWR); err != nil {
			return err
		}
		s.size = info.SizeBytes
		l.spares.files = append(l.spares.files, s)
	}
	return nil
}
