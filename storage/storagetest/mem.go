package storagetest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"

	"github.com/warrenmq/warren/storage"
)

// Mem is the file system. It implements storage.FS and storage.Locker and may be used concurrently.
type Mem struct {
	mu         sync.Mutex
	root       *node
	generation int // of handles; a crash begins a new one
	fault      func(Op) error
	ops        int
}

var (
	_ storage.FS     = (*Mem)(nil)
	_ storage.Locker = (*Mem)(nil)
)

// lockPID is the process id that a lock held in memory reports.
const lockPID = 4711

// node is a file or a directory. The volatile half is what the process sees, the durable half what a crash leaves.
type node struct {
	dir     bool
	entries map[string]*node
	durable map[string]*node
	moves   []move // changes of entries that are not durable

	data    []byte
	synced  []byte
	changes []change // of data that are not synced

	locked bool
}

// move is one change of a directory: the name in gone vanished (if not empty), the name in name now stands for to (if not empty). It survives whole.
type move struct {
	gone, name string
	to         *node
}

// change is one change of a file: data written at offset, or, if truncate is set, the size set to offset.
type change struct {
	offset   int64
	data     []byte
	truncate bool
}

// New returns an empty file system.
func New() *Mem { return &Mem{root: newDir()} }

func newDir() *node {
	return &node{dir: true, entries: map[string]*node{}, durable: map[string]*node{}}
}

func split(name string) []string {
	clean := strings.TrimPrefix(filepath.ToSlash(filepath.Clean(name)), "/")
	if clean == "." || clean == "" {
		return nil
	}
	return strings.Split(clean, "/")
}

func pathError(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// find returns the node of name; m.mu is held.
func (m *Mem) find(name string) (*node, error) {
	at := m.root
	for _, part := range split(name) {
		if !at.dir {
			return nil, fs.ErrNotExist
		}
		next, ok := at.entries[part]
		if !ok {
			return nil, fs.ErrNotExist
		}
		at = next
	}
	return at, nil
}

// parent returns the directory that name is in and its last part; m.mu is held.
func (m *Mem) parent(name string) (*node, string, error) {
	parts := split(name)
	if len(parts) == 0 {
		return nil, "", fs.ErrInvalid
	}
	dir, err := m.find(strings.Join(parts[:len(parts)-1], "/"))
	if err == nil && !dir.dir {
		err = fs.ErrNotExist
	}
	return dir, parts[len(parts)-1], err
}

func (n *node) move(mv move) {
	mv.apply(n.entries)
	n.moves = append(n.moves, mv)
}

func (mv move) apply(entries map[string]*node) {
	if mv.gone != "" {
		delete(entries, mv.gone)
	}
	if mv.name != "" {
		entries[mv.name] = mv.to
	}
}

// OpenFile opens a file; os.O_APPEND is refused.
func (m *Mem) OpenFile(name string, flag int) (storage.File, error) {
	if err := m.begin(Op{Kind: OpOpen, Name: name}); err != nil {
		return nil, pathError("open", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil || flag&os.O_APPEND != 0 {
		return nil, pathError("open", name, errors.Join(err, onlyIf(flag&os.O_APPEND != 0, errors.ErrUnsupported)))
	}
	n, ok := dir.entries[base]
	switch {
	case !ok && flag&os.O_CREATE == 0:
		return nil, pathError("open", name, fs.ErrNotExist)
	case ok && flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, pathError("open", name, fs.ErrExist)
	case ok && n.dir:
		return nil, pathError("open", name, fs.ErrInvalid)
	case !ok:
		n = &node{}
		dir.move(move{name: base, to: n})
	case flag&os.O_TRUNC != 0:
		n.change(change{truncate: true})
	}
	return &file{m: m, n: n, name: name, generation: m.generation, writable: flag&(os.O_WRONLY|os.O_RDWR) != 0}, nil
}

func onlyIf(cond bool, err error) error {
	if cond {
		return err
	}
	return nil
}

// Create opens an empty file for reading and writing.
func (m *Mem) Create(name string) (storage.File, error) {
	return m.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

// Open opens a file for reading.
func (m *Mem) Open(name string) (storage.File, error) { return m.OpenFile(name, os.O_RDONLY) }

// Rename moves a file or directory in one step.
func (m *Mem) Rename(oldName, newName string) error {
	if err := m.begin(Op{Kind: OpRename, Name: newName}); err != nil {
		return pathError("rename", newName, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	from, oldBase, err := m.parent(oldName)
	if err != nil {
		return pathError("rename", oldName, err)
	}
	n, ok := from.entries[oldBase]
	if !ok {
		return pathError("rename", oldName, fs.ErrNotExist)
	}
	to, newBase, err := m.parent(newName)
	if err != nil {
		return pathError("rename", newName, err)
	}
	if from == to {
		from.move(move{gone: oldBase, name: newBase, to: n})
		return nil
	}
	to.move(move{name: newBase, to: n})
	from.move(move{gone: oldBase})
	return nil
}

// Remove deletes a file or an empty directory.
func (m *Mem) Remove(name string) error {
	if err := m.begin(Op{Kind: OpRemove, Name: name}); err != nil {
		return pathError("remove", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil {
		return pathError("remove", name, err)
	}
	n, ok := dir.entries[base]
	if !ok {
		return pathError("remove", name, fs.ErrNotExist)
	}
	if n.dir && len(n.entries) > 0 {
		return pathError("remove", name, errors.New("directory not empty"))
	}
	dir.move(move{gone: base})
	return nil
}

// MkdirAll makes the missing directories of a path.
func (m *Mem) MkdirAll(dir string) error {
	if err := m.begin(Op{Kind: OpMkdir, Name: dir}); err != nil {
		return pathError("mkdir", dir, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.root
	for _, part := range split(dir) {
		next, ok := at.entries[part]
		if !ok {
			next = newDir()
			at.move(move{name: part, to: next})
		}
		if !next.dir {
			return pathError("mkdir", dir, fs.ErrExist)
		}
		at = next
	}
	return nil
}

// List returns the sorted names in a directory.
func (m *Mem) List(dir string) ([]string, error) {
	if err := m.begin(Op{Kind: OpList, Name: dir}); err != nil {
		return nil, pathError("list", dir, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findDir(dir)
	if err != nil {
		return nil, pathError("list", dir, err)
	}
	return sortedNames(n.entries), nil
}

func (m *Mem) findDir(name string) (*node, error) {
	n, err := m.find(name)
	if err == nil && !n.dir {
		err = fs.ErrInvalid
	}
	return n, err
}

func sortedNames(entries map[string]*node) []string {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Stat describes a file or directory.
func (m *Mem) Stat(name string) (storage.Info, error) {
	if err := m.begin(Op{Kind: OpStat, Name: name}); err != nil {
		return storage.Info{}, pathError("stat", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err != nil {
		return storage.Info{}, pathError("stat", name, err)
	}
	return storage.Info{SizeBytes: int64(len(n.data)), IsDir: n.dir}, nil
}

// SyncDir makes the names in a directory durable.
func (m *Mem) SyncDir(dir string) error {
	if err := m.begin(Op{Kind: OpSyncDir, Name: dir}); err != nil {
		return pathError("syncdir", dir, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findDir(dir)
	if err != nil {
		return pathError("syncdir", dir, err)
	}
	for _, mv := range n.moves {
		mv.apply(n.durable)
	}
	n.moves = nil
	return nil
}

// lock is a held lock.
type lock struct {
	m          *Mem
	n          *node
	generation int
}

// Lock takes a lock that lasts until Close or a crash.
func (m *Mem) Lock(name string) (io.Closer, error) {
	f, err := m.OpenFile(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := f.(*file).n
	if n.locked {
		return nil, &storage.LockedError{File: name, PID: lockPID}
	}
	n.locked = true
	return &lock{m: m, n: n, generation: m.generation}, nil
}

// Close gives the lock back.
func (l *lock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.generation == l.m.generation {
		l.n.locked = false
	}
	return nil
}
