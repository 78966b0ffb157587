package quorum

import (
	"errors"

	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum/link"
)

// What nodes say to each other. The numbers travel between versions: only add at the end.
const (
	// callDo writes to the catalogue: an entry; the answer is its index and the replies. Asked of the catalogue's leader.
	callDo link.Kind = 1
	// callLease asks the catalogue's leader for a lease: boot, applied index, term and time of the leader's last answer. The answer: term, time, whether there is a lease.
	callLease link.Kind = 2
	// callStart starts a queue's replica: queue; the answer tells whether it runs and who leads, as far as it knows.
	callStart link.Kind = 3
	// callPropose hands a batch to the leader's node: queue, batch. Answered when it was applied there, or will not be.
	callPropose link.Kind = 4
	// callCommand hands a command outside pipelines to the leader's node: queue, entry. The answer is the reply.
	callCommand link.Kind = 5
	// callStatus asks how a queue is: queue.
	callStatus link.Kind = 6
	// streamAttach attaches to a queue's replica: queue, attachRequest. Items are events.
	streamAttach link.Kind = 7
	// callMember has the leader's node change the members of a queue: queue, node, what (memberChange).
	callMember link.Kind = 11
	// callReplica asks a member how its own replica is: queue.
	callReplica link.Kind = 12
	// callFacts asks the shells above quorum on another node: see OnAsk.
	callFacts link.Kind = 13
	// messageApplied tells the catalogue's leader how far the node has applied: index.
	messageApplied link.Kind = 8
	// messageStarted tells the members of a queue that its replica runs here: queue; wants says that the same is wanted to know in return.
	messageStarted link.Kind = 9
	// messageSilent tells all nodes which others the sender does not hear.
	messageSilent link.Kind = 10
	// messageProgress tells how far the sender's replicas are and that it is served by them: see progress.go.
	messageProgress link.Kind = 14
	// messageBehind tells a node that its own replica of a queue is behind: the leader's serves it better.
	messageBehind link.Kind = 15
	// messageAddresses tells where nodes listen: how many, then token, start and address of each.
	messageAddresses link.Kind = 16
	// messageShell is what the shell above quorum has to say: see Tell.
	messageShell link.Kind = 17
	// callShell asks the shell above quorum: see AskTold.
	callShell link.Kind = 18
	// callReached asks how far a replica has come, when it has reached an index or after a bounded wait: queue, index. The answer is its applied index.
	callReached link.Kind = 19
	// callRest prepares the park of a queue, or does it: see serveRest.
	callRest link.Kind = 20
)

// errElsewhere says that another node must be asked.
var errElsewhere = errors.New("quorum: this node does not lead the queue")

// Answers to callPropose.
const (
	proposeApplied  = 1 // it was applied, or had been before
	proposeLost     = 2 // it will not be applied, or nobody knows
	proposeGap      = 3 // batches before it are missing
	proposeNotHere  = 4 // another node leads: its id follows, 0 if it is not known
	proposeMistaken = 5 // it cannot be decoded
)

func appendEvents(dst []byte, evs []event) []byte {
	dst = codec.AppendUvarint(dst, uint64(len(evs)))
	for i := range evs {
		dst = appendEvent(dst, &evs[i])
	}
	return dst
}

// eventBytesMin is the length of the shortest encoded event.
const eventBytesMin = 2

func appendEvent(dst []byte, e *event) []byte {
	dst = codec.AppendUint8(dst, uint8(e.kind))
	switch e.kind {
	case eventOutcome:
		dst = codec.AppendUvarint(dst, e.k)
		return appendExceptions(dst, e.exceptions)
	case eventDeliver:
		dst = codec.AppendBool(dst, e.redelivered)
		dst = codec.AppendUvarint(dst, uint64(e.session))
		dst = codec.AppendUvarint(dst, uint64(e.consumer))
		dst = codec.AppendUvarint(dst, uint64(e.deliveryCount))
		dst = codec.AppendUvarint(dst, uint64(e.acquiredCount))
		dst = codec.AppendUvarint(dst, e.epoch)
		dst = codec.AppendUvarint(dst, e.d)
		dst = codec.AppendUvarint(dst, uint64(e.seq))
		return codec.AppendBytes(dst, e.envelope)
	case eventCancel:
		dst = codec.AppendUvarint(dst, uint64(e.session))
		return codec.AppendUvarint(dst, uint64(e.consumer))
	case eventReady:
		dst = codec.AppendUvarint(dst, uint64(e.session))
		return codec.AppendUvarint(dst, e.k)
	case eventTimedOut:
		dst = codec.AppendUvarint(dst, uint64(e.session))
		return codec.AppendUvarint(dst, e.d)
	}
	return codec.AppendUvarint(dst, e.k) // eventRetry, eventFenced, eventEvicted
}

func readEvents(r *codec.Reader, node queue.NodeID, boot uint64) []event {
	evs := make([]event, 0, r.Count(eventBytesMin))
	for range cap(evs) {
		e := event{node: node, boot: boot, kind: eventKind(r.Uint8())}
		switch e.kind {
		case eventOutcome:
			e.k = r.Uvarint()
			e.exceptions = readExceptions(r)
		case eventDeliver:
			e.redelivered = r.Bool()
			e.session, e.consumer = queue.SessionID(r.Uvarint()), queue.ConsumerID(r.Uvarint())
			e.deliveryCount, e.acquiredCount, e.epoch = uint32(r.Uvarint()), uint32(r.Uvarint()), r.Uvarint()
			e.d, e.seq = r.Uvarint(), queue.Seq(r.Uvarint())
			e.envelope = r.Bytes()
		case eventCancel:
			e.session, e.consumer = queue.SessionID(r.Uvarint()), queue.ConsumerID(r.Uvarint())
		case eventReady:
			e.session, e.k = queue.SessionID(r.Uvarint()), r.Uvarint()
		case eventTimedOut:
			e.session, e.d = queue.SessionID(r.Uvarint()), r.Uvarint()
		case eventRetry, eventFenced, eventEvicted:
			e.k = r.Uvarint()
		default:
			r.Fail(codec.ErrMalformed)
		}
		if r.Err() != nil {
			return nil
		}
		evs = append(evs, e)
	}
	return evs
}

func appendExceptions(dst []byte, list []queue.Exception) []byte {
	dst = codec.AppendUvarint(dst, uint64(len(list)))
	for _, x := range list {
		dst = codec.AppendUvarint(dst, uint64(x.Index))
		dst = appendReply(dst, x.Reply)
	}
	return dst
}

// exceptionBytesMin is the length of the shortest encoded exception.
const exceptionBytesMin = 5

func readExceptions(r *codec.Reader) []queue.Exception {
	n := r.Count(exceptionBytesMin)
	if n == 0 {
		return nil
	}
	list := make([]queue.Exception, n)
	for i := range list {
		list[i] = queue.Exception{Index: uint32(r.Uvarint()), Reply: readReply(r)}
	}
	return list
}

func appendSync(dst []byte, st *queue.SyncState) []byte {
	dst = codec.AppendBool(dst, st.Known)
	dst = codec.AppendUvarint(dst, st.LastK)
	dst = codec.AppendUvarint(dst, st.DeadBoot)
	dst = codec.AppendBool(dst, st.Evicted)
	dst = codec.AppendUvarint(dst, uint64(len(st.Outcomes)))
	for _, o := range st.Outcomes {
		dst = codec.AppendUvarint(dst, o.K)
		dst = appendExceptions(dst, o.Exceptions)
	}
	dst = codec.AppendUvarint(dst, uint64(len(st.Sessions)))
	for _, s := range st.Sessions {
		dst = codec.AppendUvarint(dst, uint64(s.Session))
		dst = codec.AppendUvarint(dst, s.LastD)
		dst = codec.AppendUvarint(dst, uint64(len(s.Consumers)))
		for _, c := range s.Consumers {
			dst = codec.AppendUvarint(dst, uint64(c))
		}
		dst = codec.AppendBool(dst, s.LostSome)
		if s.LostSome {
			dst = codec.AppendUvarint(dst, s.Seen)
			dst = codec.AppendUvarint(dst, uint64(len(s.Kept)))
			for _, d := range s.Kept {
				dst = codec.AppendUvarint(dst, d)
			}
		}
	}
	return dst
}

// readSync reads all of a SyncState but the deliveries, which travel as events.
func readSync(r *codec.Reader) queue.SyncState {
	st := queue.SyncState{Known: r.Bool(), LastK: r.Uvarint(), DeadBoot: r.Uvarint(), Evicted: r.Bool()}
	for range r.Count(2) {
		st.Outcomes = append(st.Outcomes, queue.BatchOutcome{K: r.Uvarint(), Exceptions: readExceptions(r)})
	}
	for range r.Count(3) {
		s := queue.SessionSync{Session: queue.SessionID(r.Uvarint()), LastD: r.Uvarint()}
		for range r.Count(1) {
			s.Consumers = append(s.Consumers, queue.ConsumerID(r.Uvarint()))
		}
		if s.LostSome = r.Bool(); s.LostSome {
			s.Seen = r.Uvarint()
			for range r.Count(1) {
				s.Kept = append(s.Kept, r.Uvarint())
			}
		}
		st.Sessions = append(st.Sessions, s)
	}
	return st
}

func appendAttach(dst []byte, q meta.QueueID, req *attachRequest) []byte {
	dst = codec.AppendUvarint(dst, uint64(q))
	dst = codec.AppendUvarint(dst, uint64(req.pipeline.Node))
	dst = codec.AppendUint64(dst, req.pipeline.Boot.Counter)
	dst = codec.AppendUint64(dst, req.pipeline.Boot.Nonce)
	dst = codec.AppendUvarint(dst, req.pipeline.Gen)
	dst = codec.AppendUvarint(dst, req.n)
	dst = codec.AppendUvarint(dst, req.answeredK)
	dst = codec.AppendUvarint(dst, req.seen)
	dst = codec.AppendUvarint(dst, uint64(len(req.marks)))
	for _, m := range req.marks {
		dst = codec.AppendUvarint(dst, uint64(m.Session))
		dst = codec.AppendUvarint(dst, m.LastD)
	}
	return dst
}

func readAttach(r *codec.Reader) (meta.QueueID, attachRequest) {
	q := meta.QueueID(r.Uvarint())
	var req attachRequest
	req.pipeline.Node = queue.NodeID(r.Uvarint())
	req.pipeline.Boot = queue.Boot{Counter: r.Uint64(), Nonce: r.Uint64()}
	req.pipeline.Gen = r.Uvarint()
	req.n = r.Uvarint()
	req.answeredK, req.seen = r.Uvarint(), r.Uvarint()
	for range r.Count(2) {
		req.marks = append(req.marks, queue.SessionMark{Session: queue.SessionID(r.Uvarint()), LastD: r.Uvarint()})
	}
	return q, req
}

// appendReply and readReply carry the reply to one command.
func appendReply(dst []byte, r queue.Reply) []byte {
	dst = codec.AppendUint8(dst, uint8(r.Code))
	dst = codec.AppendUvarint(dst, r.A)
	dst = codec.AppendUvarint(dst, r.B)
	return codec.AppendUvarint(dst, r.C)
}

func readReply(r *codec.Reader) queue.Reply {
	return queue.Reply{Code: queue.Code(r.Uint8()), A: r.Uvarint(), B: r.Uvarint(), C: r.Uvarint()}
}

func decodeReply(src []byte) (queue.Reply, error) {
	r := codec.NewReader(src)
	reply := readReply(&r)
	return reply, r.Err()
}
