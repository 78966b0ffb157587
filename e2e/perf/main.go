package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/measure"
)

// startTimeout is how long a broker may take to answer.
const startTimeout = time.Minute

func main() {
	code := 0
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		code = 1
	}
	harness.RemoveBuilds()
	os.Exit(code)
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: perf declare|thousand|long|neighbour|replicated [FLAG...]")
	}
	switch args[0] {
	case "declare":
		return declare(args[1:])
	case "thousand":
		return thousand(args[1:])
	case "long":
		return long(args[1:])
	case "neighbour":
		return neighbour(args[1:])
	case "replicated":
		return replicated(args[1:])
	case "nats-server": // which replicated starts
		return natsServer(args[1:])
	}
	return fmt.Errorf("there is no measurement %q", args[0])
}

// prepare chooses ports and a directory for a broker; the returned function ends it and removes its files.
func prepare(opts harness.Options) (*harness.Broker, func(), error) {
	dir, err := os.MkdirTemp("", "warren-perf-")
	if err != nil {
		return nil, nil, err
	}
	b, err := harness.Prepare(dir, opts)
	if err != nil {
		os.RemoveAll(dir)
		return nil, nil, err
	}
	return b, func() {
		b.Close()
		os.RemoveAll(dir)
	}, nil
}

// start is prepare, and the broker takes connections.
func start(opts harness.Options) (*harness.Broker, func(), error) {
	b, end, err := prepare(opts)
	if err != nil {
		return nil, nil, err
	}
	if err = b.Exec(); err == nil {
		err = b.AwaitAMQP(startTimeout)
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return b, end, nil
}

func declare(args []string) error {
	flags := flag.NewFlagSet("declare", flag.ExitOnError)
	count := flags.Int("n", 200, "queues")
	kind := flags.String("type", harness.Quorum, "queue type")
	url := flags.String("url", "", "AMQP URL of a broker that runs already")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *url == "" {
		b, end, err := start(harness.Options{})
		if err != nil {
			return err
		}
		defer end()
		*url = b.AMQPURL()
	}
	times, err := measure.Declares(*url, *kind, *count)
	if err == nil {
		fmt.Printf("declare of durable %s queues: %v\n", *kind, times)
	}
	return err
}

func thousand(args []string) error {
	flags := flag.NewFlagSet("thousand", flag.ExitOnError)
	count := flags.Int("n", 1000, "queues")
	stop := flags.Bool("stop", false, "end the broker with SIGTERM instead of SIGKILL")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b, end, err := prepare(harness.Options{})
	if err != nil {
		return err
	}
	defer end()
	m, err := measure.Many(b, *count, !*stop)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, b.LogTail())
	}
	fmt.Println(m)
	return nil
}
