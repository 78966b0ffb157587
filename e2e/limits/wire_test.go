package limits

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/rawamqp"
)

// TestBadInput sends one broker everything that it must refuse.
func TestBadInput(t *testing.T) {
	s := newStage(t, harness.StartOrExternal(t, harness.Options{}))
	tests := []struct {
		name string
		test func(*testing.T, *stage)
	}{
		{"garbage instead of the protocol header", garbageHeader},
		{"silence instead of the protocol header", silentHeader},
		{"a wrong password", wrongPassword},
		{"a wrong password from an old client", wrongPasswordQuietly},
		{"an unknown vhost", unknownVHost},
		{"an oversized frame", oversizedFrame},
		{"an oversized frame before the login", oversizedFrameEarly},
		{"frames that break the grammar", brokenFrames},
		{"a half-sent message and a lost connection", halfSentThenGone},
		{"a half-sent message and silence", halfSentThenSilent},
		{"a half-sent message and another method", halfSentThenMethod},
		{"a missing queue", missingQueue},
		{"all channels used", allChannels},
		{"a delivery acknowledged twice", ackTwice},
		{"many idle sockets", idleSockets},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.test(t, s)
			s.lives(t)
		})
	}
	s.drained(t)
}

func garbageHeader(t *testing.T, s *stage) {
	for _, garbage := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "AMQP\x00\x00\x08\x00", "\x00\x00\x00\x00\x00\x00\x00\x00", "AMQP\x00\x00\x09\x02"} {
		c := s.dial(t)
		if err := c.SendRaw(garbage); err != nil {
			t.Fatal(err)
		}
		answer, err := c.AwaitEnd()
		if err != nil || string(answer) != rawamqp.Header {
			t.Errorf("%q is answered %q (%v), want the protocol header of 0-9-1 and the end", garbage, answer, err)
		}
	}
}

// silentHeaderMax is how long a socket may stay open on which nothing meaningful comes.
const silentHeaderMax = 15 * time.Second

func silentHeader(t *testing.T, s *stage) {
	began := time.Now()
	half, nothing := s.dial(t), s.dial(t)
	if err := half.SendRaw("AMQP\x00"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*rawamqp.Conn{"half a header": half, "nothing": nothing} {
		if _, err := c.AwaitEnd(); err != nil {
			t.Errorf("a client that sent %s: %v", name, err)
		}
	}
	if took := time.Since(began); took > silentHeaderMax {
		t.Errorf("silent clients were closed after %v", took)
	}
}

const refusedLogin = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."

func wrongPassword(t *testing.T, s *stage) {
	for _, login := range []rawamqp.Login{{User: "guest", Password: "wrong"}, {User: "guest"}, {User: "nobody", Password: "guest"}, {}} {
		_, err := rawamqp.Open(s.broker.AMQP, login)
		refused(t, err, 0, 403, refusedLogin)
	}
	_, err := harness.Dial(strings.Replace(s.broker.AMQPURL(), "guest:guest", "guest:wrong", 1))
	if !errors.Is(err, amqp.ErrCredentials) {
		t.Errorf("amqp091-go says %v", err)
	}
}

// wrongPasswordQuietly is a client that does not know connection.close in this place: its socket is closed after a pause.
func wrongPasswordQuietly(t *testing.T, s *stage) {
	began := time.Now()
	c := s.dial(t)
	err := c.Handshake(rawamqp.Login{User: "guest", Password: "wrong", QuietFailure: true})
	var closed *rawamqp.CloseError
	if err == nil || errors.As(err, &closed) {
		t.Errorf("got %v, want a closed socket", err)
	}
	if took := time.Since(began); took < time.Second || took > 10*time.Second {
		t.Errorf("the socket was closed after %v, want about 3 s: less invites guessing", took)
	}
}

func unknownVHost(t *testing.T, s *stage) {
	login := rawamqp.Guest
	login.VHost = "nowhere"
	_, err := rawamqp.Open(s.broker.AMQP, login)
	refused(t, err, 0, 530, "NOT_ALLOWED - vhost nowhere not found")
}

// frameHead is the beginning of a frame that claims a size.
func frameHead(kind byte, channel uint16, size uint32) string {
	head := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	return string(binary.BigEndian.AppendUint32(head, size))
}

func oversizedFrame(t *testing.T, s *stage) {
	login := rawamqp.Guest
	login.FrameMax = 16384
	for _, size := range []uint32{16384 + 1, 1 << 20, 1<<32 - 1} {
		c := s.open(t, login)
		if err := c.Send(rawamqp.Publish(1, "kept-classic"), rawamqp.BodyHeader(1, uint64(size))); err != nil {
			t.Fatal(err)
		}
		if err := c.SendRaw(frameHead(rawamqp.TypeBody, 1, size) + strings.Repeat("x", 64)); err != nil {
			t.Fatal(err)
		}
		awaitRefusal(t, c, 0, 501, "FRAME_ERROR")
	}
}

func oversizedFrameEarly(t *testing.T, s *stage) {
	c := s.dial(t)
	if err := c.SendRaw(rawamqp.Header + frameHead(rawamqp.TypeMethod, 0, 1<<30)); err != nil {
		t.Fatal(err)
	}
	closed, err := c.AwaitClose()
	if err == nil {
		refused(t, closed, 0, 501, "FRAME_ERROR")
	} else if !errors.Is(err, rawamqp.ErrSilent) {
		t.Errorf("got %v, want 501 or a closed socket", err)
	}
}

const moreBody = "more body than announced"

func brokenFrames(t *testing.T, s *stage) {
	publish := rawamqp.Publish(1, "kept-classic")
	bad := func(f rawamqp.Frame) string { return string(f.Append(nil)) }
	wrongEnd := []byte(bad(publish))
	wrongEnd[len(wrongEnd)-1] = 0
	tests := []struct {
		name string
		send string
		code uint16
		text string
	}{
		{"a wrong frame end", string(wrongEnd), 501, "FRAME_ERROR"},
		{"an unknown frame type", bad(rawamqp.Frame{Type: 7, Channel: 1, Payload: []byte("x")}), 501, "FRAME_ERROR"},
		{"a method cut short", bad(rawamqp.Method(60, 40).Short(0).Frame(1)), 501, "FRAME_ERROR"},
		{"a body without a publish", bad(rawamqp.Frame{Type: rawamqp.TypeBody, Channel: 1, Payload: []byte("x")}), 505, "UNEXPECTED_FRAME"},
		{"a header without a publish", bad(rawamqp.BodyHeader(1, 5)), 505, "UNEXPECTED_FRAME"},
		{moreBody, bad(publish) + bad(rawamqp.BodyHeader(1, 3)) + bad(rawamqp.Frame{Type: rawamqp.TypeBody, Channel: 1, Payload: []byte("four")}), 501, "FRAME_ERROR"},
		{"a method on a channel that is not open", bad(rawamqp.Method(60, 10).Long(0).Short(1).Octet(0).Frame(9)), 504, "CHANNEL_ERROR"},
		{"a channel opened twice", bad(rawamqp.Method(20, 10).ShortString("").Frame(1)), 504, "CHANNEL_ERROR"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if s.broker.External() && tt.name == moreBody {
				t.Skip("RabbitMQ 3.10 waits for ever here")
			}
			c := s.open(t, rawamqp.Guest)
			if err := c.SendRaw(tt.send); err != nil {
				t.Fatal(err)
			}
			awaitRefusal(t, c, 0, tt.code, tt.text)
		})
	}
}

// halfMessage publishes all but the end of a message.
func halfMessage(t *testing.T, s *stage) *rawamqp.Conn {
	t.Helper()
	c := s.open(t, rawamqp.Guest)
	body := rawamqp.Frame{Type: rawamqp.TypeBody, Channel: 1, Payload: []byte(strings.Repeat("x", 400))}
	if err := c.Send(rawamqp.Publish(1, "kept-classic"), rawamqp.BodyHeader(1, 1000), body); err != nil {
		t.Fatal(err)
	}
	return c
}

func halfSentThenGone(t *testing.T, s *stage) {
	halfMessage(t, s).Close()
	// In the middle of a frame as well.
	c := halfMessage(t, s)
	if err := c.SendRaw(frameHead(rawamqp.TypeBody, 1, 600) + "half a frame"); err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func halfSentThenSilent(t *testing.T, s *stage) {
	c := halfMessage(t, s)
	if err := c.SendRaw(frameHead(rawamqp.TypeBody, 1, 600) + "half a frame"); err != nil {
		t.Fatal(err)
	}
	// While the half message lies there, the queue goes on for everybody else.
	s.lives(t)
	c.Close()
}

func halfSentThenMethod(t *testing.T, s *stage) {
	c := halfMessage(t, s)
	if err := c.Send(rawamqp.Publish(1, "kept-classic")); err != nil {
		t.Fatal(err)
	}
	awaitRefusal(t, c, 0, 505, "UNEXPECTED_FRAME")
}

func missingQueue(t *testing.T, s *stage) {
	conn := s.broker.Connect(t)
	bystander := harness.Channel(t, conn)
	const name = "no such queue"
	tests := map[string]func(ch *amqp.Channel) error{
		"get": func(ch *amqp.Channel) error { _, _, err := ch.Get(name, true); return err },
		"consume": func(ch *amqp.Channel) error {
			_, err := ch.Consume(name, "", true, false, false, false, nil)
			return err
		},
		"purge": func(ch *amqp.Channel) error { _, err := ch.QueuePurge(name, false); return err },
		"bind":  func(ch *amqp.Channel) error { return ch.QueueBind(name, "", "amq.direct", false, nil) },
		"passive declare": func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			return err
		},
	}
	for what, call := range tests {
		t.Run(what, func(t *testing.T) { refusedBy(t, call(harness.Channel(t, conn)), amqp.NotFound, noQueue(name)) })
	}
	t.Run("publish to a missing exchange", func(t *testing.T) {
		ch := harness.Channel(t, conn)
		closed := ch.NotifyClose(make(chan *amqp.Error, 1))
		if err := ch.PublishWithContext(t.Context(), "no such exchange", "", false, false, amqp.Publishing{}); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-closed:
			refusedBy(t, err, amqp.NotFound, "NOT_FOUND - no exchange 'no such exchange' in vhost '/'")
		case <-time.After(10 * time.Second):
			t.Error("the channel stays open")
		}
	})
	// Deleting what is not there is no error, and other channels of the connection have noticed nothing.
	if n, err := bystander.QueueDelete(name, false, false, false); err != nil || n != 0 {
		t.Errorf("delete of a missing queue: %d, %v", n, err)
	}
}

func allChannels(t *testing.T, s *stage) {
	login := rawamqp.Guest
	login.ChannelMax = 10
	c := s.open(t, login)
	for n := uint16(2); n <= 10; n++ {
		if err := c.OpenChannel(n); err != nil {
			t.Fatal(err)
		}
	}
	// A closed channel makes room for another one.
	if _, err := c.Call(rawamqp.Method(20, 40).Short(200).ShortString("").Short(0).Short(0).Frame(3), 20, 41); err != nil {
		t.Fatal(err)
	}
	if err := c.OpenChannel(3); err != nil {
		t.Fatal(err)
	}
	refused(t, c.OpenChannel(11), 0, 530, "NOT_ALLOWED - number of channels opened (10) has reached the negotiated channel_max (10)")
}

func ackTwice(t *testing.T, s *stage) {
	ch := s.broker.Channel(t)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	harness.PublishConfirmed(t, ch, "", q.Name, []byte("x"))
	d, _, err := ch.Get(q.Name, false)
	if err != nil {
		t.Fatal(err)
	}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	if err := errors.Join(d.Ack(false), d.Ack(false)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-closed:
		refusedBy(t, err, amqp.PreconditionFailed, fmt.Sprintf("PRECONDITION_FAILED - unknown delivery tag %d", d.DeliveryTag))
	case <-time.After(10 * time.Second):
		t.Error("the channel stays open")
	}
}

func idleSockets(t *testing.T, s *stage) {
	for range 500 {
		s.dial(t)
	}
	served(t, s.broker)
}

// TestMessageTooLarge publishes bodies around the limit.
func TestMessageTooLarge(t *testing.T) {
	const most = 100_000
	s := newStage(t, harness.Start(t, harness.Options{Args: []string{"--set", fmt.Sprintf("max_message_size=%d", most)}}))
	ch := s.broker.Channel(t)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	harness.PublishConfirmed(t, ch, "", q.Name, make([]byte, most))
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	if err := ch.PublishWithContext(t.Context(), "", q.Name, false, false, amqp.Publishing{Body: make([]byte, most+1)}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-closed:
		refusedBy(t, err, amqp.PreconditionFailed, fmt.Sprintf("PRECONDITION_FAILED - message size %d is larger than configured max size %d", most+1, most))
	case <-time.After(10 * time.Second):
		t.Error("the channel stays open")
	}
	s.lives(t)
	s.drained(t)
}
