package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
)

// streams are the three files of the process; tests put their own in.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// secondSignal is the time after which another signal means that the user does not want to wait. Some senders deliver one signal twice, to the
// process and to its group.
const secondSignal = 300 * time.Millisecond

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals // asks the command to finish what it holds
		cancel()
		for first := time.Now(); ; {
			<-signals
			if time.Since(first) > secondSignal {
				os.Exit(int(exit.Interrupted))
			}
		}
	}()
	os.Exit(int(run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr})))
}
