package bench

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/histogram"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/lean"
)

// writeBytes is about how much a producer writes at once: enough to make system calls cheap, little enough to keep one stamp honest for all of it.
const writeBytes = 64 << 10

// producer publishes to one queue. The writer goroutine runs publish, the reader goroutine runs answers.
type producer struct {
	conn  *lean.Conn
	clock clock
	rate  float64
	limit uint64 // messages to publish; 0 is no limit

	// The frames of several equal messages one after another, and where in each the stamp lies.
	frames  []byte
	stride  int
	stampAt int
	stamp   stamp

	published atomic.Uint64 // numbers 1..published are written or being written
	answered  atomic.Uint64 // numbers 1..answered all have an answer
	confirmed atomic.Uint64
	nacked    atomic.Uint64
	returned  atomic.Uint64
	blocked   atomic.Bool
	stopping  atomic.Bool
	wake      chan struct{} // something changed for the writer

	// Times by number modulo the window: written before published is raised, read after it was loaded. Empty without confirms.
	sentNanos []int64
	confirms  *lean.Confirms

	mu      sync.Mutex
	latency histogram.Histogram // of confirms
	done    chan struct{}       // closed when the reader has ended
	err     error               // why, good after done
}

// newProducer opens a connection and prepares the frames.
func newProducer(conn *lean.Conn, cfg *Config, clk clock, run uint16, index int) (*producer, error) {
	p := &producer{
		conn: conn, clock: clk, rate: cfg.Rate, limit: cfg.ProducerMessages, wake: make(chan struct{}, 1), done: make(chan struct{}),
		stamp: stamp{run: run, producer: uint16(index)}, sentNanos: make([]int64, cfg.Window), confirms: lean.NewConfirms(cfg.Window),
	}
	p.encode(cfg, cfg.queueName(index))
	if cfg.Window > 0 {
		if err := conn.Call(lean.Channel, &amqp.ConfirmSelect{}, &amqp.ConfirmSelectOk{}); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// encode builds one message and repeats it until a write is full.
func (p *producer) encode(cfg *Config, queue string) {
	publish := amqp.BasicPublish{RoutingKey: queue, Mandatory: true}
	properties := amqp.Properties{}
	properties.SetDeliveryMode(1)
	if cfg.Persistent {
		properties.SetDeliveryMode(2)
	}
	body := make([]byte, cfg.BodyBytes)
	for i := range body {
		body[i] = byte('a' + i%26)
	}
	one := publish.AppendFrame(nil, lean.Channel)
	one = amqp.AppendHeaderFrame(one, lean.Channel, amqp.ClassBasic, uint64(len(body)), properties.Append(nil))
	p.stampAt = len(one) + amqp.FrameOverheadBytes - 1 // of the overhead, the end octet comes after the payload
	one = amqp.AppendBodyFrames(one, lean.Channel, body, p.conn.FrameMax)
	p.stride = len(one)
	for range max(1, writeBytes/p.stride) {
		p.frames = append(p.frames, one...)
	}
}

// publish is the writer: it publishes until it is stopped or reached its limit, then waits until everything is answered.
func (p *producer) publish() error {
	pace := newPacer(p.rate, p.clock)
	batchMax := len(p.frames) / p.stride
	for !p.stopping.Load() {
		n := p.free(batchMax)
		if n == 0 {
			if p.finished() {
				break
			}
			if err := p.waitForWake(); err != nil {
				return err
			}
			continue
		}
		n, delay := pace.due(p.published.Load(), n)
		if n == 0 {
			p.rest(delay)
			continue
		}
		if err := p.write(n, pace); err != nil {
			return p.broken(err)
		}
	}
	for p.answered.Load() < p.published.Load() && len(p.sentNanos) > 0 {
		if err := p.waitForWake(); err != nil {
			return err
		}
	}
	return nil
}

// finished tells whether the limit is reached.
func (p *producer) finished() bool { return p.limit > 0 && p.published.Load() >= p.limit }

// free returns how many messages may be published now.
func (p *producer) free(n int) int {
	published := p.published.Load()
	if p.limit > 0 {
		n = int(min(uint64(n), p.limit-published))
	}
	if window := uint64(len(p.sentNanos)); window > 0 {
		n = int(min(uint64(n), window-(published-p.answered.Load())))
	}
	return n
}

func (p *producer) write(n int, pace *pacer) error {
	now := p.clock.now()
	seq := p.published.Load()
	for i := range n {
		seq++
		p.stamp.seq = uint32(seq)
		p.stamp.sentNanos = pace.dueNanos(seq, now)
		p.stamp.put(p.frames[i*p.stride+p.stampAt:])
		if len(p.sentNanos) > 0 {
			p.sentNanos[seq%uint64(len(p.sentNanos))] = p.stamp.sentNanos
		}
	}
	p.published.Store(seq)
	return p.conn.Write(p.frames[:n*p.stride])
}

func (p *producer) waitForWake() error {
	select {
	case <-p.wake:
		return nil
	case <-p.done:
		if p.err != nil {
			return p.err
		}
		return exit.Errorf(exit.Unavailable, "the broker closed the connection of a producer")
	}
}

// rest waits until the next message is due, or something happens.
func (p *producer) rest(delay time.Duration) {
	if delay < precise {
		pause(delay)
		return
	}
	timer := time.NewTimer(min(delay-precise/2, time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.wake:
	case <-p.done:
		p.stopping.Store(true)
	}
}

// broken prefers the broker's reason, which the reader finds, over the error of a write.
func (p *producer) broken(err error) error {
	select {
	case <-p.done:
		if p.err != nil {
			return p.err
		}
	case <-time.After(time.Second):
	}
	return exit.Wrap(err, "connection of a producer lost")
}

// stop ends publish after the write under way.
func (p *producer) stop() {
	p.stopping.Store(true)
	p.signal()
}

func (p *producer) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// answers is the reader: it runs until the connection ends.
func (p *producer) answers() {
	defer close(p.done)
	p.err = p.read()
}

func (p *producer) read() error {
	for {
		// One batch is what one read brought: one look at the clock, one lock, one wake.
		now := p.clock.now()
		closed, err := p.batch(now)
		if closed || err != nil {
			return err
		}
		p.signal()
		if err := p.conn.Frames.Fill(); err != nil {
			return exit.Wrap(err, "connection of a producer lost")
		}
	}
}

// batch handles every frame that is there. closed tells that the broker agreed to close.
func (p *producer) batch(now int64) (closed bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		f, ok, err := p.conn.Frames.Next()
		if !ok || err != nil {
			return false, err
		}
		switch f.Method() {
		case amqp.MethodBasicAck:
			err = p.settle(f.Payload, now, &p.confirmed)
		case amqp.MethodBasicNack:
			err = p.settle(f.Payload, now, &p.nacked)
		case amqp.MethodBasicReturn:
			p.returned.Add(1)
		case amqp.MethodConnectionBlocked:
			p.blocked.Store(true)
		case amqp.MethodConnectionUnblocked:
			p.blocked.Store(false)
		case amqp.MethodConnectionCloseOk:
			return true, nil
		default:
			err = lean.Closed(f) // what else there is, as the content of a returned message, does not matter
		}
		if err != nil {
			return false, err
		}
	}
}

// settle takes the answer for one number, or for all up to it.
func (p *producer) settle(payload []byte, now int64, counter *atomic.Uint64) error {
	var n uint64
	err := p.confirms.Settle(payload, p.published.Load(), func(seq uint64) {
		p.latency.Add(now-p.sentNanos[seq%uint64(len(p.sentNanos))], 1)
		n++
	})
	counter.Add(n)
	p.answered.Store(p.confirms.Answered())
	return err
}
