package node

import (
	"math"
	"runtime/debug"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/config"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/alarm"
)

// connectionMax is how many connections the node serves: what is configured, else what the limit of open files leaves beside the node's own.
func connectionMax(configured int) int {
	switch configured {
	case 0:
		return filesForClients(filesMax())
	case config.Infinite:
		return 0
	}
	return configured
}

// filesForClients is the part of the open files that clients may take; 0, no bound, if the platform has none.
func filesForClients(all uint64) int {
	if all == 0 || all > 1<<30 {
		return 0
	}
	own := max(all/limits.OwnFilesShare, min(limits.OwnFiles, all/2))
	return int(all - own)
}

// stamps are what the configuration has the broker set in published messages.
func stamps(a *config.AMQP, name string) broker.Stamps {
	s := broker.Stamps{Time: a.StampTime != config.StampNever, OverTime: a.StampTime == config.StampAlways, OverNode: a.StampNode == config.StampAlways}
	if a.StampNode != config.StampNever {
		s.Node = name
	}
	return s
}

// divideMemory finds out what the process may take and what of it its parts may have. The collector keeps below that, unless the environment says otherwise.
func (n *node) divideMemory() {
	if n.memoryLimit = n.cfg.Alarms.MemoryLimitBytes; n.memoryLimit == 0 {
		n.memoryLimit = alarm.MemoryLimit()
	}
	n.memory = alarm.BudgetOf(n.memoryLimit, n.cfg.Alarms.MemoryHigh)
	if was := debug.SetMemoryLimit(-1); was == math.MaxInt64 {
		debug.SetMemoryLimit(n.memory.Garbage)
		n.onStop(func() { debug.SetMemoryLimit(was) })
	}
}
