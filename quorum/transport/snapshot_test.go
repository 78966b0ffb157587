package transport

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/dragonboat/v4"
	pb "github.com/lni/dragonboat/v4/raftpb"
	"github.com/lni/vfs"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/quorum/quorumtest/memnet"
)

// TestSnapshotInstall adds a replica to a group whose log is cut, for both kinds of machines: one streams, the other sends a file.
func TestSnapshotInstall(t *testing.T) {
	const megabytes, rate = 8, 1 << 20
	for _, onDisk := range []bool{true, false} {
		t.Run(fmt.Sprint("onDisk=", onDisk), func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				l.net.SetLatency("", "", time.Millisecond)
				c := newCluster(t)
				for node := uint64(1); node <= 3; node++ {
					c.start(node, l.open(node, func(cfg *Config) { cfg.SnapshotBytesPerSecond = rate }), vfs.NewMem())
				}
				defer func() {
					for node := range c.hosts {
						c.hosts[node].nh.Close()
					}
				}()
				c.replica(1, []uint64{1, 2}, onDisk)
				c.replica(2, []uint64{1, 2}, onDisk)
				c.kick(1)
				c.propose(1, megabytes, 1<<20)
				nh := c.hosts[1].nh
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
				defer cancel()
				_, err := nh.SyncRequestSnapshot(ctx, testShard, dragonboat.SnapshotOption{OverrideCompactionOverhead: true, CompactionOverhead: 1})
				must(t, err)
				m, err := nh.SyncGetShardMembership(ctx, testShard)
				must(t, err)
				must(t, nh.SyncRequestAddReplica(ctx, testShard, 3, Target(testCluster, 3), m.ConfigChangeID))
				began := time.Now()
				c.replica(3, nil, onDisk)
				c.propose(1, 100, 10) // while the stream runs
				if d := time.Since(began); d > 2*time.Second {
					t.Errorf("100 proposals beside a snapshot took %v", d)
				}
				c.awaitApplied(megabytes + 100)
				d, least := time.Since(began), time.Duration(megabytes-1)<<20*time.Second/rate
				t.Logf("%d MiB installed after %v", megabytes, d)
				if d < least || d > 2*least {
					t.Errorf("the snapshot took %v, at its rate it takes %v", d, least)
				}
				c.mu.Lock()
				if c.bytes[3] != megabytes<<20+1000 {
					t.Errorf("the new replica has %d bytes", c.bytes[3])
				}
				c.mu.Unlock()
				if sent := c.hosts[1].net.Stats().SnapshotBytesSent; sent < megabytes<<20 {
					t.Errorf("%d bytes went as a snapshot", sent)
				}
				if wrong := c.hosts[3].registry.wrong; wrong != "" {
					t.Errorf("the new replica learned %s", wrong)
				}
			})
		})
	}
}

// streams opens nodes 1 and 2, whose library takes chunks as take says, and returns a stream from 1 to 2.
func (l *lab) streams(count int, take func(pb.Chunk) bool, change ...func(*Config)) []*snapshotConnection {
	l.t.Helper()
	a, b := l.open(1, change...), l.open(2)
	b.library.open(1, func(pb.MessageBatch) {}, take)
	end := a.Create(nodeHostConfig, func(pb.MessageBatch) {}, nil)
	var all []*snapshotConnection
	for range count {
		c, err := end.GetSnapshotConnection(context.Background(), Target(testCluster, 2))
		must(l.t, err)
		all = append(all, c.(*snapshotConnection))
	}
	return all
}

// chunkOf is chunk i of n, with 2 MiB of data.
func chunkOf(i, n int) pb.Chunk { return sizedChunk(i, n, 2<<20) }

func sizedChunk(i, n, size int) pb.Chunk {
	return pb.Chunk{ShardID: 1, ReplicaID: 2, From: 1, ChunkId: uint64(i), ChunkCount: uint64(n), ChunkSize: uint64(size), Data: make([]byte, size)}
}

func TestRejectedChunkIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		got := 0
		s := l.streams(1, func(c pb.Chunk) bool { got++; return c.ChunkId < 3 })[0]
		var err error
		sent := 0
		for ; err == nil && sent < 4; sent++ {
			err = s.SendChunk(chunkOf(sent, 4))
		}
		if err == nil || got != 4 {
			t.Errorf("the last of 4 chunks was not accepted, the sender heard %v; %d arrived", err, got)
		}
		t.Log(err)
		s.Close()
	})
}

// The last chunk is sent when it is taken, and never more than a window is on its way.
func TestSenderWaitsForTheReceiver(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		const disk = 3 * time.Second
		taken := 0
		var s *snapshotConnection
		s = l.streams(1, func(pb.Chunk) bool {
			synctest.Wait()
			if ahead := s.sent - uint64(taken); ahead > limits.SnapshotWindowChunks {
				t.Errorf("%d chunks were sent that nobody had taken", ahead)
			}
			time.Sleep(disk)
			taken++
			return true
		})[0]
		began := time.Now()
		for i := range 10 {
			must(t, s.SendChunk(sizedChunk(i, 10, 1000))) // the network takes them all at once
		}
		if d := time.Since(began); taken != 10 || d < 10*disk || d > 11*disk {
			t.Errorf("%d chunks were taken in %v, each takes %v", taken, d, disk)
		}
		s.Close()
	})
}

func TestStreamsShareTheRate(t *testing.T) {
	const rate = 16 << 20
	inBubble(t, func(t *testing.T, l *lab) {
		taken := make(map[uint64]int)
		streams := l.streams(4, func(c pb.Chunk) bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			taken[c.ShardID]++
			return true
		}, func(cfg *Config) { cfg.SnapshotBytesPerSecond = rate })
		began := time.Now()
		for i, s := range streams {
			go func() {
				for k := 0; ; k++ {
					c := chunkOf(k, 1<<30)
					c.ShardID = uint64(i)
					if s.SendChunk(c) != nil {
						return
					}
				}
			}()
		}
		time.Sleep(10 * time.Second)
		l.mu.Lock()
		total := 0
		for _, n := range taken {
			total += n
			if n < 17 || n > 23 {
				t.Errorf("one of four streams has sent %d chunks of 80", n)
			}
		}
		l.mu.Unlock()
		if got := total * 2 << 20 / int(time.Since(began).Seconds()); got > rate || got < rate*9/10 {
			t.Errorf("%d bytes a second were sent, the limit is %d", got, rate)
		}
		for _, s := range streams {
			s.Close()
		}
	})
}

// A stream that stands still ends, whoever stopped.
func TestStreamWithoutProgress(t *testing.T) {
	const patience = limits.SnapshotProgressMillis * time.Millisecond
	for _, size := range []int{1000, 2 << 20} { // the network takes such chunks, or it does not
		inBubble(t, func(t *testing.T, l *lab) {
			stuck := make(chan struct{})
			defer close(stuck)
			s := l.streams(1, func(pb.Chunk) bool { <-stuck; return true })[0]
			began := time.Now()
			var err error
			sent := 0
			for ; err == nil; sent++ {
				err = s.SendChunk(sizedChunk(sent, 9, size))
			}
			wantError(t, err, ErrSilent)
			if d := time.Since(began); sent > limits.SnapshotWindowChunks+1 || d < patience || d > patience+time.Second {
				t.Errorf("the sender gave up at chunk %d, after %v", sent, d)
			}
			s.Close()
		})
	}
	inBubble(t, func(t *testing.T, l *lab) {
		s := l.streams(1, func(pb.Chunk) bool { return true })[0]
		must(t, s.SendChunk(chunkOf(0, 9)))
		l.net.Isolate("n2", memnet.Stall)
		began := time.Now()
		err := s.SendChunk(chunkOf(1, 9))
		wantError(t, err, ErrSilent)
		if d := time.Since(began); d > patience+time.Second {
			t.Errorf("the sender waited %v", d)
		}
		time.Sleep(limits.RaftPingMillis * time.Millisecond)
		synctest.Wait()
		if n := l.nodes[2].Stats().Connections; n != 0 {
			t.Errorf("the receiver keeps %d connections", n)
		}
	})
}

// The NodeHost's stop must not wait for a peer that takes nothing.
func TestStopDuringStream(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		stuck := make(chan struct{})
		defer close(stuck)
		a, b := l.open(1), l.open(2)
		b.library.open(1, func(pb.MessageBatch) {}, func(pb.Chunk) bool { <-stuck; return true })
		end := a.Create(nodeHostConfig, func(pb.MessageBatch) {}, nil)
		ctx, cancel := context.WithCancel(context.Background())
		s, err := end.GetSnapshotConnection(ctx, Target(testCluster, 2))
		must(t, err)
		r, err := end.GetConnection(ctx, Target(testCluster, 2))
		must(t, err)
		l.net.Isolate("n2", memnet.Stall)
		failed := make(chan error, 2)
		go func() {
			for i := 0; ; i++ {
				if err := s.SendChunk(chunkOf(i, 99)); err != nil {
					failed <- err
					return
				}
			}
		}()
		go func() {
			for {
				if err := r.SendMessageBatch(sampleBatch(10, 100_000)); err != nil {
					failed <- err
					return
				}
			}
		}()
		time.Sleep(time.Second)
		began := time.Now()
		cancel()
		wantError(t, <-failed, ErrClosed)
		wantError(t, <-failed, ErrClosed)
		must(t, end.Close())
		if d := time.Since(began); d > 10*time.Millisecond {
			t.Errorf("the stop took %v", d)
		}
	})
}
