package queue

import "fmt"

// Kind tells the kind of an Effect.
type Kind uint8

const (
	// KindStore: the command at Index of the batch became message Seq; the shell keeps its Envelope.
	KindStore Kind = 1
	// KindRelease: messages Seq..To (both included) left the queue; the shell may forget their bodies.
	KindRelease Kind = 2
	// KindDeliver: message Seq is assigned to Consumer of Session at (Node, Boot) under number D.
	KindDeliver Kind = 3
	// KindCancel: the queue removed Consumer of Session at (Node, Boot) by its own decision: it kept a delivery for too long.
	KindCancel Kind = 4
	// KindUnused: an auto-delete queue lost its last consumer: the leader should Seal it.
	KindUnused Kind = 5
	// KindEvicted: the sessions of (Node, BootCounter) were ended here though the node lives; if it is attached it must know.
	KindEvicted Kind = 6
	// KindDead: message Seq died or was moved, for Reason, and waits in the outbox.
	KindDead Kind = 7
	// KindReady: but for its limit a message would go to Session at (Node, Boot); Ready messages there are. The session is marked and not told again until an OpCredit takes the mark back.
	KindReady Kind = 8
	// KindRelayed: message Seq waits in the outbox to be carried on.
	KindRelayed Kind = 9
	// KindTxOrphan: the session of a transaction over several queues has ended here and left it open: the leader should find out what became of it.
	KindTxOrphan Kind = 11
	// KindTimedOut: Session at (Node, Boot) kept delivery D of message Seq to Consumer for too long; it was taken back. What comes for it changes nothing.
	KindTimedOut Kind = 13
	// KindLost: message Seq died for Reason and is gone, for the outbox is full.
	KindLost Kind = 14
)

// Effect is something that the world should do because of a command. Effects come in the order in which they must be carried out.
type Effect struct {
	Kind        Kind
	Redelivered bool
	// Epoch is that of the take-over of a single active consumer, 0 on other queues.
	Epoch         uint64
	Reason        Reason
	Consumer      ConsumerID
	Index         uint32
	DeliveryCount uint32
	AcquiredCount uint32
	Ready         uint32
	Node          NodeID
	BootCounter   uint64
	Session       SessionID
	D             uint64
	Seq           Seq
	To            Seq
}

// String renders an effect for test scripts and logs.
func (e Effect) String() string {
	switch e.Kind {
	case KindStore:
		return fmt.Sprintf("store #%d cmd=%d", e.Seq, e.Index)
	case KindRelease:
		return fmt.Sprintf("release #%d..%d", e.Seq, e.To)
	case KindDeliver:
		s := fmt.Sprintf("deliver #%d to n%d.%d/s%d/c%d d=%d redelivered=%t count=%d acquired=%d", e.Seq, e.Node, e.BootCounter, e.Session, e.Consumer, e.D,
			e.Redelivered, e.DeliveryCount, e.AcquiredCount)
		if e.Epoch > 0 {
			s += fmt.Sprintf(" epoch=%d", e.Epoch)
		}
		return s
	case KindCancel:
		return fmt.Sprintf("cancel n%d.%d/s%d/c%d", e.Node, e.BootCounter, e.Session, e.Consumer)
	case KindUnused:
		return "unused"
	case KindTxOrphan:
		return "tx-orphan"
	case KindLost:
		return fmt.Sprintf("lost #%d %s", e.Seq, e.Reason)
	case KindEvicted:
		return fmt.Sprintf("evicted n%d.%d", e.Node, e.BootCounter)
	case KindRelayed:
		return fmt.Sprintf("relayed #%d", e.Seq)
	case KindReady:
		return fmt.Sprintf("ready n%d.%d/s%d count=%d", e.Node, e.BootCounter, e.Session, e.Ready)
	}
	if e.Kind == KindTimedOut {
		return fmt.Sprintf("timed out #%d at n%d.%d/s%d/c%d d=%d", e.Seq, e.Node, e.BootCounter, e.Session, e.Consumer, e.D)
	}
	if e.Kind == KindDead {
		return fmt.Sprintf("dead #%d %s", e.Seq, e.Reason)
	}
	return fmt.Sprintf("effect(%d)", e.Kind)
}
