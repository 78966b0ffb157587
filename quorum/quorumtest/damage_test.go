package quorumtest

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
	"github.com/warrenmq/warren/storage/storagetest"
	"github.com/warrenmq/warren/storage/wal"
)

// files lists the files below a directory of a disk, with a suffix.
func files(disk *storagetest.Mem, dir, suffix string) (list []string) {
	names, err := disk.List(dir)
	if err != nil {
		return nil
	}
	for _, name := range names {
		full := path.Join(dir, name)
		if info, err := disk.Stat(full); err == nil && info.IsDir {
			list = append(list, files(disk, full, suffix)...)
		} else if strings.HasSuffix(name, suffix) {
			list = append(list, full)
		}
	}
	return list
}

// damage flips a bit in the middle of the last file with a suffix in a queue's folder, on the disk of a node that is down.
func (n *Node) damage(q meta.QueueID, suffix string) {
	n.c.T.Helper()
	disk := n.Disk()
	n.flip(disk, q, suffix)
	n.Replace(disk)
}

// flip is damage on a disk.
func (n *Node) flip(disk *storagetest.Mem, q meta.QueueID, suffix string) {
	n.c.T.Helper()
	list := files(disk, fmt.Sprintf("/data/queues/%d", q), suffix)
	if len(list) == 0 {
		n.c.T.Fatalf("%s has no file %s of queue %d", n.Name, suffix, q)
	}
	name := list[len(list)-1]
	if !disk.Flip(name, int64(len(disk.Bytes(name))/2)*8) {
		n.c.T.Fatalf("%s cannot be damaged", name)
	}
}

// replicaOf is the number of a node's replica of a queue, as another node's catalogue has it; 0 if it has none.
func (c *Cluster) replicaOf(q meta.QueueID, n *Node) uint64 {
	for _, other := range c.Live() {
		if other == n {
			continue
		}
		if v := other.Host().Catalogue().View.QueueByID(q); v != nil {
			if m, ok := v.MemberOn(n.ID); ok {
				return m.Replica
			}
		}
	}
	return 0
}

// sameState waits until all replicas of a queue have the same state, bodies included.
func (c *Cluster) sameState(q meta.QueueID) {
	c.T.Helper()
	c.Until(20*time.Second, "all replicas have the same state", func() bool {
		applied, hash := uint64(0), uint64(0)
		for i, n := range c.Live() {
			a, s, err := n.Host().StateHash(q)
			if err != nil || i > 0 && (a != applied || s != hash) {
				return false
			}
			applied, hash = a, s
		}
		return true
	})
}

// keepMuch declares a queue and publishes so much that it is in checkpoints and message stores.
func (c *Cluster) keepMuch(count int) meta.QueueID {
	c.T.Helper()
	q := c.Declare(c.Node(1), "q")
	p := c.NewPublisher(c.Node(1), q)
	for range count / 20 {
		p.Confirm(5*time.Second, 20)
	}
	return q
}

// TestDamagedReplicaStopsItsNode: a file of one queue is damaged while a node is down. The node starts, its replica is replaced by a new one that the others feed, and what was damaged is set aside.
func TestDamagedReplicaStopsItsNode(t *testing.T) {
	for _, suffix := range []string{".ckpt", ".seg"} {
		t.Run(suffix, func(t *testing.T) {
			Run(t, Options{Latency: time.Millisecond, CheckpointLogBytes: 4 << 10, BodiesInMemoryBytes: 1}, func(c *Cluster) {
				q, other := c.keepMuch(400), c.Declare(c.Node(1), "other")
				c.NewPublisher(c.Node(1), other).Confirm(3*time.Second, 10)
				n := c.Others(c.AwaitLeader(q))[0]
				n.Kill()
				n.damage(q, suffix)
				n.Start()
				c.Until(15*time.Second, "the replica is replaced", func() bool { return c.replicaOf(q, n) > 3 })
				c.sameState(q)
				if kept := files(n.disk, "/data/quarantine", "damaged-"+fmt.Sprint(n.ID)); len(kept) != 1 {
					c.T.Errorf("set aside: %v", kept)
				}
				if got := c.replicaOf(other, n); got != uint64(n.ID) {
					c.T.Errorf("the replica of another queue is number %d now", got)
				}
				n.Kill()
				n.Start()
				c.sameState(q)
				c.drained(other, n)
				c.drained(q, n)
			})
		})
	}
}

// TestUnreadableBodyIsPassedOver: a body rots in the message store of a replica that runs, leads and serves consumers or does not. They get the message from another member, the replica is replaced.
func TestUnreadableBodyIsPassedOver(t *testing.T) {
	for name, leads := range map[string]bool{"leader": true, "follower": false} {
		t.Run(name, func(t *testing.T) {
			Run(t, Options{Latency: time.Millisecond, CheckpointLogBytes: 4 << 10, BodiesInMemoryBytes: 1}, func(c *Cluster) {
				q := c.keepMuch(400)
				n := c.AwaitLeader(q)
				if !leads {
					n = c.Others(n)[0]
				}
				n.flip(n.disk, q, ".seg")
				k := c.NewConsumer(n, q, ConsumerPlan{Hold: 10})
				c.Until(15*time.Second, "the replica is replaced", func() bool { return c.replicaOf(q, n) > 3 })
				c.Until(15*time.Second, "its node has all messages", func() bool { return k.Got() >= 400 })
				c.sameState(q)
				k.Release()
				c.drained(q, n)
			})
		})
	}
}

// TestDamagedReplicaLeavesTooFew: a replica is damaged while another one is away. It is not removed, as the one that is left could not go on; it is when the other one is back.
func TestDamagedReplicaLeavesTooFew(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond, CheckpointLogBytes: 4 << 10, BodiesInMemoryBytes: 1}, func(c *Cluster) {
		q := c.keepMuch(400)
		leader := c.AwaitLeader(q)
		n, away := c.Others(leader)[0], c.Others(leader)[1]
		away.Kill()
		c.Pass(time.Second)
		n.flip(n.disk, q, ".seg")
		k := c.NewConsumer(n, q, ConsumerPlan{Hold: 10})
		c.Until(15*time.Second, "all messages come from the leader", func() bool { return k.Got() >= 400 })
		c.NewPublisher(leader, q).Confirm(3*time.Second, 10)
		c.Pass(10 * time.Second)
		if got := c.replicaOf(q, n); got > 3 {
			c.T.Fatalf("replica %d was begun", got)
		}
		away.Start()
		c.Until(15*time.Second, "the replica is replaced", func() bool { return c.replicaOf(q, n) > 3 })
		c.sameState(q)
		k.Release()
		c.drained(q, n)
	})
}

// TestDamagedQueueTakesOthersDown: on a node alone, a damaged queue is down, at the start or when the damage is met, and says why; its files stay, and the other queues serve.
func TestDamagedQueueTakesOthersDown(t *testing.T) {
	for _, suffix := range []string{".ckpt", ".seg", "running"} {
		t.Run(suffix, func(t *testing.T) {
			Run(t, Options{Nodes: 1, CheckpointLogBytes: 4 << 10, BodiesInMemoryBytes: 1}, func(c *Cluster) {
				n := c.Node(1)
				q, other := c.keepMuch(400), c.Declare(n, "other")
				c.NewPublisher(n, other).Confirm(3*time.Second, 10)
				var k *Consumer
				if suffix == "running" {
					n.flip(n.disk, q, ".seg")
					k = c.NewConsumer(n, q, ConsumerPlan{Hold: 10})
				} else {
					n.Kill()
					n.damage(q, suffix)
					n.Start()
				}
				c.Until(5*time.Second, "the queue is down", func() bool {
					st, _ := n.Host().QueueStatus(q)
					return st.State == quorum.StateDown && strings.Contains(st.Reason, fmt.Sprintf("/data/queues/%d/", q))
				})
				if k != nil {
					if st, _ := n.Host().QueueStatus(q); st.Counts.Ready+st.Counts.Unacked < 400-uint64(k.Got()) {
						c.T.Errorf("%d ready, %d unacked, and %d were delivered", st.Counts.Ready, st.Counts.Unacked, k.Got())
					}
					c.Until(time.Second, "the consumer is told", k.ended)
				}
				if _, err := n.Host().DeleteQueue(context.Background(), q, queue.IfEmpty); !errors.Is(err, quorum.ErrNoLeader) {
					c.T.Errorf("a delete that asks the queue: %v", err)
				}
				p := c.NewPublisher(n, q)
				p.Send(3, 0)
				c.Pass(12 * time.Second)
				if p.Confirmed() != 0 {
					c.T.Error("a message was confirmed")
				}
				if kept := files(n.disk, "/data/quarantine", ""); len(kept) != 0 {
					c.T.Errorf("set aside: %v", kept)
				}
				c.drained(other, n)
			})
		})
	}
}

// TestFormerReplicaIsTakenForTheNew: a node dies when its replica was removed, before the files went, and gets another replica meanwhile. The new one does not begin with the old one's files.
func TestFormerReplicaIsTakenForTheNew(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond, CheckpointLogBytes: 4 << 10, BodiesInMemoryBytes: 1}, func(c *Cluster) {
		q := c.keepMuch(400)
		leader := c.AwaitLeader(q)
		n := c.Others(leader)[0]
		n.Kill()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := leader.Host().RemoveReplica(ctx, q, n.ID); err != nil {
			c.T.Fatal(err)
		}
		n.Begin()
		for { // as soon as the node is up
			if err := leader.Host().AddReplica(ctx, q, n.ID); err == nil {
				break
			}
			c.Pass(5 * time.Millisecond)
		}
		n.await(10 * time.Second)
		c.sameState(q)
		c.drained(q, n)
	})
}

// TestMissingCheckpointIsNotMissed: the files of a queue are gone. What is left in the log is not taken for all there was.
func TestMissingCheckpointIsNotMissed(t *testing.T) {
	Run(t, Options{Nodes: 1, CheckpointLogBytes: 4 << 10, BodiesInMemoryBytes: 1}, func(c *Cluster) {
		q, n := c.keepMuch(800), c.Node(1)
		n.Stop()
		disk := n.Disk()
		for _, name := range files(disk, fmt.Sprintf("/data/queues/%d", q), "") {
			if err := disk.Remove(name); err != nil {
				c.T.Fatal(err)
			}
		}
		n.Replace(disk)
		n.Start()
		c.Until(5*time.Second, "the queue is down", func() bool {
			st, _ := n.Host().QueueStatus(q)
			return st.State == quorum.StateDown && strings.HasSuffix(st.Reason, "is missing")
		})
	})
}

// damageLog flips a bit in the body of the last record of a queue's replica that is not the newest of the log, on the disk of a node that is down.
func (n *Node) damageLog(q meta.QueueID) {
	n.c.T.Helper()
	disk := n.Disk()
	var found []wal.Record
	if _, err := wal.Scan(disk, "/data/wal", func(r wal.Record) error {
		found = append(found, r)
		return nil
	}); err != nil {
		n.c.T.Fatal(err)
	}
	for i := len(found) - 2; i >= 0; i-- {
		if r := found[i]; r.Group.Shard == uint64(q) && r.EntriesBytes > 0 {
			disk.Flip(r.File, (r.OffsetBytes+r.Bytes-10)*8)
			n.Replace(disk)
			return
		}
	}
	n.c.T.Fatalf("the log has no record of queue %d", q)
}

// TestDamagedLogStopsItsNode: a record of one queue is damaged in the log of a node. Its replica is replaced; it votes no more under its old number, whatever happens in between.
func TestDamagedLogStopsItsNode(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		q, other := c.keepMuch(400), c.Declare(c.Node(1), "other")
		c.NewPublisher(c.Node(1), other).Confirm(3*time.Second, 10)
		n := c.Others(c.AwaitLeader(q))[0]
		n.Stop()
		n.damageLog(q)
		for _, o := range c.Others(n) {
			o.Kill()
		}
		n.Begin() // alone, it notes the damage and starts nothing
		c.Pass(3 * time.Second)
		n.Kill()
		for _, o := range c.Others(n) {
			o.Begin()
		}
		n.Begin()
		for _, o := range c.Nodes {
			o.await(30 * time.Second)
		}
		c.Until(15*time.Second, "the replica is replaced", func() bool { return c.replicaOf(q, n) > 3 })
		c.sameState(q)
		if got := c.replicaOf(other, n); got != uint64(n.ID) {
			c.T.Errorf("the replica of another queue is number %d now", got)
		}
		if kept := files(n.disk, "/data/quarantine", ".wal"); len(kept) == 0 {
			c.T.Error("no copy of the log was kept")
		}
		c.drained(other, n)
		c.drained(q, n)
	})
}

// TestDamagedNodeForgetsItsVotes: damage hides whom it concerns, or concerns the catalogue or the node's identity. The node comes back as a new one, by itself, and has everything; what it had is set aside.
func TestDamagedNodeForgetsItsVotes(t *testing.T) {
	for name, harm := range map[string]func(disk *storagetest.Mem){
		"log": func(disk *storagetest.Mem) {
			logs := files(disk, "/data/wal", ".wal")
			disk.Flip(logs[len(logs)-1], 8*20)
		},
		"list":     func(disk *storagetest.Mem) { disk.Flip("/data/peers", 8*4) },
		"identity": func(disk *storagetest.Mem) { disk.Flip("/data/identity", 8*50) },
		"boot":     func(disk *storagetest.Mem) { _ = disk.Remove("/data/boot") },
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, Options{Latency: time.Millisecond, CheckpointLogBytes: 4 << 10, BodiesInMemoryBytes: 1}, func(c *Cluster) {
				q := c.keepMuch(400)
				n, was := c.Node(1), c.Node(1).ID
				if name == "list" {
					n, was = c.Node(3), c.Node(3).ID // a founder is not told where to join
				}
				n.Kill()
				disk := n.Disk()
				harm(disk)
				n.Replace(disk)
				n.Start()
				if n.ID == was {
					c.T.Fatal("it is the node that it was")
				}
				c.Until(20*time.Second, "it has a replica", func() bool { return c.replicaOf(q, n) > 3 })
				c.sameState(q)
				if kept := files(n.disk, "/data/quarantine", "damaged-0"); len(kept) != 1 {
					c.T.Errorf("set aside: %v", kept)
				}
				n.Kill()
				n.Start()
				c.drained(q, n)
			})
		})
	}
}

// TestDamagedNodesGiveUpAll: all nodes are damaged at the same time. None of them gives up what it has, as no majority takes it in; when one is restored, and another one, the rest is well again.
func TestDamagedNodesGiveUpAll(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		q := c.keepMuch(100)
		whole := map[*Node]*storagetest.Mem{}
		for _, n := range c.Nodes {
			n.Kill()
		}
		for _, n := range c.Nodes {
			disk := n.Disk()
			whole[n] = disk.Clone()
			logs := files(disk, "/data/wal", ".wal")
			disk.Flip(logs[0], 8*20)
			n.Replace(disk)
			n.Begin()
		}
		c.Pass(90 * time.Second)
		for _, n := range c.Nodes {
			p := n.process()
			<-p.opened
			if p.err == nil || !strings.Contains(p.err.Error(), "do not take this one in anew") {
				c.T.Errorf("%s: %v", n.Name, p.err)
			}
			n.Stop()
			if kept := files(n.disk, "/data/quarantine", ""); len(kept) != 0 {
				c.T.Errorf("%s set aside %v", n.Name, kept)
			}
		}
		for _, n := range c.Nodes[:2] {
			n.Replace(whole[n])
			n.Begin()
		}
		c.Nodes[2].Begin()
		for _, n := range c.Nodes {
			n.await(40 * time.Second)
		}
		c.sameState(q)
		c.drained(q, c.Nodes[2])
	})
}
