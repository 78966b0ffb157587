package quorum

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/lni/dragonboat/v4/logger"
)

// raftLog is where dragonboat's log lines go. It is process-wide in the library, so the last host opened wins.
var raftLog atomic.Pointer[slog.Logger]

var loggerOnce sync.Once

// adoptLogger makes the library write warnings and errors to log; its chatter about every group stays out.
func adoptLogger(log *slog.Logger) {
	raftLog.Store(log)
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
	log := raftLog.Load()
	if log == nil || level > logger.LogLevel(l.level.Load()) || !log.Enabled(nil, slevel) { //nolint:staticcheck // no context here
		return
	}
	log.Log(nil, slevel, fmt.Sprintf(format, args...), "raft", l.pkg) //nolint:staticcheck // no context here
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

// Panicf must panic: the library relies on not going on behind it.
func (l *raftLogger) Panicf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if log := raftLog.Load(); log != nil {
		log.Error(text, "raft", l.pkg, "panic", true)
	}
	panic(text)
}
