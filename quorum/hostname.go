package quorum

import (
	"crypto/md5" // the library's own checksum of its flag file, no secret
	"fmt"
	"os"
	"path/filepath"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/storage"
)

// The library files its data under the host's name and refuses another one. A container's name changes with every start and means nothing here: a node is its data directory.

const (
	flagFile          = "dragonboat.ds"
	flagChecksumBytes = 8
	flagFileBytesMax  = 64 << 10
)

// adoptHostName moves what the library keeps in dir under the name of the present host.
func adoptHostName(fs storage.FS, dir string) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	names, err := fs.List(dir)
	if err != nil {
		return nil // nothing there yet
	}
	for _, name := range names {
		info, err := fs.Stat(filepath.Join(dir, name))
		if err != nil || !info.IsDir || name == host {
			continue
		}
		if _, err := fs.Stat(filepath.Join(dir, host)); err == nil {
			return fmt.Errorf("%s holds data of two host names, %s and %s: keep the one that is this node's", dir, name, host)
		}
		if err := fs.Rename(filepath.Join(dir, name), filepath.Join(dir, host)); err != nil {
			return err
		}
		if err := fs.SyncDir(dir); err != nil {
			return err
		}
	}
	return forgetHostName(fs, filepath.Join(dir, flagFile))
}

// forgetHostName removes the host's name from the library's flag file; without one it checks none.
func forgetHostName(fs storage.FS, name string) error {
	if _, err := fs.Stat(name); err != nil {
		return nil // a new directory
	}
	src, err := storage.ReadFile(fs, name, flagFileBytesMax)
	if err != nil {
		return err
	}
	var s pb.RaftDataStatus
	if len(src) < flagChecksumBytes || flagChecksum(src[flagChecksumBytes:]) != string(src[:flagChecksumBytes]) || s.Unmarshal(src[flagChecksumBytes:]) != nil {
		return &storage.CorruptError{File: name, OffsetBytes: -1, Reason: "the file does not match its checksum"}
	}
	if s.Hostname == "" {
		return nil
	}
	s.Hostname = ""
	body, err := s.Marshal()
	if err != nil {
		return err
	}
	return storage.WriteFile(fs, name, append([]byte(flagChecksum(body)), body...))
}

func flagChecksum(body []byte) string {
	sum := md5.Sum(body)
	return string(sum[flagChecksumBytes:])
}
