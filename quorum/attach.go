package quorum

import (
	"sync"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/queue"
)

// eventKind tells the kind of an event. It is not persisted.
type eventKind uint8

// The kinds are not persisted.
const (
	eventOutcome  eventKind = iota + 1 // batch k of the node's pipeline was answered
	eventDeliver                       // a message for a session of the node
	eventCancel                        // the queue removed a consumer of the node
	eventRetry                         // batch k changed nothing and must be offered again
	eventFenced                        // the node's boot was declared dead
	eventEvicted                       // the node's sessions were ended here: it must attach and learn what had been applied
	eventReady                         // a session of the node wants more than its limit; k messages are ready
	eventTimedOut                      // delivery d of a session of the node was kept for too long and taken back
	eventSynced                        // what a sync told of a session; it comes from no stream
)

// event is one item of the stream from a serving replica to an attached node.
type event struct {
	kind          eventKind
	redelivered   bool
	consumer      queue.ConsumerID
	deliveryCount uint32
	acquiredCount uint32
	epoch         uint64
	node          queue.NodeID
	boot          uint64
	session       queue.SessionID
	k, d          uint64
	seq           queue.Seq
	exceptions    []queue.Exception
	envelope      []byte // nil: not in memory
	sync          *queue.SessionSync
}

func (e *event) delivery() Delivery {
	return Delivery{Consumer: e.consumer, Redelivered: e.redelivered, DeliveryCount: e.deliveryCount, AcquiredCount: e.acquiredCount, Epoch: e.epoch, D: e.d, Seq: e.seq, Envelope: e.envelope}
}

// attachRequest is what a node says when it attaches.
type attachRequest struct {
	pipeline queue.PipelineID
	// n counts the attaches of the pipeline: an attach with a lower one is late and must not replace one with a higher.
	n uint64
	// answeredK is the last batch whose outcome the node took, marks how far it has the deliveries of each session.
	answeredK uint64
	marks     []queue.SessionMark
	// seen is the highest log index that the node has seen an answer at: the replica must not be behind it.
	seen uint64
}

// sink takes the stream of an attachment: this node's pipeline, or the connection to another node. Its methods are called one at a time, in log order, and do not block.
type sink interface {
	// synced is called first, with what the node lacks: outcomes in st, deliveries with their bodies, and which sessions want more.
	synced(st queue.SyncState, deliveries []event, index uint64)
	// events takes a run of events; index is the log index that the stream has reached with them.
	events(evs []event, index uint64)
	// stop tells that the stream has ended: the node attaches again.
	stop()
	// rested tells that the stream has ended because the queue is parked: the node attaches again when it wants something of it.
	rested()
}

// attachment is one node that a replica serves. Its stream is in log order. A message whose body is on disk only is read here, never in apply; what follows it waits behind it, and
// a goroutine that lives as long as there is such a backlog drains it. The backlog is bounded by the windows of the node's consumers and by its pipeline window.
type attachment struct {
	to      sink
	node    queue.NodeID
	boot    uint64
	n       uint64
	replica *replica

	mu      sync.Mutex // held while the pipeline takes events: the stream's order
	bmu     sync.Mutex
	backlog []event
	index   uint64 // that the backlog reaches
	running bool
}

// push hands events to the node. The slice is the caller's again afterwards.
func (a *attachment) push(evs []event, index uint64) {
	a.bmu.Lock()
	if a.running || a.cold(evs) {
		for i := range evs {
			if a.mine(&evs[i]) {
				a.backlog = append(a.backlog, evs[i])
			}
		}
		a.index = index
		if !a.running && len(a.backlog) > 0 {
			a.running = true
			go a.drain()
		}
		a.bmu.Unlock()
		return
	}
	a.bmu.Unlock()
	a.mu.Lock()
	a.pass(evs, index)
	a.mu.Unlock()
}

// pass gives the node the runs of events that are for it. Called with a.mu held.
func (a *attachment) pass(evs []event, index uint64) {
	for i := 0; i < len(evs); {
		j := i
		for j < len(evs) && a.mine(&evs[j]) {
			j++
		}
		if j > i {
			a.to.events(evs[i:j], index)
		}
		i = j + 1
	}
}

func (a *attachment) mine(e *event) bool {
	return e.node == a.node && e.boot == a.boot
}

func (a *attachment) cold(evs []event) bool {
	for i := range evs {
		if evs[i].kind == eventDeliver && evs[i].envelope == nil && a.mine(&evs[i]) {
			return true
		}
	}
	return false
}

func (a *attachment) drain() {
	for {
		a.bmu.Lock()
		evs, index := a.backlog, a.index
		a.backlog = nil
		if len(evs) == 0 {
			a.running = false
			a.bmu.Unlock()
			return
		}
		a.bmu.Unlock()
		a.mu.Lock()
		for len(evs) > 0 { // part by part: what is read goes out while the next is read
			n, bytes := 0, 0
			for n < len(evs) && n < limits.ColdRunEvents && bytes < limits.ColdRunBytes {
				if !a.warm(evs[n : n+1]) {
					a.mu.Unlock()
					return // as if it went on for ever: nothing may come behind what cannot be read. The node attaches again.
				}
				bytes += len(evs[n].envelope)
				n++
			}
			reached := uint64(0)
			if n == len(evs) {
				reached = index
			}
			a.pass(evs[:n], reached)
			evs = evs[n:]
		}
		a.mu.Unlock()
	}
}

// warm reads bodies that are on disk only. It reports whether all could be read.
func (a *attachment) warm(evs []event) bool {
	for i := range evs {
		if e := &evs[i]; e.kind == eventDeliver && e.envelope == nil {
			var err error
			if e.envelope, err = a.replica.read(e.seq); err != nil && mutant != mutantRotPassedOver {
				return false
			}
		}
	}
	return true
}
