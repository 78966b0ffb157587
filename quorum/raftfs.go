package quorum

import (
	"errors"
	"os"
	"strings"

	"github.com/lni/vfs"
)

// raftFS is the file system of the library's own files. The library makes a directory for the snapshots of each replica that starts for the first time, and syncs the one above, with a lock that all its
// workers need: a disk that is slow with that holds up every queue of the node. So the directory above is synced only when something comes into the new one. If a crash takes an empty one, the library makes
// it again.
type raftFS struct{ vfs.FS }

// LibraryFS is a file system as the library gets it.
func LibraryFS(fs vfs.FS) vfs.FS { return raftFS{fs} }

const (
	groupDirsPrefix = "snapshot-part-"
	groupDirPrefix  = "snapshot-"
)

// holdsGroups tells whether a directory is one of those that have the directories of groups.
func (fs raftFS) holdsGroups(dir string) bool {
	return strings.HasPrefix(fs.PathBase(dir), groupDirsPrefix)
}

// inGroup tells whether something is right below the directory of a group.
func (fs raftFS) inGroup(name string) bool {
	dir := fs.PathDir(name)
	return strings.HasPrefix(fs.PathBase(dir), groupDirPrefix) && fs.holdsGroups(fs.PathDir(dir))
}

// keepGroup makes the directory durable that name is in.
func (fs raftFS) keepGroup(name string) error {
	d, err := fs.FS.OpenDir(fs.PathDir(fs.PathDir(name)))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// OpenDir implements vfs.FS.
func (fs raftFS) OpenDir(name string) (vfs.File, error) {
	f, err := fs.FS.OpenDir(name)
	if err == nil && fs.holdsGroups(name) {
		f = unsynced{f}
	}
	return f, err
}

// MkdirAll implements vfs.FS.
func (fs raftFS) MkdirAll(dir string, perm os.FileMode) error {
	if err := fs.FS.MkdirAll(dir, perm); err != nil || !fs.inGroup(dir) {
		return err
	}
	return fs.keepGroup(dir)
}

// Create implements vfs.FS.
func (fs raftFS) Create(name string) (vfs.File, error) {
	f, err := fs.FS.Create(name)
	if err != nil || !fs.inGroup(name) {
		return f, err
	}
	if err := fs.keepGroup(name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// unsynced is a directory that is synced when there is reason to.
type unsynced struct{ vfs.File }

// Sync implements vfs.File.
func (unsynced) Sync() error { return nil }
