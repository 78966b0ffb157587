package transport

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/vfs"
)

// countingRegistry counts the messages that a NodeHost gets: it is told of each one's source.
type countingRegistry struct {
	testRegistry
	count atomic.Int64
	want  atomic.Int64
	done  chan struct{}
}

func (r *countingRegistry) Create(string, uint64, config.TargetValidator) (raftio.INodeRegistry, error) {
	return r, nil
}
func (r *countingRegistry) Add(_, _ uint64, _ string) {
	if r.count.Add(1) == r.want.Load() {
		r.done <- struct{}{}
	}
}

// benchHost is a NodeHost without groups, over the library's own transport if factory is nil.
func benchHost(b *testing.B, node uint64, address string, factory config.TransportFactory) (*dragonboat.NodeHost, *countingRegistry) {
	b.Helper()
	r := &countingRegistry{done: make(chan struct{}, 1)}
	logdb := config.GetTinyMemLogDBConfig()
	logdb.Shards = 1
	nh, err := dragonboat.NewNodeHost(config.NodeHostConfig{
		DeploymentID: 1, NodeHostID: Target(testCluster, node), NodeHostDir: "/raft", RTTMillisecond: 100, RaftAddress: address,
		Expert: config.ExpertConfig{
			FS: vfs.NewMem(), TransportFactory: factory, NodeRegistryFactory: r, LogDB: logdb,
			Engine: config.EngineConfig{ExecShards: 1, CommitShards: 1, ApplyShards: 1, SnapshotShards: 1, CloseShards: 1},
		},
	})
	must(b, err)
	b.Cleanup(nh.Close)
	return nh, r
}

// transportOf takes the transport out of a NodeHost, which keeps it to itself.
func transportOf(nh *dragonboat.NodeHost) raftio.ITransport {
	f := reflect.ValueOf(nh).Elem().FieldByName("transport")
	f = reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
	return f.Interface().(interface{ GetTrans() raftio.ITransport }).GetTrans()
}

// libraryPair connects two NodeHosts by the library's own TCP transport.
func libraryPair(b *testing.B) (raftio.IConnection, *countingRegistry) {
	var addresses []string
	for range 2 {
		port, err := net.Listen("tcp", "127.0.0.1:0")
		must(b, err)
		addresses = append(addresses, port.Addr().String())
		port.Close()
	}
	from, _ := benchHost(b, 1, addresses[0], nil)
	_, to := benchHost(b, 2, addresses[1], nil)
	conn, err := transportOf(from).GetConnection(context.Background(), addresses[1])
	must(b, err)
	return conn, to
}

// warrenPair connects two NodeHosts by Networks.
func warrenPair(b *testing.B) (raftio.IConnection, *countingRegistry) {
	var ports []net.Listener
	for range 2 {
		port, err := net.Listen("tcp", "127.0.0.1:0")
		must(b, err)
		ports = append(ports, port)
	}
	open := func(node uint64) *Network {
		n, err := Open(Config{
			Node: node, Cluster: testCluster, Secret: testSecret, Listener: ports[node-1],
			Resolve: func(target string) (string, error) {
				_, node, err := ParseTarget(target)
				return ports[node-1].Addr().String(), err
			},
		})
		must(b, err)
		b.Cleanup(func() { n.Close() })
		return n
	}
	from, _ := benchHost(b, 1, Target(testCluster, 1), open(1))
	_, to := benchHost(b, 2, Target(testCluster, 2), open(2))
	conn, err := transportOf(from).GetConnection(context.Background(), Target(testCluster, 2))
	must(b, err)
	return conn, to
}

// cpuTime is what this process has used of the processors, in ns: on a busy machine it says more than the clock.
func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkRaft sends batches of Replicate messages with one entry each over loopback TCP into a NodeHost, by this transport and by the library's own.
func BenchmarkRaft(b *testing.B) {
	for _, pair := range []struct {
		name string
		open func(*testing.B) (raftio.IConnection, *countingRegistry)
	}{{"warren", warrenPair}, {"library", libraryPair}} {
		for _, size := range []struct{ messages, entryBytes int }{{1, 64}, {1, 1 << 10}, {64, 1 << 10}, {1, 64 << 10}, {16, 64 << 10}, {1, 1 << 20}} {
			b.Run(fmt.Sprintf("%s/%dx%d", pair.name, size.messages, size.entryBytes), func(b *testing.B) {
				conn, to := pair.open(b)
				defer conn.Close()
				batch := sampleBatch(size.messages, size.entryBytes)
				batch.SourceAddress = Target(testCluster, 1)
				send := func(n int) {
					to.count.Store(0)
					to.want.Store(int64(n * size.messages))
					for range n {
						must(b, conn.SendMessageBatch(batch))
					}
					<-to.done
				}
				send(1)
				b.SetBytes(int64(size.messages * size.entryBytes))
				b.ReportAllocs()
				b.ResetTimer()
				before := cpuTime(b)
				send(b.N)
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
				b.ReportMetric(float64(b.N*size.messages)/b.Elapsed().Seconds(), "messages/s")
			})
		}
	}
}

// BenchmarkLink sends frames over loopback TCP; the sender waits when the link is busy.
func BenchmarkLink(b *testing.B) {
	for _, size := range []int{64, 1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			near, far := tcpLink(b)
			body := make([]byte, size-16)
			head := make([]byte, 16)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			done := make(chan error, 1)
			go func() {
				var buf []byte
				var err error
				for range b.N {
					if buf, err = far.ReceiveInto(buf); err != nil {
						break
					}
				}
				done <- err
			}()
			b.ResetTimer()
			for range b.N {
				for err := near.SendParts(head, body); err != nil; err = near.SendParts(head, body) {
					wantError(b, err, ErrBusy)
					must(b, near.Drain(context.Background()))
				}
			}
			must(b, <-done)
		})
	}
}

// BenchmarkLinkRoundTrip is one small frame there and one back.
func BenchmarkLinkRoundTrip(b *testing.B) {
	near, far := tcpLink(b)
	go func() {
		for {
			f, err := far.Receive()
			if err != nil || far.Send(f) != nil {
				return
			}
		}
	}()
	frame := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		must(b, near.Send(frame))
		_, err := near.Receive()
		must(b, err)
	}
}

// tcpLink is a link between two nodes on loopback TCP.
func tcpLink(b *testing.B) (near, far *Link) {
	b.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	open := func(node uint64, l net.Listener) *Network {
		n, err := Open(Config{Node: node, Cluster: testCluster, Secret: testSecret, Listener: l, Resolve: anywhere(port.Addr().String())})
		must(b, err)
		b.Cleanup(func() { n.Close() })
		return n
	}
	accepted := make(chan *Link, 1)
	open(2, port).OnLink(func(k *Link) { accepted <- k })
	near, err = open(1, other).DialLink(context.Background(), 2)
	must(b, err)
	return near, <-accepted
}
