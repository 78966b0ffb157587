package publish

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/amqplink"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/lean"
)

// Limits of a publisher.
const (
	WindowMax      = 1 << 20   // unconfirmed messages
	BodyBytesMax   = 512 << 20 // the protocol's largest body
	writeBytes     = 64 << 10  // messages are collected up to this size before they are written
	outBytesKept   = 1 << 20   // a buffer that a large message made larger than this is not kept
	interruptGrace = 2 * time.Second
)

// Options say where messages go and how.
type Options struct {
	Exchange   string
	Key        string
	Mandatory  bool
	Window     int           // unconfirmed messages, 1 to WindowMax
	Timeout    time.Duration // longest time without any confirm
	Properties amqp.Properties
}

// Counts says what became of the messages that were written to the connection. Sent = Confirmed + Refused + Returned + InDoubt.
type Counts struct {
	Sent      uint64 `json:"sent"`
	Confirmed uint64 `json:"confirmed"` // the broker has them in a queue, or dropped them because no queue was bound and that was allowed
	Refused   uint64 `json:"refused"`   // the broker answered nack
	Returned  uint64 `json:"returned"`  // no queue took them
	InDoubt   uint64 `json:"in_doubt"`  // no answer came: they may be stored or not
	// FirstOpen is the number (from 1) of the first message that is not known to be confirmed, 0 when all are.
	FirstOpen uint64 `json:"first_open"`
}

// String is the text for people.
func (c Counts) String() string {
	parts := []string{fmt.Sprintf("sent %d, confirmed %d", c.Sent, c.Confirmed)}
	if c.Returned > 0 {
		parts = append(parts, fmt.Sprintf("returned %d", c.Returned))
	}
	if c.Refused > 0 {
		parts = append(parts, fmt.Sprintf("refused %d", c.Refused))
	}
	if c.InDoubt > 0 {
		parts = append(parts, fmt.Sprintf("without an answer, so stored or not, %d", c.InDoubt))
	}
	return strings.Join(parts, ", ")
}

// Publisher sends to one exchange and key. One goroutine uses it; Counts may be called from any.
type Publisher struct {
	opt        Options
	conn       *lean.Conn
	publish    []byte // the method frame, the same for all
	properties []byte
	out        []byte        // frames to write
	collected  uint64        // messages in out
	moved      chan struct{} // something changed in state
	done       chan struct{} // the reader has ended
	stopHurry  func() bool

	mu       sync.Mutex // guards what follows
	sent     uint64     // written, or being written
	acked    uint64     // including returned messages
	refused  uint64
	returned uint64
	badFirst uint64 // the smallest number that may not be stored, of those refused or returned; 0 for none
	confirms *lean.Confirms
	blocking string // why the broker takes nothing at present
	failure  error  // of the reader
}

// Dial connects and switches confirms on. When ctx ends, writes under way are given a short grace.
func Dial(ctx context.Context, target amqplink.Target, opt Options) (*Publisher, error) {
	conn, err := lean.Dial(ctx, target)
	if err != nil {
		return nil, err
	}
	if err := conn.Call(lean.Channel, &amqp.ConfirmSelect{}, &amqp.ConfirmSelectOk{}); err != nil {
		conn.Abort()
		return nil, err
	}
	method := amqp.BasicPublish{Exchange: opt.Exchange, RoutingKey: opt.Key, Mandatory: opt.Mandatory}
	p := &Publisher{
		opt: opt, conn: conn, publish: method.AppendFrame(nil, lean.Channel), properties: opt.Properties.Append(nil),
		moved: make(chan struct{}, 1), done: make(chan struct{}), confirms: lean.NewConfirms(opt.Window),
	}
	p.stopHurry = context.AfterFunc(ctx, func() { conn.Hurry(interruptGrace) })
	go p.read()
	return p, nil
}

// Publish sends one message, or collects it for Flush, after waiting for a place in the window. The body may be used again when it returns. An
// error means that nothing more will be sent; Finish then tells what became of the messages before.
func (p *Publisher) Publish(ctx context.Context, body []byte) error {
	for {
		free, err := p.state()
		if err != nil {
			return err
		}
		if free {
			break
		}
		if err := p.Flush(); err != nil {
			return err
		}
		if err := p.wait(ctx); err != nil {
			return err
		}
	}
	p.out = append(p.out, p.publish...)
	p.out = amqp.AppendHeaderFrame(p.out, lean.Channel, amqp.ClassBasic, uint64(len(body)), p.properties)
	p.out = amqp.AppendBodyFrames(p.out, lean.Channel, body, p.conn.FrameMax)
	p.collected++
	if len(p.out) >= writeBytes {
		return p.Flush()
	}
	return nil
}

// Flush writes what Publish collected.
func (p *Publisher) Flush() error {
	if p.collected == 0 {
		return nil
	}
	p.mu.Lock()
	p.sent += p.collected
	p.collected = 0
	p.mu.Unlock()
	err := p.conn.WriteWithin(p.out, p.opt.Timeout)
	if p.out = p.out[:0]; cap(p.out) > outBytesKept {
		p.out = nil
	}
	if err == nil {
		return nil
	}
	// The reader finds the broker's reason, if it gave one.
	select {
	case <-p.done:
	case <-time.After(time.Second):
	}
	if _, reason := p.state(); reason != nil {
		return reason
	}
	if exit.Of(err) == exit.Timeout {
		return p.stalled()
	}
	return exit.Wrap(err, "connection lost")
}

// Moved tells of changes while there is nothing to publish; the caller then looks at Err.
func (p *Publisher) Moved() <-chan struct{} { return p.moved }

// Err returns why nothing more can be published, if so.
func (p *Publisher) Err() error {
	_, err := p.state()
	return err
}

// state tells whether the window has a place, or why publishing is over.
func (p *Publisher) state() (free bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.failure != nil:
		return false, p.failure
	case p.returned > 0:
		return false, exit.Errorf(exit.Data, "returned as unroutable (312 NO_ROUTE)")
	case p.refused > 0:
		return false, exit.Errorf(exit.Unavailable, "refused by the broker (nack)")
	}
	return p.sent+p.collected-p.confirms.Answered() < uint64(p.opt.Window), nil
}

// wait waits for the reader to change something.
func (p *Publisher) wait(ctx context.Context) error {
	timer := time.NewTimer(p.opt.Timeout)
	defer timer.Stop()
	select {
	case <-p.moved:
		return nil
	case <-p.done:
		return nil
	case <-timer.C:
		return p.stalled()
	case <-ctx.Done():
		return exit.Errorf(exit.Interrupted, "interrupted")
	}
}

func (p *Publisher) stalled() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blocking != "" {
		return exit.Errorf(exit.Timeout, "nothing confirmed for %s: the broker blocks publishers (%s)", p.opt.Timeout, p.blocking)
	}
	return exit.Errorf(exit.Timeout, "nothing confirmed for %s", p.opt.Timeout)
}

// Finish writes what is left unless publishing is over, waits until everything sent is answered, as long as answers keep coming, closes the connection and says what became
// of the messages. The error is the first reason why not all are confirmed, if any. An interrupted caller gives a fresh context that bounds it.
func (p *Publisher) Finish(ctx context.Context) (Counts, error) {
	failure := p.Err()
	if failure == nil {
		failure = p.Flush()
	}
	for failure == nil && p.open() {
		failure = p.wait(ctx)
	}
	if _, err := p.state(); err != nil {
		failure = err
	}
	p.stopHurry()
	p.conn.SendClose()
	<-p.done
	p.conn.Abort()
	return p.Counts(), failure
}

// open tells whether answers are missing and may still come.
func (p *Publisher) open() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure == nil && p.confirms.Answered() < p.sent
}

// Counts returns the state of things; messages without an answer count as in doubt.
func (p *Publisher) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := Counts{Sent: p.sent, Confirmed: p.acked - min(p.acked, p.returned), Refused: p.refused, Returned: p.returned, FirstOpen: p.badFirst}
	c.InDoubt = c.Sent - min(c.Sent, c.Confirmed+c.Refused+c.Returned)
	if answered := p.confirms.Answered(); answered < p.sent && (c.FirstOpen == 0 || answered+1 < c.FirstOpen) {
		c.FirstOpen = answered + 1
	}
	return c
}
