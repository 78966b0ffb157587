package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
)

// load is what a cluster is put under: one producer with a window of unconfirmed messages, one consumer that acknowledges several at once.
type load struct {
	size, window, ackEvery int
	warmup, time           time.Duration
}

// rates are messages per second.
type rates struct{ confirmed, consumed float64 }

type counter struct{ n atomic.Uint64 }

func (c *counter) add() uint64 { return c.n.Add(1) }

// replicated compares three nodes of Warren with three of NATS JetStream on this machine: a queue and a stream with three replicas, one after the other, Warren first and last.
func replicated(args []string) error {
	flags := flag.NewFlagSet("replicated", flag.ExitOnError)
	l := load{}
	flags.IntVar(&l.size, "size", 1024, "bytes of a body")
	flags.IntVar(&l.window, "window", 1000, "unconfirmed messages")
	flags.IntVar(&l.ackEvery, "ack-every", 200, "messages that are acknowledged at once")
	flags.DurationVar(&l.warmup, "warmup", 3*time.Second, "not measured")
	flags.DurationVar(&l.time, "time", 10*time.Second, "measured")
	rounds := flags.Int("rounds", 1, "of all runs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	warren := func(dir string) (rates, error) { return warrenReplicated(dir, l) }
	nats := func(sync bool) func(string) (rates, error) {
		return func(dir string) (rates, error) {
			urls, end, err := natsCluster(dir, sync)
			if err != nil {
				return rates{}, err
			}
			defer end()
			return natsBench(urls, l)
		}
	}
	runs := []struct {
		name string
		run  func(dir string) (rates, error)
	}{
		{"Warren, quorum queue", warren}, {"NATS JetStream R3, fsync always", nats(true)},
		{"NATS JetStream R3, fsync every 2 min", nats(false)}, {"Warren, quorum queue", warren},
	}
	fmt.Printf("three nodes each, %d B bodies, window %d, an acknowledgement every %d, %v after %v\n\n| cluster | confirmed/s | consumed/s |\n|---|---|---|\n",
		l.size, l.window, l.ackEvery, l.time, l.warmup)
	for range *rounds {
		for _, r := range runs {
			dir, err := os.MkdirTemp("", "warren-perf-")
			if err != nil {
				return err
			}
			got, err := r.run(dir)
			os.RemoveAll(dir)
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			fmt.Printf("| %s | %.0f | %.0f |\n", r.name, got.confirmed, got.consumed)
		}
	}
	return nil
}

// warrenReplicated starts three nodes in dir and runs `amqpctl bench` on the first.
func warrenReplicated(dir string, l load) (rates, error) {
	amqpctl := os.Getenv("AMQPCTL_BIN")
	if amqpctl == "" {
		return rates{}, errors.New("AMQPCTL_BIN is not set")
	}
	var nodes []*harness.Broker
	var seeds []string
	for i := range 3 {
		name := fmt.Sprintf("rabbit@n%d", i+1)
		home := filepath.Join(dir, name)
		if err := os.Mkdir(home, 0o700); err != nil {
			return rates{}, err
		}
		port, err := freePort()
		if err != nil {
			return rates{}, err
		}
		cluster := fmt.Sprintf("127.0.0.1:%d", port)
		b, err := harness.Prepare(home, harness.Options{Args: append(harness.ClusterArgs(name, cluster, seeds), "--cluster", cluster)})
		if err != nil {
			return rates{}, err
		}
		defer b.Close()
		seeds = append(seeds, cluster)
		if err := b.Exec(); err != nil {
			return rates{}, err
		}
		if err := b.AwaitAMQP(startTimeout); err != nil {
			return rates{}, err
		}
		nodes = append(nodes, b)
	}
	out, err := exec.Command(amqpctl, "--quiet", "--output", "json", "--amqp-url", nodes[0].AMQPURL(), "bench", "--queue-type", "quorum", "--queue-args", "x-quorum-initial-group-size=3",
		"--size", fmt.Sprint(l.size), "--confirm", fmt.Sprint(l.window), "--prefetch", fmt.Sprint(l.window), "--multi-ack-every", fmt.Sprint(l.ackEvery),
		"--time", l.time.String(), "--warmup", l.warmup.String()).Output()
	if err != nil {
		return rates{}, fmt.Errorf("amqpctl bench: %w: %s", err, out)
	}
	var report struct {
		Confirmed float64 `json:"confirm_rate"`
		Consumed  float64 `json:"consume_rate"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return rates{}, err
	}
	return rates{report.Confirmed, report.Consumed}, nil
}
