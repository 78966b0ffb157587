package node

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/datadir"
)

// secretFile keeps a secret that nobody gave the node.
const secretFile = "cluster.secret"

// secretBytes is how much randomness such a secret has.
const secretBytes = 32

// clusterSecret returns what nodes prove to each other: the configured secret, or one that the node made for itself, which no other node has until somebody copies it.
func clusterSecret(configured, dir string) ([]byte, error) {
	if configured != "" {
		return []byte(configured), nil
	}
	file := filepath.Join(dir, secretFile)
	text, err := storage.ReadFile(storage.OS, file, limits.SecretFileBytesMax)
	if err == nil {
		return []byte(strings.TrimSpace(string(text))), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, &datadir.NotWritableError{Dir: dir, Err: err}
	}
	random := make([]byte, secretBytes)
	if _, err := rand.Read(random); err != nil {
		return nil, err
	}
	secret := hex.EncodeToString(random)
	if err := storage.WriteFile(storage.OS, file, []byte(secret+"\n")); err != nil {
		return nil, &datadir.NotWritableError{Dir: dir, Err: err}
	}
	return []byte(secret), nil
}
