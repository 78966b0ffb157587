package management

import (
	"os"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/warrenmq/warren/internal/alarm"
)

// resources are what this process uses and may use. What the platform does not tell is 0.
type resources struct {
	memoryBytes, memoryHighBytes          uint64
	files, filesMax                       uint64
	diskFreeBytes, diskLimitBytes         uint64
	goroutines, gcRuns, gcBytes, switches uint64
}

// fallbackTotal stands for a limit that the platform does not tell, for tools divide by it.
const fallbackTotal = 1 << 20

// readResources asks the platform; st is what the node's watch saw.
func readResources(st alarm.Status) resources {
	r := resources{
		memoryHighBytes: st.MemoryHighBytes, memoryBytes: st.MemoryBytes, files: openFiles(), filesMax: openFilesMax(), diskFreeBytes: st.DiskFreeBytes, diskLimitBytes: st.DiskLimitBytes,
		switches: contextSwitches(),
	}
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
		resources: readResources(s.opt.Watch.Status()), uptimeMillis: uint64(time.Since(s.started).Milliseconds()), pid: uint64(os.Getpid()), processors: uint64(runtime.GOMAXPROCS(0)),
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
