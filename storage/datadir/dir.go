package datadir

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/warrenmq/warren/storage"
)

const (
	lockName     = "LOCK"
	identityName = "identity"
	bootName     = "boot"
	// lostAndFound is what the root of a fresh ext file system holds.
	lostAndFound = "lost+found"
)

// FS is a file system that can hold a data directory.
type FS interface {
	storage.FS
	storage.Locker
}

// Identity is what a data directory says of itself. It is drawn when the directory is made.
type Identity struct {
	// FormatVersion is the version of the directory's layout.
	FormatVersion uint32
	// LogStore names the kind of Raft log store in it.
	LogStore string
	// NodeID is the node, random, not 0.
	NodeID uint64
	// ClusterID is the cluster, random, not 0.
	ClusterID uint64
}

// Boot is one incarnation of a node (PROTOCOL 1): the counter strictly rises, the nonce tells two incarnations with the same counter apart that a copied
// directory could bring about.
type Boot struct {
	// Counter counts the boots of the directory from 1.
	Counter uint64
	// Nonce is random.
	Nonce uint64
}

// Dir is an open, locked data directory.
type Dir struct {
	fsys FS
	path string
	id   Identity
	lock io.Closer

	mu   sync.Mutex
	boot Boot
}

// Open locks the data directory and reads its identity, and makes both when the directory is missing or empty.
//
// Errors: *LockedError, *NotWritableError (exit code 73); *storage.CorruptError, *storage.VersionError, *LogStoreError (exit code 65). After an error
// nothing stays locked.
func Open(fsys FS, dir string) (*Dir, error) {
	if err := storage.EnsureDir(fsys, dir); err != nil {
		return nil, &NotWritableError{Dir: dir, Err: err}
	}
	lock, err := fsys.Lock(filepath.Join(dir, lockName))
	var held *storage.LockedError
	switch {
	case errors.As(err, &held):
		return nil, &LockedError{Dir: dir, PID: held.PID}
	case err != nil:
		return nil, &NotWritableError{Dir: dir, Err: err}
	}
	d := &Dir{fsys: fsys, path: dir, lock: lock}
	if err := d.load(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

// OpenDamaged locks a data directory whose identity cannot be read, for Renew. It has no identity until then.
func OpenDamaged(fsys FS, dir string) (*Dir, error) {
	lock, err := fsys.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, &NotWritableError{Dir: dir, Err: err}
	}
	return &Dir{fsys: fsys, path: dir, lock: lock}, nil
}

// NewNodeID draws an id for Renew.
func NewNodeID() uint64 { return random() }

// Renew gives the directory another identity, as if it were new: what was kept under the old one must be gone from it, but for what is safe without a log. After a crash before the end the old boots still count, so that the
// directory is known to have been used. Until Renew returned nil the old identity must not be used either.
func (d *Dir) Renew(nodeID, clusterID uint64) error {
	id := Identity{FormatVersion: FormatVersion, LogStore: LogStore, NodeID: nodeID, ClusterID: clusterID}
	if err := d.write(identityName, id.encode()); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.write(bootName, Boot{}.encode()); err != nil {
		return err
	}
	d.id, d.boot = id, Boot{}
	return nil
}

// load reads identity and boot, or makes them in a directory without content.
func (d *Dir) load() error {
	file := filepath.Join(d.path, identityName)
	data, err := storage.ReadFile(d.fsys, file, fileBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return d.create()
	}
	if err != nil {
		return d.readError(err)
	}
	if d.id, err = parseIdentity(file, data); err != nil {
		return err
	}
	file = filepath.Join(d.path, bootName)
	data, err = storage.ReadFile(d.fsys, file, fileBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return &storage.CorruptError{File: file, OffsetBytes: -1, Reason: "the file is missing, without it boots could repeat"}
	}
	if err != nil {
		return d.readError(err)
	}
	d.boot, err = parseBoot(file, data)
	return err
}

// readError tells damage from a file that could not be read.
func (d *Dir) readError(err error) error {
	var corrupt *storage.CorruptError
	if errors.As(err, &corrupt) {
		return err
	}
	return &NotWritableError{Dir: d.path, Err: err}
}

// create makes a new directory's files. The boot comes first, so that an identity is never without one.
func (d *Dir) create() error {
	names, err := d.fsys.List(d.path)
	if err != nil {
		return &NotWritableError{Dir: d.path, Err: err}
	}
	for _, name := range names {
		if name != lockName && name != bootName && name != lostAndFound && !strings.HasSuffix(name, storage.TempSuffix) {
			return &storage.CorruptError{File: filepath.Join(d.path, identityName), OffsetBytes: -1,
				Reason: "the file is missing although the directory has content (" + name + "); restore it or use an empty directory"}
		}
	}
	d.boot = Boot{}
	d.id = Identity{FormatVersion: FormatVersion, LogStore: LogStore, NodeID: random(), ClusterID: random()}
	if err := d.write(bootName, d.boot.encode()); err != nil {
		return err
	}
	return d.write(identityName, d.id.encode())
}

func (d *Dir) write(name string, data []byte) error {
	if err := storage.WriteFile(d.fsys, filepath.Join(d.path, name), data); err != nil {
		return &NotWritableError{Dir: d.path, Err: err}
	}
	return nil
}

// Path returns the directory.
func (d *Dir) Path() string { return d.path }

// Identity returns what the directory says of itself.
func (d *Dir) Identity() Identity { return d.id }

// Used tells whether an incarnation was started before.
func (d *Dir) Used() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.boot.Counter > 0
}

// NextBoot starts a new incarnation and makes it durable before it returns. On failure (*NotWritableError) the counter may be used up but is returned
// to nobody.
func (d *Dir) NextBoot() (Boot, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boot = Boot{Counter: d.boot.Counter + 1, Nonce: random()}
	if err := d.write(bootName, d.boot.encode()); err != nil {
		return Boot{}, err
	}
	return d.boot, nil
}

// Close gives the directory free for other processes.
func (d *Dir) Close() error { return d.lock.Close() }

// random draws 64 bits that are not all zero.
func random() uint64 {
	for {
		var b [8]byte
		rand.Read(b[:]) // never fails: the runtime ends the process instead
		if v := binary.BigEndian.Uint64(b[:]); v != 0 {
			return v
		}
	}
}

// Adopt makes the directory part of another cluster, before anything else is kept in it: a node that joins takes the cluster's id for its own.
func (d *Dir) Adopt(clusterID uint64) error {
	id := d.id
	id.ClusterID = clusterID
	if err := d.write(identityName, id.encode()); err != nil {
		return err
	}
	d.id = id
	return nil
}
