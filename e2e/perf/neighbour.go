package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/measure"
)

const (
	probeQueue, bulkQueue, shortQueue = "perf-probe", "perf-bulk", "perf-short"
	// probePause is how long the probe waits between two messages.
	probePause = 2 * time.Millisecond
	// bulkWindow is how many messages beside the probe may be unconfirmed or unacknowledged.
	bulkWindow = 64
)

// phase is something that goes on beside the probe. run returns soon after stop is closed.
type phase struct {
	name, against string // against is the phase that it is held against, empty for one that is only that
	run           func(stop <-chan struct{}) error
}

// neighbour measures what a queue feels of what goes on in another one: phases alternate, in some rounds, so that the noise shows.
func neighbour(args []string) error {
	flags := flag.NewFlagSet("neighbour", flag.ExitOnError)
	fill := flags.Int64("fill", 1<<30, "bytes of the other queue")
	size := flags.Int("size", 64<<10, "bytes of its messages")
	rate := flags.Int("rate", 20<<20, "bytes per second that are published to it, or read from it")
	length := flags.Duration("phase", 8*time.Second, "how long a phase lasts")
	rounds := flags.Int("rounds", 3, "how often all phases are measured")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b, end, err := start(harness.Options{})
	if err != nil {
		return err
	}
	defer end()
	n := neighbours{b: b, body: make([]byte, *size), pause: time.Duration(*size) * time.Second / time.Duration(*rate)}
	if err := n.prepare(int(*fill / int64(*size))); err != nil {
		return fmt.Errorf("%w\n%s", err, b.LogTail())
	}
	phases := []phase{
		{"alone", "", func(stop <-chan struct{}) error { <-stop; return nil }},
		{"publishing", "alone", n.passing},
		{"checkpoints", "publishing", func(stop <-chan struct{}) error { return n.publish(bulkQueue, stop) }},
		{"reading", "alone", func(stop <-chan struct{}) error { return n.consume(bulkQueue, stop) }},
	}
	if err := n.measure(phases, *length, *rounds); err != nil {
		return fmt.Errorf("%w\n%s", err, b.LogTail())
	}
	return nil
}

type neighbours struct {
	b     *harness.Broker
	body  []byte
	pause time.Duration // between two messages of the other queue
}

// prepare declares the queues and fills the large one.
func (n *neighbours) prepare(messages int) error {
	return n.channel(func(ch *amqp.Channel) error {
		for name, args := range map[string]amqp.Table{probeQueue: {"x-max-length": 10}, bulkQueue: nil, shortQueue: nil} {
			if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
				return err
			}
		}
		began, i := time.Now(), 0
		err := n.send(ch, bulkQueue, func() bool { i++; return i <= messages })
		fmt.Printf("%d messages of %d bytes in %v\n", messages, len(n.body), time.Since(began).Round(time.Second))
		return err
	})
}

// channel runs f with a channel of its own connection.
func (n *neighbours) channel(f func(*amqp.Channel) error) error {
	conn, err := harness.Dial(n.b.AMQPURL())
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return f(ch)
}

// send publishes as long as more says so, with at most bulkWindow unconfirmed.
func (n *neighbours) send(ch *amqp.Channel, queue string, more func() bool) error {
	if err := ch.Confirm(false); err != nil {
		return err
	}
	confirms := ch.NotifyPublish(make(chan amqp.Confirmation, bulkWindow))
	open := 0
	for more() {
		if err := ch.Publish("", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: n.body}); err != nil {
			return err
		}
		for open++; open >= bulkWindow; open-- {
			if c := <-confirms; !c.Ack {
				return fmt.Errorf("a publish to %s was nacked, or the connection was lost", queue)
			}
		}
	}
	for ; open > 0; open-- {
		if c := <-confirms; !c.Ack {
			return fmt.Errorf("a publish to %s was nacked, or the connection was lost", queue)
		}
	}
	return nil
}

// paced says yes at the wanted rate until stop.
func (n *neighbours) paced(stop <-chan struct{}) func() bool {
	next := time.Now()
	return func() bool {
		next = next.Add(n.pause)
		select {
		case <-stop:
			return false
		case <-time.After(time.Until(next)):
			return true
		}
	}
}

// publish publishes to a queue at the wanted rate.
func (n *neighbours) publish(queue string, stop <-chan struct{}) error {
	return n.channel(func(ch *amqp.Channel) error { return n.send(ch, queue, n.paced(stop)) })
}

// consume reads a queue at the wanted rate.
func (n *neighbours) consume(queue string, stop <-chan struct{}) error {
	return n.channel(func(ch *amqp.Channel) error {
		if err := ch.Qos(bulkWindow, 0, false); err != nil {
			return err
		}
		deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			return err
		}
		for more := n.paced(stop); more(); {
			select {
			case d, ok := <-deliveries:
				if !ok {
					return fmt.Errorf("the consumer of %s was lost", queue)
				}
				if err := d.Ack(false); err != nil {
					return err
				}
			case <-stop:
			}
		}
		return nil
	})
}

// passing publishes to a queue that is emptied at once, so that nothing of it is ever written a second time.
func (n *neighbours) passing(stop <-chan struct{}) error {
	var both sync.WaitGroup
	var failed [2]error
	both.Go(func() { failed[0] = n.publish(shortQueue, stop) })
	both.Go(func() { failed[1] = n.consume(shortQueue, stop) })
	both.Wait()
	return errors.Join(failed[:]...)
}

// probe publishes small messages one after the other and measures the time until each is confirmed.
func (n *neighbours) probe(length time.Duration) (times measure.Times, err error) {
	err = n.channel(func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		confirms := ch.NotifyPublish(make(chan amqp.Confirmation, 1))
		for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(probePause) {
			began := time.Now()
			if err := ch.Publish("", probeQueue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("x")}); err != nil {
				return err
			}
			if c := <-confirms; !c.Ack {
				return errors.New("a publish of the probe was nacked, or the connection was lost")
			}
			times = append(times, time.Since(began))
		}
		return nil
	})
	slices.Sort(times)
	return times, err
}

// settleTime is how long a phase goes on before it counts.
const settleTime = 2 * time.Second

// measure goes through all phases in each round and prints what the probe felt, then the ratios of the phases' medians.
func (n *neighbours) measure(phases []phase, length time.Duration, rounds int) error {
	p99 := make(map[string][]time.Duration)
	for round := range rounds {
		for _, p := range phases {
			stop, ended := make(chan struct{}), make(chan error, 1)
			go func() { ended <- p.run(stop) }()
			time.Sleep(settleTime)
			times, err := n.probe(length)
			close(stop)
			if err := errors.Join(err, <-ended); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			fmt.Printf("round %d  %-12s %v\n", round+1, p.name, times)
			p99[p.name] = append(p99[p.name], times.Quantile(0.99))
		}
	}
	for _, p := range phases {
		list := p99[p.name]
		slices.Sort(list)
		fmt.Printf("%-12s p99 %v to %v", p.name, list[0].Round(time.Microsecond), list[len(list)-1].Round(time.Microsecond))
		if p.against != "" {
			fmt.Printf("  median %.2f of %s", float64(list[len(list)/2])/float64(p99[p.against][len(list)/2]), p.against)
		}
		fmt.Println()
	}
	return nil
}
