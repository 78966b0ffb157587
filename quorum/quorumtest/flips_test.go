package quorumtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
	"github.com/warrenmq/warren/storage/storagetest"
	"github.com/warrenmq/warren/storage/wal"
)

// flips is how many bits TestFlippedBitLosesMessages flips, one at a time, flipsSeed which.
var (
	flips     = flag.Int("flips", 15, "bits to flip in TestFlippedBitLosesMessages")
	flipsSeed = flag.Uint64("flips.seed", 1, "which bits")
)

const flipQueues = 3

// image is a cluster that was killed: its disks, its queues, and what was confirmed in each.
type image struct {
	disks  []*storagetest.Mem
	queues []meta.QueueID
	bodies []uint64
	counts []uint64
}

var flipOptions = Options{Latency: time.Millisecond, CheckpointLogBytes: 4 << 10, BodiesInMemoryBytes: 1}

// takeImage makes a cluster with messages in checkpoints, message stores and logs, and kills all of it.
func takeImage(t *testing.T) *image {
	im := &image{}
	Run(t, flipOptions, func(c *Cluster) {
		for i := range flipQueues {
			q := c.Declare(c.Node(meta.NodeID(i+1)), fmt.Sprint("q", i))
			p := c.NewPublisher(c.Node(1), q)
			for range 15 {
				p.Confirm(5*time.Second, 20)
			}
			im.queues = append(im.queues, q)
		}
		for _, q := range im.queues {
			c.sameState(q)
			sum, count := c.bodies(c.Node(1), q)
			im.bodies, im.counts = append(im.bodies, sum), append(im.counts, count)
		}
		for _, n := range c.Nodes {
			n.Kill()
		}
		for _, n := range c.Nodes {
			im.disks = append(im.disks, n.Disk())
		}
	})
	return im
}

// bodies sums up the messages that a node's replica of a queue has, in order.
func (c *Cluster) bodies(n *Node, q meta.QueueID) (sum, count uint64) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	h := fnv.New64a()
	_, err := n.Host().Peek(ctx, q, quorum.Look{Count: 1 << 20}, func(_ int, m *queue.Peeked, envelope []byte) bool {
		fmt.Fprint(h, m.Seq)
		_, _ = h.Write(envelope) // never fails
		count++
		return true
	})
	if err != nil && !errors.Is(err, quorum.ErrNotHere) {
		c.T.Errorf("%s: %v", n.Name, err)
	}
	return h.Sum64(), count
}

// flip flips a random bit of what one node keeps of logs, checkpoints and message stores, and says where.
func (im *image) flip(rng *rand.Rand, disk *storagetest.Mem) string {
	suffix := []string{".wal", ".ckpt", ".seg", ".lst"}[min(rng.IntN(10)/3, 3)]
	list := files(disk, "/data/wal", suffix)
	list = append(list, files(disk, "/data/queues", suffix)...)
	if len(list) == 0 {
		return im.flip(rng, disk)
	}
	name := list[rng.IntN(len(list))]
	size := int64(len(disk.Bytes(name)))
	if suffix == ".wal" { // what is behind its end means nothing
		logs, err := wal.Scan(disk, "/data/wal", nil)
		if err != nil {
			panic(err)
		}
		for _, f := range logs {
			if f.Name == name {
				size = f.EndBytes
			}
		}
	}
	bit := rng.Int64N(size * 8)
	disk.Flip(name, bit)
	return fmt.Sprintf("%s bit %d", name, bit)
}

// TestFlippedBitLosesMessages flips one bit at a time in the files of one node of a cluster that was killed, and starts all of it: every node comes up, all replicas come to the same state, and every confirmed message is there with its body.
func TestFlippedBitLosesMessages(t *testing.T) {
	im := takeImage(t)
	rng := rand.New(rand.NewPCG(*flipsSeed, 51))
	replicas, nodes, harmless := 0, 0, 0
	for i := range *flips {
		n := rng.IntN(len(im.disks))
		o := flipOptions
		o.Disks = append([]*storagetest.Mem(nil), im.disks...)
		o.Disks[n] = im.disks[n].Clone()
		where := fmt.Sprintf("flip %d: node %d, %s", i, n+1, im.flip(rng, o.Disks[n]))
		Run(t, o, func(c *Cluster) {
			defer func() {
				if c.T.Failed() {
					c.T.Log(where)
				}
			}()
			switch at := c.Nodes[n]; {
			case im.recovers(c) == 0 && at.ID == meta.NodeID(n+1):
				harmless++
			case at.ID != meta.NodeID(n+1):
				nodes++
			default:
				replicas++
			}
		})
		if t.Failed() {
			t.Fatal(where)
		}
	}
	t.Logf("%d flips: %d replicas and %d nodes were replaced, %d cost nothing; 0 messages lost", *flips, replicas, nodes, harmless)
}

// recovers waits until the cluster has what the image had, and returns how many replicas were replaced.
func (im *image) recovers(c *Cluster) (replaced int) {
	for i, q := range im.queues {
		c.Until(10*time.Second, "the queue runs", func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			for _, n := range c.Nodes { // which starts it there; one that is damaged has nothing to show
				_, _ = n.Host().Peek(ctx, q, quorum.Look{Count: 1}, func(int, *queue.Peeked, []byte) bool { return false })
			}
			return c.Leader(q) != nil
		})
		c.sameState(q)
		for _, n := range c.Nodes {
			if sum, count := c.bodies(n, q); sum != im.bodies[i] || count != im.counts[i] {
				c.T.Errorf("%s has %d messages of queue %d, and had %d, or their bodies are others", n.Name, count, q, im.counts[i])
			}
			if c.replicaOf(q, n) > 3 {
				replaced++
			}
		}
	}
	return replaced
}
