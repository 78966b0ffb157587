package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"
	"github.com/lni/vfs"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/quorum/quorumtest/memnet"
)

// three starts three nodes with one group on all.
func three(t *testing.T, l *lab, change ...func(*Config)) *cluster {
	l.net.SetLatency("", "", time.Millisecond)
	c := newCluster(t)
	for node := uint64(1); node <= 3; node++ {
		c.start(node, l.open(node, change...), vfs.NewMem())
	}
	t.Cleanup(func() {
		for node := range c.hosts {
			c.hosts[node].nh.Close()
		}
	})
	for node := uint64(1); node <= 3; node++ {
		c.replica(node, []uint64{1, 2, 3}, false)
	}
	return c
}

func TestClusterInVirtualTime(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		c := three(t, l)
		if d := c.kick(2); d > 100*time.Millisecond { // as soon as the replicas run and have applied what they start with
			t.Errorf("a kick elected after %v", d)
		}
		began := time.Now()
		c.propose(2, 100, 1000)
		t.Logf("100 proposals one by one at 1 ms of latency: %v", time.Since(began))
		c.awaitApplied(100)
		if d := c.kick(3); d > 50*time.Millisecond {
			t.Errorf("a kick against a leader elected after %v", d)
		}
		c.propose(3, 10, 1000)
		c.awaitApplied(110)
		for node, h := range c.hosts {
			h.registry.mu.Lock()
			if h.registry.wrong != "" || h.registry.added <= 3 {
				t.Errorf("node %d learned %q, in %d adds", node, h.registry.wrong, h.registry.added)
			}
			h.registry.mu.Unlock()
		}
	})
}

// TestProposalsAreNotForwarded proposes on a follower: PROTOCOL 1.
func TestProposalsAreNotForwarded(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		c := three(t, l)
		c.kick(1)
		c.propose(1, 1, 1)
		c.awaitApplied(1)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		nh := c.hosts[2].nh
		_, err := nh.SyncPropose(ctx, nh.GetNoOPSession(testShard), []byte("by the library"))
		if !errors.Is(err, dragonboat.ErrTimeout) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a proposal on a follower ended with %v", err)
		}
		if n := c.hosts[2].net.Stats().ProposalsDropped; n != 1 {
			t.Errorf("%d proposals were dropped", n)
		}
		c.propose(1, 1, 1)
		c.awaitApplied(2)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.applied[1] != 2 {
			t.Errorf("%d commands were applied", c.applied[1])
		}
	})
}

// TestLeaderDies kills leaders; the survivors go on at once, and the killed node is back soon after its restart.
func TestLeaderDies(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		c := three(t, l)
		c.kick(1)
		c.propose(1, 10, 100)
		c.awaitApplied(10)
		total := uint64(10)
		for round := range 6 {
			old, next := uint64(round%3+1), uint64((round+1)%3+1)
			fs := c.hosts[old].fs
			l.net.Host(hostOf(old)).Kill()
			c.stop(old)
			l.nodes[old].Close()
			if d := c.kick(next); d > 50*time.Millisecond {
				t.Errorf("round %d: the survivors elected after %v", round, d)
			}
			c.propose(next, 10, 100)
			total += 10
			time.Sleep(time.Duration(round) * 3 * time.Second)
			c.start(old, l.open(old), fs)
			restarted := time.Now()
			c.mu.Lock()
			c.applied[old] = 0 // it replays
			c.mu.Unlock()
			c.replica(old, []uint64{1, 2, 3}, false)
			c.awaitApplied(total)
			if d := time.Since(restarted); d > 500*time.Millisecond {
				t.Errorf("round %d: the restarted node had caught up after %v", round, d)
			}
		}
	})
}

// TestPartitionHeals cuts the leader off in every way; the library's own memory of failures must not keep nodes apart after the heal.
func TestPartitionHeals(t *testing.T) {
	for name, cut := range map[string]func(*memnet.Net){
		"stall":           func(n *memnet.Net) { n.Isolate("n1", memnet.Stall) },
		"reset":           func(n *memnet.Net) { n.Isolate("n1", memnet.Reset) },
		"hears nobody":    func(n *memnet.Net) { n.Cut("n2", "n1", memnet.Stall); n.Cut("n3", "n1", memnet.Stall) },
		"is not heard of": func(n *memnet.Net) { n.Cut("n1", "n2", memnet.Stall); n.Cut("n1", "n3", memnet.Stall) },
	} {
		for _, lasts := range []time.Duration{time.Second, 20 * time.Second} {
			t.Run(fmt.Sprint(name, " ", lasts), func(t *testing.T) {
				inBubble(t, func(t *testing.T, l *lab) {
					c := three(t, l)
					c.kick(1)
					c.propose(1, 10, 100)
					cut(l.net)
					c.kick(2)
					c.propose(2, 10, 100)
					time.Sleep(lasts)
					l.net.HealAll()
					healed := time.Now()
					c.awaitApplied(20)
					t.Logf("the healed node had caught up after %v", time.Since(healed))
					if d := time.Since(healed); d > 500*time.Millisecond {
						t.Errorf("the healed node had caught up after %v", d)
					}
					c.propose(2, 10, 100)
					c.awaitApplied(30)
				})
			})
		}
	}
}

// TestFilter drops, doubles and reorders Raft messages between nodes; nothing is lost or doubled above.
func TestFilter(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		seen := make(map[[2]uint64]int)
		var held []pb.MessageBatch
		c := three(t, l, func(cfg *Config) {
			cfg.Filter = func(from, to uint64, b pb.MessageBatch) []pb.MessageBatch {
				l.mu.Lock()
				defer l.mu.Unlock()
				seen[[2]uint64{from, to}]++
				n := seen[[2]uint64{from, to}]
				switch {
				case from == 1 && to == 3 && n%5 == 0:
					return nil
				case from == 1 && to == 2 && n%3 == 0:
					return []pb.MessageBatch{b, b}
				case from == 1 && to == 2 && n%7 == 0:
					b.Requests = slices.Clone(b.Requests)
					held = append(held, b)
					return nil
				}
				if from == 1 && to == 2 && len(held) > 0 {
					late := held
					held = nil
					return append([]pb.MessageBatch{b}, late...)
				}
				return []pb.MessageBatch{b}
			}
		})
		c.kick(1)
		c.propose(1, 200, 100)
		c.awaitApplied(200)
		l.mu.Lock()
		defer l.mu.Unlock()
		c.mu.Lock()
		defer c.mu.Unlock()
		for node, n := range c.applied {
			if n != 200 || c.bytes[node] != 200*100 {
				t.Errorf("node %d applied %d commands with %d bytes", node, n, c.bytes[node])
			}
		}
		for _, way := range [][2]uint64{{1, 2}, {1, 3}, {2, 1}, {3, 1}} {
			if seen[way] < 100 {
				t.Errorf("%d batches seen of %v", seen[way], way)
			}
		}
	})
}

// TestDangerousMessagesAreNotTaken sends, with a good handshake, what would make the library panic.
func TestDangerousMessagesAreNotTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		a, b := l.open(1), l.open(2)
		var got []pb.Message
		b.library.open(1, func(batch pb.MessageBatch) {
			if batch.SourceAddress != Target(testCluster, 1) {
				t.Errorf("the source is %q", batch.SourceAddress)
			}
			got = append(got, batch.Requests...)
		}, func(pb.Chunk) bool { return true })
		s, err := a.dial(t.Context(), a.cfg.Dial, 2, PurposeRaft)
		must(t, err)
		var all []pb.Message
		for typ := pb.LocalTick; typ <= pb.LogQuery+1; typ++ {
			all = append(all, pb.Message{Type: typ, To: 2, From: 1, ShardID: 9}, pb.Message{Type: typ, From: 1, ShardID: 9})
		}
		payload, err := (&pb.MessageBatch{Requests: all, SourceAddress: Target(testCluster, 3)}).Marshal()
		must(t, err)
		must(t, s.send(appendFrame(nil, frameData, payload)))
		synctest.Wait()
		if len(got) != 16 {
			t.Errorf("%d messages came through", len(got))
		}
		for _, m := range got {
			if m.Type == pb.Propose || m.Type == pb.Unreachable || m.Type == pb.InstallSnapshot || m.To == 0 {
				t.Errorf("%v to %d came through", m.Type, m.To)
			}
		}
		must(t, s.send(appendFrame(nil, frameData, []byte{0x0a, 0xff})))
		synctest.Wait()
		if b.Stats().SessionsFailed != 1 {
			t.Error("a batch that cannot be decoded did not end the connection")
		}
		s.fail(ErrClosed)
	})
}

// TestSilentRaftPeer: a connection into a host without power must not be trusted, though every write succeeds.
func TestSilentRaftPeer(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		a, b := l.open(1), l.open(2)
		counted := 0
		take := func(pb.MessageBatch) { counted++ }
		b.library.open(1, take, nil)
		end := a.Create(nodeHostConfig, func(pb.MessageBatch) {}, nil)
		conn, err := end.GetConnection(t.Context(), Target(testCluster, 2))
		must(t, err)
		defer conn.Close()
		must(t, conn.SendMessageBatch(sampleBatch(1, 10)))
		synctest.Wait()
		l.net.Host("n2").PowerOff()
		for range 40 { // a heartbeat every 100 ms fills no window
			must(t, conn.SendMessageBatch(sampleBatch(1, 10)))
			time.Sleep(100 * time.Millisecond)
		}
		if open := a.Stats().Connections; open != 0 {
			t.Errorf("%d connections into the dark are kept", open)
		}
		b.Close()
		time.Sleep(time.Minute)
		l.net.Host("n2").PowerOn()
		b = l.open(2)
		b.library.open(1, take, nil)
		counted = 0
		back := time.Now()
		for counted == 0 {
			must(t, conn.SendMessageBatch(sampleBatch(1, 10)))
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		if d := time.Since(back); d > 500*time.Millisecond {
			t.Errorf("the node was back for %v before it got a message", d)
		}
	})
}

// openRaft opens nodes 1 and 2 and a Raft connection from 1 to 2, whose library takes messages as take says.
func (l *lab) openRaft(take func(pb.MessageBatch), change ...func(*Config)) raftio.IConnection {
	l.t.Helper()
	a, b := l.open(1, change...), l.open(2)
	must(l.t, b.Create(nodeHostConfig, take, nil).Start())
	conn, err := a.Create(nodeHostConfig, func(pb.MessageBatch) {}, nil).GetConnection(l.t.Context(), Target(testCluster, 2))
	must(l.t, err)
	l.t.Cleanup(conn.Close)
	return conn
}

// The NodeHost would panic about messages between Create and Start.
func TestNoMessagesBeforeStart(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		a, b := l.open(1), l.open(2)
		end := b.Create(nodeHostConfig, func(pb.MessageBatch) { t.Error("a message before Start") }, nil)
		b.Kick(1, 1)
		_, err := a.dial(t.Context(), a.cfg.Dial, 2, PurposeRaft)
		wantError(t, err, ErrNotReady)
		must(t, end.Close())
	})
}

// A kick after the end must not reach a NodeHost that is gone.
func TestKickAfterClose(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		for name, f := range map[string]config.TransportFactory{"network": l.open(1), "one node": New()} {
			var kicks []pb.MessageBatch
			end := f.Create(nodeHostConfig, func(b pb.MessageBatch) { kicks = append(kicks, b) }, nil)
			must(t, end.Start())
			kick := f.(interface {
				Kick(shardID, replicaID uint64)
			})
			kick.Kick(7, 8)
			must(t, end.Close())
			kick.Kick(7, 9)
			if len(kicks) != 1 {
				t.Fatalf("%s: %d kicks arrived", name, len(kicks))
			}
			b := kicks[0]
			if m := b.Requests[0]; b.DeploymentId != 1 || b.BinVer != raftio.TransportBinVersion || m.Type != pb.TimeoutNow || m.ShardID != 7 || m.To != 8 || m.From != 8 {
				t.Errorf("%s: the kick is %+v", name, b)
			}
		}
	})
}

// Large batches go in several frames: a heartbeat does not wait for the decoding of a catch-up. What is too large to go at all is lost, counted, and does no harm.
func TestBatchesAreSplit(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		var got []pb.Message
		largest := 0
		conn := l.openRaft(func(b pb.MessageBatch) {
			got = append(got, b.Requests...)
			largest = max(largest, b.Size())
			if b.DeploymentId != 1 || b.BinVer != raftio.TransportBinVersion {
				t.Errorf("deployment %d, version %d", b.DeploymentId, b.BinVer)
			}
		})
		sent := sampleBatch(100, 64<<10)
		must(t, conn.SendMessageBatch(sent))
		synctest.Wait()
		if len(got) != 100 || largest > limits.RaftFrameBytes+65<<10 {
			t.Errorf("%d messages, the largest frame has %d bytes", len(got), largest)
		}
		for i, m := range got {
			if m.ShardID != uint64(i+1) || !bytes.Equal(m.Entries[0].Cmd, sent.Requests[i].Entries[0].Cmd) {
				t.Fatalf("message %d is another one", i)
			}
		}
		large := sampleBatch(1, 1)
		large.Requests[0].Entries[0].Cmd = make([]byte, limits.RaftMessageBytesMax)
		must(t, conn.SendMessageBatch(large))
		must(t, conn.SendMessageBatch(sampleBatch(1, 1)))
		synctest.Wait()
		if n := l.nodes[1].Stats().BatchesLost; n != 1 || len(got) != 101 {
			t.Errorf("%d batches are lost, %d messages arrived", n, len(got))
		}
	})
}

// TestHintEndsTheWait: a node that was away calls; nobody goes on waiting for the retransmission of what was sent to it before, nor for the next attempt.
func TestHintEndsTheWait(t *testing.T) {
	for _, refused := range []bool{false, true} {
		inBubble(t, func(t *testing.T, l *lab) {
			var back atomic.Bool
			var came atomic.Pointer[time.Time]
			take := func(pb.MessageBatch) { now := time.Now(); came.CompareAndSwap(nil, &now) }
			conn := l.openRaft(take, func(cfg *Config) {
				dial := cfg.Dial
				cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
					if back.Load() {
						return dial(ctx, addr)
					}
					if !refused {
						<-ctx.Done()
					}
					return nil, ErrUnreachable
				}
			})
			var sending sync.WaitGroup
			sending.Go(func() {
				for conn.SendMessageBatch(sampleBatch(1, 1)) == nil {
					time.Sleep(time.Millisecond)
				}
			})
			time.Sleep(2345 * time.Millisecond) // in the middle of a dial, or of a pause
			back.Store(true)
			l.nodes[1].OnLink(func(*Link) {})
			called := time.Now()
			_, err := l.nodes[2].DialLink(t.Context(), 1)
			must(t, err)
			time.Sleep(time.Second)
			if at := came.Load(); at == nil || at.Sub(called) > 10*time.Millisecond {
				t.Errorf("refused %v: called at %v, the message came at %v", refused, called, at)
			}
			conn.Close()
			sending.Wait()
		})
	}
}

// A lost connection costs no message if the node is there: the batch that finds the end goes again.
func TestBatchAfterLostConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		got := 0
		conn := l.openRaft(func(b pb.MessageBatch) { got += len(b.Requests) })
		for range 5 {
			must(t, conn.SendMessageBatch(sampleBatch(1, 1)))
			synctest.Wait()
			l.nodes[2].Reset(1)
			synctest.Wait()
		}
		must(t, conn.SendMessageBatch(sampleBatch(1, 1)))
		synctest.Wait()
		if got != 6 {
			t.Errorf("%d messages of 6 arrived", got)
		}
	})
}

// failingConn fails to write when told.
type failingConn struct {
	net.Conn
	broken *atomic.Bool
}

func (c failingConn) Write(p []byte) (int, error) {
	if c.broken.Swap(false) {
		return len(p) / 2, errors.New("broken on purpose")
	}
	return c.Conn.Write(p)
}

// A write that fails tells nothing about the node; the batch goes again, whole, on a new connection.
func TestBatchOverBrokenConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		got := 0
		var broken atomic.Bool
		conn := l.openRaft(func(b pb.MessageBatch) { got += len(b.Requests) }, func(cfg *Config) {
			dial := cfg.Dial
			cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
				c, err := dial(ctx, addr)
				return failingConn{c, &broken}, err
			}
		})
		for range 5 {
			must(t, conn.SendMessageBatch(sampleBatch(2, 100)))
			broken.Store(true)
		}
		synctest.Wait()
		if got != 10 {
			t.Errorf("%d messages of 10 arrived", got)
		}
	})
}

// TestTargets pins the form, which is on disk, and what is no target.
func TestTargets(t *testing.T) {
	const want = "01020304-0506-0708-1112-131415161718"
	got := Target(0x0102030405060708, 0x1112131415161718)
	if got != want {
		t.Errorf("Target is %q, want %q", got, want)
	}
	for _, s := range []string{want, want + "#3"} {
		cluster, node, err := ParseTarget(s)
		if err != nil || cluster != 0x0102030405060708 || node != 0x1112131415161718 {
			t.Errorf("ParseTarget(%q) = %x, %x, %v", s, cluster, node, err)
		}
	}
	for _, s := range []string{"", "n1:1", want + "0", "0" + want, "0102030405060708-1112131415161718", "#1", want[:35] + "X"} {
		if _, _, err := ParseTarget(s); err == nil {
			t.Errorf("%q is taken for a target", s)
		}
	}
	l := newLab(t)
	end := l.open(1).Create(nodeHostConfig, nil, nil)
	if _, err := end.GetConnection(t.Context(), Target(testCluster+1, 2)); err == nil {
		t.Error("a node of another cluster can be connected to")
	}
}

// TestClusterOverTCP is the same over real sockets.
func TestClusterOverTCP(t *testing.T) {
	l := newLab(t)
	ports := make(map[uint64]net.Listener)
	for node := uint64(1); node <= 3; node++ {
		port, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		ports[node] = port
	}
	c := newCluster(t)
	for node := uint64(1); node <= 3; node++ {
		n := l.open(node, func(cfg *Config) {
			cfg.Listener.Close()
			cfg.Listener, cfg.Dial = ports[node], nil
			cfg.Resolve = func(target string) (string, error) {
				_, node, err := ParseTarget(target)
				return ports[node].Addr().String(), err
			}
		})
		c.start(node, n, vfs.NewMem())
	}
	defer func() {
		for node := range c.hosts {
			c.hosts[node].nh.Close()
		}
	}()
	for node := uint64(1); node <= 3; node++ {
		c.replica(node, []uint64{1, 2, 3}, false)
	}
	t.Logf("a kick elected after %v", c.kick(1))
	began := time.Now()
	c.proposeAnywhere(200, 1000)
	t.Logf("200 proposals one by one: %v each", time.Since(began)/200)
	c.proposeAnywhere(2, 3<<20)
	c.awaitApplied(202)
}

var (
	nodeHostConfig                           = config.NodeHostConfig{DeploymentID: 1}
	_              raftio.IRaftEventListener = (*cluster)(nil)
)
