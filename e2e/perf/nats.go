package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	natsStream  = "perf"
	natsSubject = "perf.q"
)

// natsServer is one node of a JetStream cluster, until it gets SIGTERM. It is a process of its own, as a node of Warren is.
func natsServer(args []string) error {
	flags := flag.NewFlagSet("nats-server", flag.ExitOnError)
	name := flags.String("name", "n1", "of the node")
	port := flags.Int("port", 0, "for clients")
	cluster := flags.Int("cluster", 0, "port for other nodes")
	routes := flags.String("routes", "", "URLs of the other nodes' cluster ports")
	dir := flags.String("dir", "", "data")
	sync := flags.Bool("sync", false, "fsync before every acknowledgement")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := server.NewServer(&server.Options{
		ServerName: *name, Host: "127.0.0.1", Port: *port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: *dir, SyncAlways: *sync,
		Cluster: server.ClusterOpts{Name: "perf", Host: "127.0.0.1", Port: *cluster},
		Routes:  server.RoutesFromStr(*routes),
	})
	if err != nil {
		return err
	}
	s.Start()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// natsCluster starts three nodes and returns a client's URLs and what ends them.
func natsCluster(dir string, sync bool) (urls string, end func(), err error) {
	const nodes = 3
	var ports, clusters [nodes]int
	routes := ""
	for i := range nodes {
		if ports[i], err = freePort(); err != nil {
			return "", nil, err
		}
		if clusters[i], err = freePort(); err != nil {
			return "", nil, err
		}
		routes += fmt.Sprintf(",nats://127.0.0.1:%d", clusters[i])
		urls += fmt.Sprintf(",nats://127.0.0.1:%d", ports[i])
	}
	var started []*exec.Cmd
	end = func() {
		for _, c := range started {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	for i := range nodes {
		c := exec.Command(os.Args[0], "nats-server", "-name", fmt.Sprint("n", i+1), "-port", fmt.Sprint(ports[i]), "-cluster", fmt.Sprint(clusters[i]), "-routes", routes[1:],
			"-dir", filepath.Join(dir, fmt.Sprint("n", i+1)), fmt.Sprintf("-sync=%t", sync))
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			end()
			return "", nil, err
		}
		started = append(started, c)
	}
	return urls[1:], end, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// natsBench publishes to a stream with three replicas with a window of unconfirmed messages while a consumer takes them and acknowledges as often as the window of the AMQP side does. It is the same
// load as `amqpctl bench`: 1 producer, 1 consumer, time after warm-up.
func natsBench(urls string, l load) (rates, error) {
	var r rates
	if _, err := url.Parse(urls); err != nil {
		return r, err
	}
	nc, err := nats.Connect(urls, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return r, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(l.window))
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	stream, err := natsCreate(ctx, js)
	if err != nil {
		return r, err
	}
	consumer, err := stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckAllPolicy, MaxAckPending: l.window})
	if err != nil {
		return r, err
	}
	var confirmed, consumed counter
	taking, err := consumer.Consume(func(m jetstream.Msg) {
		if n := consumed.add(); n%uint64(l.ackEvery) == 0 {
			_ = m.Ack()
		}
	}, jetstream.PullMaxMessages(l.window))
	if err != nil {
		return r, err
	}
	defer taking.Stop()
	stop := make(chan struct{})
	failed := make(chan error, 1)
	go func() { failed <- natsPublish(js, l, &confirmed, stop) }()
	time.Sleep(l.warmup)
	before, beforeIn, began := confirmed.n.Load(), consumed.n.Load(), time.Now()
	time.Sleep(l.time)
	r.confirmed = float64(confirmed.n.Load()-before) / time.Since(began).Seconds()
	r.consumed = float64(consumed.n.Load()-beforeIn) / time.Since(began).Seconds()
	close(stop)
	if err := <-failed; err != nil {
		return r, err
	}
	for deadline := time.Now().Add(startTimeout); consumed.n.Load() < confirmed.n.Load(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return r, fmt.Errorf("%d of %d messages were not consumed", confirmed.n.Load()-consumed.n.Load(), confirmed.n.Load())
		}
	}
	return r, nil
}

// natsCreate creates the stream, which keeps a message until the consumer has acknowledged it, as a queue does (a work-queue stream would want an acknowledgement of each). Until the nodes have found each other a request is not answered.
func natsCreate(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	var last error
	for ctx.Err() == nil {
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		stream, err := js.CreateStream(once, jetstream.StreamConfig{Name: natsStream, Subjects: []string{natsSubject}, Replicas: 3, Storage: jetstream.FileStorage, Retention: jetstream.InterestPolicy})
		if err == nil {
			cancel()
			return stream, nil
		}
		last = err
		<-once.Done()
		cancel()
	}
	return nil, last
}

// natsPublish keeps the window full until stop is closed, and waits for the rest.
func natsPublish(js jetstream.JetStream, l load, confirmed *counter, stop chan struct{}) error {
	body := make([]byte, l.size)
	window := make(chan jetstream.PubAckFuture, l.window)
	done := make(chan error, 1)
	go func() {
		for f := range window {
			select {
			case <-f.Ok():
				confirmed.add()
			case err := <-f.Err():
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		select {
		case <-stop:
			close(window)
			return <-done
		case err := <-done:
			return errors.Join(errors.New("a publish failed"), err)
		default:
		}
		f, err := js.PublishAsync(natsSubject, body, jetstream.WithStallWait(startTimeout))
		if err != nil {
			return err
		}
		window <- f
	}
}
