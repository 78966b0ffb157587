package broker

import (
	"context"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// Host is what the broker needs of the node that runs the queues and the catalogue. On makes one of a quorum.Host.
type Host interface {
	// Catalogue is the present view and routing; both are immutable.
	Catalogue() *quorum.Catalogue
	// Do writes to the catalogue; refusals are in the replies.
	Do(ctx context.Context, cmds ...meta.Command) ([]meta.Reply, error)
	// OnChange has f called with the changes of the catalogue, in order.
	OnChange(f func([]meta.Effect))
	// OpenSession makes a session that answers to r.
	OpenSession(r quorum.Receiver) Session
	// DeleteQueue deletes a queue under a condition.
	DeleteQueue(ctx context.Context, id meta.QueueID, cond queue.Condition) (quorum.DeleteResult, error)
	// QueueStatus tells how a queue is now.
	QueueStatus(id meta.QueueID) (quorum.QueueStatus, bool)
	// Node and Boot name this incarnation of the node.
	Node() meta.NodeID
	Boot() meta.Boot
}

// Session is what the broker needs of a quorum.Session; see there.
type Session interface {
	Submit(q meta.QueueID, cmd *queue.Command, token uint64) error
	Flush()
	ID() queue.SessionID
	AskTx(home meta.QueueID, n queue.TxNumber) (committed bool, err error)
	Close(lastWritten func(meta.QueueID) uint64, token uint64) []meta.QueueID
}

// On adapts a quorum.Host.
func On(h *quorum.Host) Host { return quorumHost{h} }

type quorumHost struct{ *quorum.Host }

var _ teller = quorumHost{}

// OpenSession makes a session that answers to r.
func (h quorumHost) OpenSession(r quorum.Receiver) Session { return h.Host.OpenSession(r) }
