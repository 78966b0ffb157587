package pebblestore

import (
	_ "unsafe" // for go:linkname

	_ "github.com/lni/dragonboat/v4" // the function's home
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
)

// Open opens the store in dirs.
//
//go:linkname Open github.com/lni/dragonboat/v4/internal/logdb.NewDefaultLogDB
func Open(cfg config.NodeHostConfig, busy config.LogDBCallback, dirs, walDirs []string) (raftio.ILogDB, error)
