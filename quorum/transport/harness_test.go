package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/quorum/quorumtest/memnet"
)

const testCluster = 0xC1

var testSecret = []byte("a secret of the tests, long enough")

// lab is a network in memory with nodes on it. Node i is host "ni" and listens on port 1.
type lab struct {
	t     *testing.T
	net   *memnet.Net
	nodes map[uint64]*Network

	mu      sync.Mutex
	refused []error
}

// inBubble runs f in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newLab(t)) })
}

func newLab(t *testing.T) *lab {
	return &lab{t: t, net: memnet.New(), nodes: make(map[uint64]*Network)}
}

func hostOf(node uint64) string { return fmt.Sprintf("n%d", node) }

// resolve is a catalogue in which every node is where its id says.
func resolve(target string) (string, error) {
	_, node, err := ParseTarget(target)
	return hostOf(node) + ":1", err
}

// config is what node opens with.
func (l *lab) config(node uint64) Config {
	l.t.Helper()
	port, err := l.net.Host(hostOf(node)).Listen(1)
	if err != nil {
		l.t.Fatal(err)
	}
	return Config{
		Node: node, Cluster: testCluster, Boot: Boot{Counter: 1, Nonce: 100 + node}, Secret: testSecret, Listener: port, Dial: l.net.Host(hostOf(node)).Dial, Resolve: resolve,
		Log: slog.New(slog.DiscardHandler), Refused: l.noteRefused,
	}
}

func (l *lab) noteRefused(_ Peer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = append(l.refused, err)
}

// lastRefused returns and forgets what the called side said last.
func (l *lab) lastRefused() error {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.refused) == 0 {
		return nil
	}
	err := l.refused[len(l.refused)-1]
	l.refused = nil
	return err
}

// open starts a node; it is closed with the test.
func (l *lab) open(node uint64, change ...func(*Config)) *Network {
	l.t.Helper()
	cfg := l.config(node)
	for _, f := range change {
		f(&cfg)
	}
	n, err := Open(cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	l.nodes[node] = n
	l.t.Cleanup(func() { n.Close() })
	return n
}

// links opens nodes 1 and 2 and a link from 1 to 2.
func (l *lab) links(change ...func(*Config)) (near, far *Link) {
	l.t.Helper()
	a, b := l.open(1, change...), l.open(2, change...)
	accepted := make(chan *Link, 1)
	b.OnLink(func(k *Link) { accepted <- k })
	near, err := a.DialLink(l.t.Context(), 2)
	if err != nil {
		l.t.Fatal(err)
	}
	return near, <-accepted
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("error %v, want %v", got, want)
	}
}

// stranger connects as a host that is no node.
func (l *lab) stranger() net.Conn {
	l.t.Helper()
	c, err := l.net.Host("stranger").Dial(context.Background(), "n1:1")
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// deaf is a connection from which a script is read and to which anything may be written.
type deaf struct {
	net.Conn
	io.Reader
}

func (d deaf) Read(p []byte) (int, error)  { return d.Reader.Read(p) }
func (d deaf) Write(p []byte) (int, error) { return len(p), nil }
func (d deaf) RemoteAddr() net.Addr        { return &net.TCPAddr{} }

// sampleBatch is a batch of Replicate messages, each for a group of its own, with one entry of so many bytes.
func sampleBatch(messages, entryBytes int) pb.MessageBatch {
	b := pb.MessageBatch{DeploymentId: 1, BinVer: raftio.TransportBinVersion}
	for i := range messages {
		b.Requests = append(b.Requests, pb.Message{
			Type: pb.Replicate, ShardID: uint64(i + 1), From: 1, To: 2, Term: 5, LogTerm: 5, LogIndex: 1000, Commit: 999,
			Entries: []pb.Entry{{Type: pb.EncodedEntry, Term: 5, Index: 1001, Cmd: bytes.Repeat([]byte{byte(i)}, entryBytes)}},
		})
	}
	return b
}
