package broker

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum"
)

// stepKind says what a step of a sequence is.
type stepKind uint8

const (
	stepMethod  stepKind = iota
	stepHeader           // a protocol header
	stepContent          // a content header
	stepBody
	stepHeartbeat
	stepBroken // octets that are no frame
	stepWait   // nothing, until every limit has passed
	stepForce  // an operator closes the connection
)

// silentRefusal stands for a login that is refused without a word; unknownMethod is the name of methods that do not exist.
const (
	silentRefusal = -1
	unknownMethod = "unknown"
)

// step is one thing that a client sends, or that happens to it.
type step struct {
	kind    stepKind
	channel uint16
	method  string
	send    amqp.Method
	raw     []byte // what is sent, if send is nil
	variant int
	// What the automaton is told of it: the code with which it fails where it may be sent, or the answer.
	code  int
	reply string
	// Of a content header and a body.
	class, weight uint16
	size          uint64
	// slow says that the answer may come after those of later frames on other channels.
	slow bool
}

// String names a step in a failure.
func (s *step) String() string {
	switch s.kind {
	case stepMethod:
		if s.send != nil {
			return fmt.Sprintf("channel %d: %v", s.channel, s.send)
		}
		return fmt.Sprintf("channel %d: %s %x", s.channel, s.method, s.raw)
	case stepHeader:
		return fmt.Sprintf("protocol header %q", s.raw)
	case stepContent:
		return fmt.Sprintf("channel %d: content header, class %d, weight %d, %d bytes", s.channel, s.class, s.weight, s.size)
	case stepBody:
		return fmt.Sprintf("channel %d: body of %d bytes", s.channel, s.size)
	case stepHeartbeat:
		return fmt.Sprintf("channel %d: heartbeat", s.channel)
	case stepBroken:
		return fmt.Sprintf("broken frame %x", s.raw)
	case stepWait:
		return "wait"
	}
	return "forced close"
}

func (s *step) octets() []byte {
	if s.send != nil {
		return s.send.AppendFrame(nil, s.channel)
	}
	return s.raw
}

// channelNumbers are those that sequences use, some more than others so that something happens there.
var channelNumbers = [...]uint16{1, 1, 1, 1, 2, 2, 700, 65535}

var protocolHeaders = [...]string{"AMQP\x00\x00\x09\x01", "AMQP\x01\x01\x00\x09", "AMQP\x00\x00\x09\x00", "AMQP\x03\x01\x00\x00", "GET / HT", "\x16\x03\x01\x02\x00\x01\x00\x01"}

// connectionSteps are the methods of channel 0.
var connectionSteps = []step{
	{method: "connection.start-ok", send: plain("guest", "guest")},
	{method: "connection.start-ok", send: plain("guest", "guest")},
	{method: "connection.start-ok", send: &amqp.ConnectionStartOk{Mechanism: "AMQPLAIN", Response: "\x05LOGINS\x00\x00\x00\x05guest\x08PASSWORDS\x00\x00\x00\x05guest"}},
	{method: "connection.start-ok", send: plain("guest", "wrong"), code: 403},
	{method: "connection.start-ok", send: &amqp.ConnectionStartOk{Mechanism: "PLAIN", Response: "\x00guest\x00wrong"}, code: silentRefusal},
	{method: "connection.start-ok", send: &amqp.ConnectionStartOk{Mechanism: "KERBEROS"}, code: 503},
	{method: "connection.start-ok", send: &amqp.ConnectionStartOk{Mechanism: "PLAIN", Response: "guest"}, code: 502},
	{method: "connection.secure-ok", send: &amqp.ConnectionSecureOk{Response: "x"}},
	{method: "connection.tune-ok", send: &amqp.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 131072}},
	{method: "connection.tune-ok", send: &amqp.ConnectionTuneOk{ChannelMax: 2, FrameMax: 4096}},
	{method: "connection.tune-ok", send: &amqp.ConnectionTuneOk{}},
	{method: "connection.tune-ok", send: &amqp.ConnectionTuneOk{ChannelMax: 3, FrameMax: 131072}},
	{method: "connection.tune-ok", send: &amqp.ConnectionTuneOk{ChannelMax: 2048}},
	{method: "connection.tune-ok", send: &amqp.ConnectionTuneOk{FrameMax: 4095}},
	{method: "connection.tune-ok", send: &amqp.ConnectionTuneOk{FrameMax: 131073}},
	{method: "connection.open", send: &amqp.ConnectionOpen{VirtualHost: "/"}},
	{method: "connection.open", send: &amqp.ConnectionOpen{VirtualHost: "/"}},
	{method: "connection.open", send: &amqp.ConnectionOpen{VirtualHost: "none"}, code: 530},
	{method: "connection.open", send: &amqp.ConnectionOpen{VirtualHost: "closed"}, code: 530},
	{method: "connection.close", send: &amqp.ConnectionClose{ReplyCode: 200}},
	{method: "connection.close-ok", send: &amqp.ConnectionCloseOk{}},
	{method: "connection.start", send: &amqp.ConnectionStart{}},
	{method: "connection.tune", send: &amqp.ConnectionTune{}},
	{method: "connection.blocked", send: &amqp.ConnectionBlocked{}},
	{method: "channel.open", send: &amqp.ChannelOpen{}},
	{method: "basic.publish", send: &amqp.BasicPublish{}},
}

// channelSteps are the methods of other channels.
var channelSteps = []step{
	{method: "channel.open", send: &amqp.ChannelOpen{}},
	{method: "channel.open", send: &amqp.ChannelOpen{}},
	{method: "channel.open", send: &amqp.ChannelOpen{}},
	{method: "channel.close", send: &amqp.ChannelClose{ReplyCode: 200}, reply: "channel.close-ok"},
	{method: "channel.close", send: &amqp.ChannelClose{ReplyCode: 200}, reply: "channel.close-ok"},
	{method: "channel.close-ok", send: &amqp.ChannelCloseOk{}},
	{method: "channel.close-ok", send: &amqp.ChannelCloseOk{}},
	{method: "channel.flow", send: &amqp.ChannelFlow{Active: true}, reply: "channel.flow-ok"},
	{method: "channel.flow", send: &amqp.ChannelFlow{}, code: 540},
	{method: "basic.qos", send: &amqp.BasicQos{PrefetchCount: 3}, reply: "basic.qos-ok"},
	{method: "basic.qos", send: &amqp.BasicQos{PrefetchSize: 1}, code: 540},
	{method: "access.request", send: &amqp.AccessRequest{Realm: "/data"}, reply: "access.request-ok"},
	{method: "confirm.select", send: &amqp.ConfirmSelect{}, reply: "confirm.select-ok"},
	{method: "confirm.select", send: &amqp.ConfirmSelect{NoWait: true}},
	{method: "queue.declare", send: &amqp.QueueDeclare{Queue: "none", Passive: true}, code: 404, slow: true},
	{method: "queue.declare", send: &amqp.QueueDeclare{Exclusive: true}, reply: "queue.declare-ok", slow: true},
	{method: "queue.declare", send: &amqp.QueueDeclare{Queue: "amq.mine"}, code: 403, slow: true},
	{method: "queue.purge", send: &amqp.QueuePurge{Queue: "none"}, code: 404, slow: true},
	{method: "exchange.declare", send: &amqp.ExchangeDeclare{Exchange: "none", Type: "direct", Passive: true}, code: 404, slow: true},
	{method: "basic.get", send: &amqp.BasicGet{Queue: "none"}, code: 404, slow: true},
	{method: "basic.consume", send: &amqp.BasicConsume{Queue: "none"}, code: 404, slow: true},
	{method: "basic.cancel", send: &amqp.BasicCancel{ConsumerTag: "none"}, reply: "basic.cancel-ok", slow: true},
	{method: "basic.ack", send: &amqp.BasicAck{DeliveryTag: 7}, code: 406},
	{method: "basic.nack", send: &amqp.BasicNack{DeliveryTag: 7}, code: 406},
	{method: "basic.reject", send: &amqp.BasicReject{DeliveryTag: 7}, code: 406},
	{method: "basic.recover", send: &amqp.BasicRecover{Requeue: true}, reply: "basic.recover-ok", slow: true},
	{method: "basic.publish", send: &amqp.BasicPublish{RoutingKey: "none"}, slow: true},
	{method: "basic.publish", send: &amqp.BasicPublish{RoutingKey: "none", Mandatory: true}, slow: true},
	{method: "basic.publish", send: &amqp.BasicPublish{Exchange: "none"}, slow: true},
	{method: "basic.deliver", send: &amqp.BasicDeliver{}, code: 503},
	{method: "channel.open-ok", send: &amqp.ChannelOpenOk{}, code: 503},
	{method: "connection.close", send: &amqp.ConnectionClose{}, code: 503},
	{method: "connection.open", send: &amqp.ConnectionOpen{VirtualHost: "/"}, code: 503},
}

// contentSizes are announced by content headers; bodies have the first three.
var contentSizes = [...]uint64{0, 1, 10, 17 << 20, 513 << 20, 1 << 63}

// stepOf makes a step of three octets. Every octet gives one, and most steps are good for something.
func stepOf(op, arg, which byte) step {
	channel := channelNumbers[int(which)%len(channelNumbers)]
	switch op % 16 {
	case 0, 1, 2, 3:
		s := connectionSteps[int(arg)%len(connectionSteps)]
		return s
	case 4:
		n := int(arg) % len(protocolHeaders)
		return step{kind: stepHeader, variant: n, raw: []byte(protocolHeaders[n])}
	case 5, 6:
		return contentOf(channel, contentSizes[int(arg)%len(contentSizes)], 60, 0)
	case 7, 8:
		return bodyOf(channel, contentSizes[int(arg)%3])
	case 9:
		return oddStep(channel, arg)
	}
	s := channelSteps[int(arg)%len(channelSteps)]
	s.channel = channel
	return s
}

func contentOf(channel uint16, size uint64, class, weight uint16) step {
	raw := amqp.AppendHeaderFrame(nil, channel, class, size, nil)
	binary.BigEndian.PutUint16(raw[9:], weight)
	return step{kind: stepContent, channel: channel, class: class, weight: weight, size: size, raw: raw, slow: true}
}

func bodyOf(channel uint16, size uint64) step {
	raw := amqp.AppendBodyFrameStart(nil, channel, int(size))
	return step{kind: stepBody, channel: channel, size: size, raw: append(append(raw, make([]byte, size)...), amqp.FrameEnd), slow: true}
}

// oddStep is what is seldom sent.
func oddStep(channel uint16, arg byte) step {
	unknown := func(channel uint16) step {
		return step{method: unknownMethod, channel: channel, code: 503, raw: []byte{1, byte(channel >> 8), byte(channel), 0, 0, 0, 4, 0, 60, 0, 99, 206}}
	}
	switch arg % 12 {
	case 0, 1:
		return step{kind: stepHeartbeat, raw: amqp.AppendHeartbeat(nil)}
	case 2:
		return step{kind: stepHeartbeat, channel: channel, raw: []byte{8, byte(channel >> 8), byte(channel), 0, 0, 0, 0, 206}}
	case 3:
		return step{kind: stepBroken, raw: []byte{1, 0, 1, 0, 0, 0, 4, 0, 20, 0, 40, 0}} // another end octet
	case 4:
		return step{kind: stepBroken, raw: []byte{1, 0, 1, 0, 9, 0, 0}} // too large
	case 5:
		return step{kind: stepBroken, raw: []byte{9, 0, 0, 0, 0, 0, 1, 0, 206}} // no such type
	case 6:
		return step{kind: stepWait}
	case 7:
		return step{kind: stepForce}
	case 8:
		return unknown(channel)
	case 9:
		return contentOf(channel, 1, 50, 0)
	case 10:
		return contentOf(0, 1, 60, 0)
	}
	return contentOf(channel, 1, 60, 7)
}

// stepsMax bounds a sequence.
const stepsMax = 60

// welcome is a handshake.
var welcome = []step{stepOf(4, 0, 0), connectionSteps[0], connectionSteps[8], connectionSteps[15]}

// stepsOf makes a sequence of any octets. With the first one odd it begins with a handshake.
func stepsOf(data []byte) (steps []step) {
	if len(data) == 0 {
		return nil
	}
	if data[0]%2 == 1 {
		steps = append(steps, welcome...)
		if which := data[0] / 2 % 4; which > 0 { // another channel_max
			steps[2] = connectionSteps[8+which]
		}
	}
	for data = data[1:]; len(data) >= 3 && len(steps) < stepsMax; data = data[3:] {
		steps = append(steps, stepOf(data[0], data[1], data[2]))
	}
	return steps
}

// countingHost counts the sessions that were opened and not closed.
type countingHost struct {
	*fakeHost
	mu   sync.Mutex
	open int
}

type countedSession struct {
	Session
	host *countingHost
	once sync.Once
}

func (h *countingHost) add(n int) {
	h.mu.Lock()
	h.open += n
	h.mu.Unlock()
}

// OpenSession implements Host.
func (h *countingHost) OpenSession(r quorum.Receiver) Session {
	h.add(1)
	return &countedSession{Session: h.fakeHost.OpenSession(r), host: h}
}

// Close implements Session.
func (s *countedSession) Close(lastWritten func(meta.QueueID) uint64, token uint64) []meta.QueueID {
	s.once.Do(func() { s.host.add(-1) })
	return s.Session.Close(lastWritten, token)
}

// stageOfSequences is a broker with a bystander, for any number of sequences one after the other. It lives in a synctest bubble, where the answer to a
// step is whatever has come when everybody waits, waiting costs nothing, and a goroutine that is left at the end fails the test.
type stageOfSequences struct {
	b         *testBroker
	host      *countingHost
	bystander *rawClient
}

func newStageOfSequences(t *testing.T) *stageOfSequences {
	s := &stageOfSequences{host: &countingHost{}}
	s.b = startBroker(t, func(o *Options) {
		s.host.fakeHost = o.Host.(*fakeHost)
		o.Host = s.host
	})
	s.bystander = s.b.open()
	s.bystander.sync(1)
	return s
}

// player is a client that plays a sequence.
type player struct {
	nc net.Conn
	mu sync.Mutex
	// got is what came and was not looked at.
	got   []string
	ended bool
}

// listen notes what comes until the stream ends.
func (p *player) listen() {
	err := p.readAll()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if err != io.EOF && err != io.ErrClosedPipe {
		p.got = append(p.got, err.Error())
	}
}

func (p *player) readAll() error {
	for {
		var head [7]byte
		if _, err := io.ReadFull(p.nc, head[:]); err != nil {
			return err
		}
		if string(head[:4]) == "AMQP" {
			p.note("protocol header")
			_, err := io.ReadFull(p.nc, head[:1])
			if err != nil {
				return err
			}
			continue
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
		if _, err := io.ReadFull(p.nc, payload); err != nil {
			return err
		}
		if end := payload[len(payload)-1]; end != amqp.FrameEnd {
			return fmt.Errorf("a frame ends with %d", end)
		}
		if text := describe(head[0], payload[:len(payload)-1]); text != "" {
			p.note(fmt.Sprintf("%d %s", binary.BigEndian.Uint16(head[1:]), text))
		}
	}
}

func (p *player) note(text string) {
	p.mu.Lock()
	p.got = append(p.got, text)
	p.mu.Unlock()
}

// describe says what a frame is, as the automaton does; "" for heartbeats.
func describe(typ byte, payload []byte) string {
	switch typ {
	case amqp.FrameHeartbeat:
		return ""
	case amqp.FrameHeader:
		return "header"
	case amqp.FrameBody:
		return "body"
	}
	m, err := amqp.DecodeMethod(payload)
	if err != nil {
		return err.Error()
	}
	text := m.ID().String()
	switch m := m.(type) {
	case *amqp.ConnectionClose:
		text += fmt.Sprint(" ", m.ReplyCode)
	case *amqp.ChannelClose:
		text += fmt.Sprint(" ", m.ReplyCode)
	case *amqp.BasicAck:
		text += fmt.Sprint(" ", m.DeliveryTag)
	}
	return text
}

// answers takes what has come.
func (p *player) answers() (got []string, ended bool) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	got, p.got = p.got, nil
	return got, p.ended
}

// play plays steps against broker and automaton and says where they differ. Up to together steps that are answered at once are sent in one write.
func (s *stageOfSequences) play(steps []step, together int, wrong wrongRule) error {
	client, server := net.Pipe()
	s.b.ServeConn(server)
	p := &player{nc: client}
	defer client.Close()
	_ = client.SetWriteDeadline(time.Now().Add(time.Hour))
	go p.listen()
	m := &connModel{wrong: wrong, channels: map[uint16]*chanModel{}}
	var trace strings.Builder
	for len(steps) > 0 && m.phase != phaseEnded {
		n := m.group(steps, together)
		if err := s.turn(p, m, steps[:n], &trace); err != nil {
			return fmt.Errorf("%w after:\n%s", err, trace.String())
		}
		steps = steps[n:]
	}
	last := step{method: "connection.close-ok", send: &amqp.ConnectionCloseOk{}}
	if m.phase == phaseRunning {
		last = step{method: "connection.close", send: &amqp.ConnectionClose{ReplyCode: 200}}
	}
	if m.phase >= phaseRunning {
		if err := s.turn(p, m, []step{last}, &trace); err != nil {
			return fmt.Errorf("%w after:\n%s", err, trace.String())
		}
	}
	_ = client.Close()
	if err := s.left(); err != nil {
		return fmt.Errorf("%w after:\n%s", err, trace.String())
	}
	return nil
}

// group is how many steps go into one write: only such as are answered at once, and nothing after what is not.
func (m *connModel) group(steps []step, together int) int {
	n := 0
	for n < min(together, len(steps)) && steps[n].kind == stepMethod && !steps[n].slow && steps[n].code == 0 && m.phase > phaseHeader {
		n++
	}
	return max(n, 1)
}

// turn takes one write's worth of steps.
func (s *stageOfSequences) turn(p *player, m *connModel, steps []step, trace *strings.Builder) error {
	var octets []byte
	var want []string
	before := m.phase
	for i := range steps {
		fmt.Fprintf(trace, "  %v\n", &steps[i])
		want = append(want, m.take(&steps[i])...)
		octets = append(octets, steps[i].octets()...)
	}
	switch steps[0].kind {
	case stepWait:
		time.Sleep(time.Minute)
	case stepForce:
		if before != phaseRunning {
			break
		}
		conns := s.b.connections()
		conns[len(conns)-1].fail(errForced("played"))
	default:
		// In two pieces, for no split may matter; what cannot be written is not read any more.
		half := len(octets) / 2
		_, _ = p.nc.Write(octets[:half])
		_, _ = p.nc.Write(octets[half:])
	}
	got, ended := p.answers()
	if !sameAnswers(got, want) {
		return fmt.Errorf("got %q, want %q", got, want)
	}
	if wantEnd := m.phase == phaseEnded; ended != wantEnd {
		return fmt.Errorf("the stream ended: %t, want %t", ended, wantEnd)
	}
	return nil
}

// sameAnswers compares channel by channel.
func sameAnswers(got, want []string) bool {
	byChannel := func(list []string) map[string]string {
		m := map[string]string{}
		for _, text := range list {
			channel, rest, _ := strings.Cut(text, " ")
			m[channel] += rest + "\n"
		}
		return m
	}
	return maps.Equal(byChannel(got), byChannel(want))
}

// left says what a connection that has ended left behind after the time that its end may take, and whether others are served.
func (s *stageOfSequences) left() error {
	synctest.Wait()
	err := s.remains()
	if err != nil {
		time.Sleep(2*settleDownMax + 2*lingerMax)
		synctest.Wait()
		err = s.remains()
	}
	s.bystander.sync(1)
	return err
}

func (s *stageOfSequences) remains() error {
	conns := len(s.b.connections())
	s.host.mu.Lock()
	sessions := s.host.open
	s.host.mu.Unlock()
	s.host.fakeHost.mu.Lock()
	queues := len(s.host.queues)
	s.host.fakeHost.mu.Unlock()
	if conns != 1 || sessions != 1 || queues != 0 {
		return fmt.Errorf("%d connections, %d sessions, %d queues are left", conns-1, sessions-1, queues)
	}
	return nil
}

// randomSteps is a sequence that mostly keeps to what the automaton lets a connection live with.
func randomSteps(rng *rand.Rand) (steps []step, together int) {
	m := &connModel{channels: map[uint16]*chanModel{}}
	if rng.IntN(4) > 0 {
		steps = stepsOf([]byte{byte(rng.IntN(256)) | 1})
		for i := range steps {
			m.take(&steps[i])
		}
	}
	for n := 1 + rng.IntN(stepsMax); len(steps) < n && m.phase != phaseEnded; {
		var s step
		deadly := m.phase > phaseRunning || m.phase < phaseRunning && rng.IntN(4) == 0 || rng.IntN(16) == 0
		for range 100 {
			s = m.candidate(rng)
			if after := m.clone(); deadly || after.survives(&s) {
				break
			}
		}
		m.take(&s)
		steps = append(steps, s)
	}
	return steps, 1 + rng.IntN(4)
}

// candidate is a random step, more often than not one that a channel waits for.
func (m *connModel) candidate(rng *rand.Rand) step {
	which := byte(rng.IntN(256))
	op, arg := byte(rng.IntN(256)), byte(rng.IntN(256))
	if ch := m.channels[channelNumbers[int(which)%len(channelNumbers)]]; ch != nil && rng.IntN(3) > 0 {
		switch ch.content {
		case contentHeader:
			op = 5
		case contentBody:
			op = 7
		}
	}
	return stepOf(op, arg, which)
}

// survives tells whether a connection goes on after a step.
func (m *connModel) survives(s *step) bool {
	m.take(s)
	return m.phase <= phaseRunning
}

func (m *connModel) clone() *connModel {
	c := *m
	c.channels = make(map[uint16]*chanModel, len(m.channels))
	for n, ch := range m.channels {
		copied := *ch
		c.channels[n] = &copied
	}
	return &c
}

const (
	// sequencesMax are played by TestSequences, or as many as sequencesTime allows, but sequencesMin at least; sequencesPerBroker with one broker.
	sequencesMax       = 20_000
	sequencesMin       = 200
	sequencesTime      = 5 * time.Second
	sequencesPerBroker = 100
)

// playSeeds plays the random sequences of some seeds.
func playSeeds(t *testing.T, from, to int, wrong wrongRule) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStageOfSequences(t)
		for seed := from; seed < to && err == nil; seed++ {
			steps, together := randomSteps(rand.New(rand.NewPCG(uint64(seed), 0)))
			if err = s.play(steps, together, wrong); err != nil {
				err = fmt.Errorf("seed %d: %w", seed, err)
			}
		}
	})
	return err
}

// TestSequences plays random sequences of frames, legal and illegal: the broker answers each step as the automaton says, every connection ends, nothing of
// it is left, and others are served.
func TestSequences(t *testing.T) {
	began, seed := time.Now(), 0
	for ; seed < sequencesMax && (seed < sequencesMin || time.Since(began) < sequencesTime); seed += sequencesPerBroker {
		if err := playSeeds(t, seed, seed+sequencesPerBroker, wrongNone); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d sequences", seed)
}

// TestWrongAutomatonIsFound: a broker that differs from the automaton in one rule is found out, whichever it is.
func TestWrongAutomatonIsFound(t *testing.T) {
	for wrong := wrongNone + 1; wrong <= wrongEnd; wrong++ {
		found := false
		for seed := 0; seed < sequencesMax/2 && !found; seed += sequencesPerBroker {
			if err := playSeeds(t, seed, seed+sequencesPerBroker, wrong); err != nil {
				t.Logf("planted fault %d: %.80s", wrong, err)
				found = true
			}
		}
		if !found {
			t.Errorf("planted fault %d is not found", wrong)
		}
	}
}

// FuzzSequence is TestSequences for any octets.
func FuzzSequence(f *testing.F) {
	f.Add([]byte{0})
	for first := range 32 {
		data := []byte{byte(first)*8 | 1}
		rng := rand.New(rand.NewPCG(uint64(first), 1))
		for range 90 {
			data = append(data, byte(rng.IntN(256)))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			t.Skip()
		}
		synctest.Test(t, func(t *testing.T) {
			if err := newStageOfSequences(t).play(stepsOf(data), 1+int(data[0]/8%4), wrongNone); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// TestRacingCloses: while an operator closes a connection, its client sends something. Both may come first, and the connection ends well either way.
func TestRacingCloses(t *testing.T) {
	forced := connectionClose(320)
	for _, c := range []struct {
		channel uint16
		m       amqp.Method
		answer  string
	}{
		{0, &amqp.ConnectionClose{ReplyCode: 200}, "0 connection.close-ok"}, {1, &amqp.ChannelClose{ReplyCode: 200}, "1 channel.close-ok"}, {1, &amqp.BasicQos{}, "1 basic.qos-ok"},
		{1, &amqp.BasicAck{DeliveryTag: 7}, channelClose(1, 406)}, {1, &amqp.QueueDeclare{Exclusive: true}, "1 queue.declare-ok"}, {2, &amqp.ChannelOpen{}, "2 channel.open-ok"},
		{1, &amqp.ChannelOpen{}, connectionClose(504)},
	} {
		t.Run(c.m.ID().String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStageOfSequences(t)
				wants := [][]string{{forced}, {c.answer, forced}}
				switch {
				case c.channel == 0:
					wants = [][]string{{c.answer}, {forced, c.answer}}
				case strings.HasPrefix(c.answer, "0 "):
					wants = [][]string{{c.answer}, {forced}}
				}
				for range 50 {
					s.race(t, step{channel: c.channel, send: c.m}, wants)
				}
			})
		})
	}
}

// race sends a step while the connection is closed by force, and wants one of the answers.
func (s *stageOfSequences) race(t *testing.T, racing step, wants [][]string) {
	t.Helper()
	client, server := net.Pipe()
	s.b.ServeConn(server)
	p := &player{nc: client}
	defer client.Close()
	_ = client.SetWriteDeadline(time.Now().Add(time.Hour))
	go p.listen()
	m := &connModel{channels: map[uint16]*chanModel{}}
	var trace strings.Builder
	for _, ready := range append(slices.Clone(welcome), step{channel: 1, method: "channel.open", send: &amqp.ChannelOpen{}}) {
		if err := s.turn(p, m, []step{ready}, &trace); err != nil {
			t.Fatal(err)
		}
	}
	conns := s.b.connections()
	go conns[len(conns)-1].fail(errForced("raced"))
	_, _ = client.Write(racing.octets())
	got, _ := p.answers()
	if !slices.ContainsFunc(wants, func(want []string) bool { return slices.Equal(got, want) }) {
		t.Fatalf("%v is answered %q", &racing, got)
	}
	_, _ = client.Write((&amqp.ConnectionCloseOk{}).AppendFrame(nil, 0))
	if got, ended := p.answers(); len(got) > 0 || !ended {
		t.Fatalf("close-ok is answered %q, the stream ended: %t", got, ended)
	}
	if err := s.left(); err != nil {
		t.Fatal(err)
	}
}
