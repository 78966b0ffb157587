package quorum

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lni/dragonboat/v4/logger"

	"github.com/warrenmq/warren/storage"
)

// raftHost is whose log dragonboat's lines go to. It is process-wide in the library, so the last host opened wins.
var raftHost atomic.Pointer[Host]

var loggerOnce sync.Once

// adoptLogger makes the library write warnings and errors to the host's log; its chatter about every group stays out.
func adoptLogger(h *Host) {
	raftHost.Store(h)
	loggerOnce.Do(func() {
		logger.SetLoggerFactory(func(pkg string) logger.ILogger { return &raftLogger{pkg: pkg} })
		for _, pkg := range []string{"dragonboat", "raft", "rsm", "transport", "logdb", "config", "settings", "grpc", "utils", "order", "server", "fileutil", "raftpb", "registry", "pebblekv", "tests"} {
			logger.GetLogger(pkg).SetLevel(logger.WARNING)
		}
	})
}

// raftLogger adapts one package's logger. What the library warns about in passing (campaigns, term changes, dropped messages) is debug for an operator.
type raftLogger struct {
	pkg   string
	level atomic.Int64
}

func (l *raftLogger) SetLevel(level logger.LogLevel) { l.level.Store(int64(level)) }

func (l *raftLogger) write(level logger.LogLevel, slevel slog.Level, format string, args ...any) {
	h := raftHost.Load()
	if h == nil || level > logger.LogLevel(l.level.Load()) || !h.log.Enabled(nil, slevel) { //nolint:staticcheck // no context here
		return
	}
	h.log.Log(nil, slevel, fmt.Sprintf(format, args...), "raft", l.pkg) //nolint:staticcheck // no context here
}

func (l *raftLogger) Debugf(format string, args ...any) {
	l.write(logger.DEBUG, slog.LevelDebug, format, args...)
}

func (l *raftLogger) Infof(format string, args ...any) {
	l.write(logger.INFO, slog.LevelDebug, format, args...)
}

func (l *raftLogger) Warningf(format string, args ...any) {
	l.write(logger.WARNING, slog.LevelDebug, format, args...)
}

func (l *raftLogger) Errorf(format string, args ...any) {
	l.write(logger.ERROR, slog.LevelError, format, args...)
}

// lostLog begins the library's word that a leader counts on entries that this node has acknowledged and does not have.
const lostLog = "invalid commitTo"

// Panicf must not return: the library relies on not going on behind it. What a damaged log makes it say stops the node as damage; the rest is a bug, which panics.
func (l *raftLogger) Panicf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if h := raftHost.Load(); h != nil {
		h.log.Error(text, "raft", l.pkg, "panic", true)
		if strings.HasPrefix(text, lostLog) {
			_ = h.fatal(&storage.CorruptError{File: logDir(h), OffsetBytes: -1, Reason: "the Raft log has lost entries that this node had acknowledged, as when an older copy of it is put back (" +
				text + "); use an empty directory"})
		}
	}
	panic(text)
}
