package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/storage"
)

const (
	// FormatVersion is the version of the directory's layout that this binary makes, and the highest that it opens.
	FormatVersion = 1
	// LogStore names the kind of Raft log store of this binary.
	LogStore = "wal"

	identityTitle = "warren data directory\n"
	bootTitle     = "warren boot\n"
	fileBytesMax  = 4096
)

var table = crc32.MakeTable(crc32.Castagnoli)

// errChecksum and errForm are what a damaged file looks like.
var (
	errChecksum = errors.New("the content does not match its checksum")
	errForm     = errors.New("the content is not what this file holds")
)

// seal appends the line with the checksum over all before.
func seal(text string) []byte {
	return fmt.Appendf(nil, "%scrc32c %08x\n", text, crc32.Checksum([]byte(text), table))
}

// unseal returns the text without the checksum line, which must fit.
func unseal(data []byte) (string, error) {
	at := bytes.LastIndexByte(bytes.TrimSuffix(data, []byte("\n")), '\n') + 1
	text := string(data[:at])
	if !bytes.Equal(seal(text), data) {
		return "", errChecksum
	}
	return text, nil
}

func (id Identity) encode() []byte {
	return seal(fmt.Sprintf("%sformat %d\nlog-store %s\nnode %016x\ncluster %016x\n", identityTitle, id.FormatVersion, id.LogStore, id.NodeID, id.ClusterID))
}

// parseIdentity reads the identity file. The title, the format line behind it and the checksum at the end stay where they are in every format, so that
// a newer one is told from a damaged one.
func parseIdentity(file string, data []byte) (Identity, error) {
	text, err := unseal(data)
	if err != nil {
		return Identity{}, &storage.CorruptError{File: file, OffsetBytes: -1, Reason: err.Error()}
	}
	corrupt := &storage.CorruptError{File: file, OffsetBytes: -1, Reason: errForm.Error()}
	rest, ok := strings.CutPrefix(text, identityTitle)
	lines := strings.Split(rest, "\n")
	digits, isFormat := strings.CutPrefix(lines[0], "format ")
	version, err := strconv.ParseUint(digits, 10, 32)
	if !ok || !isFormat || err != nil {
		return Identity{}, corrupt
	}
	if version > FormatVersion {
		return Identity{}, &storage.VersionError{File: file, Found: uint32(version), Supported: FormatVersion}
	}
	if len(lines) != 5 {
		return Identity{}, corrupt
	}
	id := Identity{FormatVersion: uint32(version), LogStore: strings.TrimPrefix(lines[1], "log-store ")}
	id.NodeID, err = strconv.ParseUint(strings.TrimPrefix(lines[2], "node "), 16, 64)
	if err != nil {
		return Identity{}, corrupt
	}
	id.ClusterID, err = strconv.ParseUint(strings.TrimPrefix(lines[3], "cluster "), 16, 64)
	if err != nil || id.NodeID == 0 || id.ClusterID == 0 || !bytes.Equal(id.encode(), data) {
		return Identity{}, corrupt
	}
	if id.LogStore != LogStore {
		return Identity{}, &LogStoreError{File: file, Found: id.LogStore, Supported: LogStore}
	}
	return id, nil
}

func (b Boot) encode() []byte {
	return seal(fmt.Sprintf("%scounter %d\nnonce %016x\n", bootTitle, b.Counter, b.Nonce))
}

func parseBoot(file string, data []byte) (Boot, error) {
	text, err := unseal(data)
	if err != nil {
		return Boot{}, &storage.CorruptError{File: file, OffsetBytes: -1, Reason: err.Error()}
	}
	var b Boot
	_, err = fmt.Sscanf(text, bootTitle+"counter %d\nnonce %x\n", &b.Counter, &b.Nonce)
	if err != nil || !bytes.Equal(b.encode(), data) {
		return Boot{}, &storage.CorruptError{File: file, OffsetBytes: -1, Reason: errForm.Error()}
	}
	return b, nil
}
