package management

import (
	"bytes"
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"time"
)

// resources are what this process uses and may use. What the platform does not tell is 0.
type resources struct {
	memoryBytes, memoryLimitBytes         uint64
	files, filesMax                       uint64
	diskFreeBytes                         uint64
	goroutines, gcRuns, gcBytes, switches uint64
}

// diskFreeLimitBytes is what RabbitMQ wants to be free unless configured otherwise.
const diskFreeLimitBytes = 50_000_000

// fallbackTotal stands for a limit that the platform does not tell, for tools divide by it.
const fallbackTotal = 1 << 20

// readResources asks the platform. dir is where the node keeps its data.
func readResources(dir string, memoryLimit uint64) resources {
	r := resources{memoryLimitBytes: memoryLimit, memoryBytes: residentBytes(), files: openFiles(), filesMax: openFilesMax(), diskFreeBytes: diskFree(dir), switches: contextSwitches()}
	samples := [...]metrics.Sample{
		{Name: "/sched/goroutines:goroutines"}, {Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/frees:bytes"}, {Name: "/memory/classes/total:bytes"},
	}
	metrics.Read(samples[:])
	var values [len(samples)]uint64
	for i := range samples {
		if samples[i].Value.Kind() == metrics.KindUint64 {
			values[i] = samples[i].Value.Uint64()
		}
	}
	r.goroutines, r.gcRuns, r.gcBytes = values[0], values[1], values[2]
	if r.memoryBytes == 0 {
		r.memoryBytes = values[3]
	}
	return r
}

// residentBytes is the memory of the process that is in RAM.
func residentBytes() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(string(fields[1]), 10, 64)
	return pages * uint64(os.Getpagesize())
}

// openFiles counts the open file descriptors.
func openFiles() uint64 {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	return uint64(max(len(names)-1, 0)) // one is the directory itself
}

// memoryLimit is the memory that the process may take: that of its control group, else that of the machine.
func memoryLimit() uint64 {
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64); err == nil && n > 0 {
			return n
		}
	}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return math.MaxInt64
	}
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) >= 2 && string(fields[0]) == "MemTotal:" {
			if n, err := strconv.ParseUint(string(fields[1]), 10, 64); err == nil {
				return n << 10
			}
		}
	}
	return math.MaxInt64
}

// The counters of the node's three series.
const (
	nodePublished = iota
	nodeConfirmed
	nodeReturned
	nodeDropped
	nodeDelivered
	nodeDeliveredNoAck
	nodeGot
	nodeGotNoAck
	nodeGotEmpty
	nodeAcked
	nodeRedelivered
)

const (
	churnConnectionsCreated = iota
	churnConnectionsClosed
	churnChannelsCreated
	churnChannelsClosed
	churnQueuesDeclared
	churnQueuesCreated
	churnQueuesDeleted
)

const (
	usedMemory = iota
	usedFiles
	usedSockets
	usedGoroutines
	usedDiskFree
	usedGCRuns
	usedGCBytes
	usedSwitches
)

// nodeSeries are the numbers of the node over time.
type nodeSeries struct{ messages, churn, used series }

// nodeSample is what a tick saw of a node.
type nodeSample struct {
	resources
	messages, churn, used                counters
	messageRates, churnRates, usageRates *rates

	uptimeMillis, pid, processors uint64
	version, dataDir              string
	configFiles                   []string
	listeners                     []Listener
}

// connections and channels are how many are open.
func (n *nodeSample) connections() uint64 {
	return n.churn[churnConnectionsCreated] - n.churn[churnConnectionsClosed]
}

func (n *nodeSample) channels() uint64 {
	return n.churn[churnChannelsCreated] - n.churn[churnChannelsClosed]
}

func (n *nodeSeries) tick(now time.Time, s *Server) nodeSample {
	c := s.opt.Broker.Totals()
	out := nodeSample{
		resources: readResources(s.opt.DataDir, s.memoryLimit), uptimeMillis: uint64(time.Since(s.started).Milliseconds()), pid: uint64(os.Getpid()), processors: uint64(runtime.GOMAXPROCS(0)),
		version: s.opt.Version, dataDir: s.opt.DataDir, configFiles: s.opt.ConfigFiles, listeners: s.opt.Listeners(),
	}
	out.messages = counters{
		nodePublished: c.Published, nodeConfirmed: c.Confirmed, nodeReturned: c.Returned, nodeDropped: c.Dropped, nodeDelivered: c.Delivered,
		nodeDeliveredNoAck: c.DeliveredNoAck, nodeGot: c.Got, nodeGotNoAck: c.GotNoAck, nodeGotEmpty: c.GotEmpty, nodeAcked: c.Acked, nodeRedelivered: c.Redelivered,
	}
	out.churn = s.churn.add(&c)
	out.used = counters{
		usedMemory: out.memoryBytes, usedFiles: out.files, usedSockets: c.ConnectionsOpened - c.ConnectionsClosed, usedGoroutines: out.goroutines,
		usedDiskFree: out.diskFreeBytes, usedGCRuns: out.gcRuns, usedGCBytes: out.gcBytes, usedSwitches: out.switches,
	}
	n.messages.add(now, &out.messages)
	n.churn.add(now, &out.churn)
	n.used.add(now, &out.used)
	out.messageRates, out.churnRates, out.usageRates = n.messages.rates(), n.churn.rates(), n.used.rates()
	return out
}
