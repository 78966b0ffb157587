package lean

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/amqplink"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/trust"
)

// Channel is the number of the one channel that a connection opens.
const Channel = 1

// frameBytesMax is the largest frame that is offered to the broker: RabbitMQ's own default.
const frameBytesMax = 131072

// readBytes is the size of the buffer that a connection reads into.
const readBytes = 256 << 10

// closeTimeout bounds the farewell.
const closeTimeout = 2 * time.Second

// Conn is an open connection with an open channel. Reading (Frames, Call) and writing may go on in two goroutines; neither by more than one.
type Conn struct {
	// Frames reads what the broker sends.
	Frames *amqp.Reader
	// FrameMax is the negotiated size of a frame in bytes.
	FrameMax uint32
	// Server is the broker's product and version as it names itself.
	Server string

	net     net.Conn
	timeout time.Duration
	out     []byte
}

// wideBuffers makes the reader start with a buffer of readBytes, and larger ones for larger frames.
type wideBuffers struct{}

func (wideBuffers) Get(sizeMin int) []byte { return make([]byte, max(sizeMin, readBytes)) }
func (wideBuffers) Put([]byte)             {}

// Dial connects, logs in with PLAIN, or with EXTERNAL if the URL says so, opens the virtual host and the channel. Errors carry an exit code.
func Dial(ctx context.Context, t amqplink.Target) (*Conn, error) {
	uri, err := amqplink.Parse(t.URL)
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port))
	dialer := net.Dialer{Timeout: t.Timeout}
	var raw net.Conn
	if uri.Scheme == "amqps" {
		secure := tls.Dialer{NetDialer: &dialer, Config: t.TLS}
		raw, err = secure.DialContext(ctx, "tcp", address)
	} else {
		raw, err = dialer.DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, failure("AMQP "+address, err)
	}
	c := &Conn{net: raw, timeout: t.Timeout, Frames: amqp.NewReader(raw, wideBuffers{}, frameBytesMax)}
	login := amqp.ConnectionStartOk{Mechanism: "PLAIN", Response: "\x00" + uri.Username + "\x00" + uri.Password}
	if len(uri.AuthMechanism) > 0 && strings.EqualFold(uri.AuthMechanism[0], "external") {
		login = amqp.ConnectionStartOk{Mechanism: "EXTERNAL"}
	}
	if err := c.handshake(&login, t.Vhost, t.Name); err != nil {
		raw.Close()
		return nil, failure("AMQP "+address, err)
	}
	return c, nil
}

// failure gives an error of the network the code and a text that names the address.
func failure(where string, err error) error {
	var coder exit.Coder
	var wire *amqp.Error
	code := exit.Of(err)
	text := err.Error()
	switch {
	case errors.As(err, &coder):
	case code == exit.Timeout:
		text = "no answer in time"
	case errors.As(err, &wire):
		code, text = exit.Unavailable, "the peer does not speak AMQP 0-9-1; is it an AMQP port?"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		text = "the peer closed the connection during the handshake; is it an AMQP port?"
	case code == exit.Internal:
		code = exit.Unavailable
	}
	return &exit.Error{Code: code, Text: where + ": " + text + trust.Hint(err), Err: err}
}

func (c *Conn) handshake(startOk *amqp.ConnectionStartOk, vhost, name string) error {
	if _, err := c.net.Write([]byte(amqp.ProtocolHeader)); err != nil {
		return err
	}
	var start amqp.ConnectionStart
	if err := c.wait(0, &start); err != nil {
		return err
	}
	if !strings.Contains(" "+start.Mechanisms+" ", " "+startOk.Mechanism+" ") {
		return exit.Errorf(exit.Auth, "the broker does not offer %s (it has: %s)", startOk.Mechanism, start.Mechanisms)
	}
	c.Server = strings.TrimSpace(text(start.ServerProperties, "product") + " " + text(start.ServerProperties, "version"))
	yes := amqp.Bool(true)
	startOk.Locale = "en_US"
	startOk.ClientProperties = amqp.Table{
		{Key: "product", Value: amqp.Longstr("amqpctl")}, {Key: "connection_name", Value: amqp.Longstr(name)},
		{Key: "capabilities", Value: amqp.Nested(amqp.Table{
			{Key: "authentication_failure_close", Value: yes}, {Key: "basic.nack", Value: yes}, {Key: "connection.blocked", Value: yes},
			{Key: "consumer_cancel_notify", Value: yes}, {Key: "publisher_confirms", Value: yes},
		})},
	}
	var tune amqp.ConnectionTune
	if err := c.Call(0, startOk, &tune); err != nil {
		return err
	}
	c.FrameMax = frameBytesMax
	if tune.FrameMax != 0 && tune.FrameMax < c.FrameMax {
		c.FrameMax = tune.FrameMax
	}
	c.Frames.SetFrameMax(c.FrameMax)
	tuneOk := amqp.ConnectionTuneOk{ChannelMax: tune.ChannelMax, FrameMax: c.FrameMax}
	if _, err := c.net.Write(tuneOk.AppendFrame(nil, 0)); err != nil {
		return err
	}
	if err := c.Call(0, &amqp.ConnectionOpen{VirtualHost: vhost}, &amqp.ConnectionOpenOk{}); err != nil {
		return err
	}
	return c.Call(Channel, &amqp.ChannelOpen{}, &amqp.ChannelOpenOk{})
}

// text returns a string of a table, "" when there is none.
func text(t amqp.Table, key string) string {
	v, _ := t.Get(key)
	s, _ := v.AsString()
	return s
}

// Reopen opens the channel again after the broker closed it, which Call reported.
func (c *Conn) Reopen() error {
	if err := c.Write((&amqp.ChannelCloseOk{}).AppendFrame(nil, Channel)); err != nil {
		return err
	}
	return c.Call(Channel, &amqp.ChannelOpen{}, &amqp.ChannelOpenOk{})
}

// Call sends a method and waits for its answer, at most the time-out. Other frames that arrive meanwhile are dropped, so it is for the time
// before deliveries start and after they ended. A close of the channel or connection is an error with the broker's code and text.
func (c *Conn) Call(channel uint16, request, reply amqp.Method) error {
	c.out = request.AppendFrame(c.out[:0], channel)
	if err := c.net.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	if _, err := c.net.Write(c.out); err != nil {
		return err
	}
	if err := c.net.SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	return c.wait(channel, reply)
}

func (c *Conn) wait(channel uint16, reply amqp.Method) error {
	if err := c.net.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	for {
		f, err := c.Frames.ReadFrame()
		if err != nil {
			return err
		}
		if f.Method() == reply.ID() && f.Channel == channel {
			if err := reply.Decode(f.Payload); err != nil {
				return err
			}
			return c.net.SetReadDeadline(time.Time{})
		}
		if err := Closed(f); err != nil {
			return err
		}
	}
}

// Closed returns the broker's reason when a frame is channel.close or connection.close, else nil.
func Closed(f amqp.Frame) error {
	var code uint16
	var text string
	switch f.Method() {
	case amqp.MethodConnectionClose:
		var m amqp.ConnectionClose
		if err := m.Decode(f.Payload); err != nil {
			return err
		}
		code, text = m.ReplyCode, m.ReplyText
	case amqp.MethodChannelClose:
		var m amqp.ChannelClose
		if err := m.Decode(f.Payload); err != nil {
			return err
		}
		code, text = m.ReplyCode, m.ReplyText
	default:
		return nil
	}
	return exit.Errorf(exit.OfReply(int(code), text), "%d %s", code, text)
}

// Write sends frames as they are.
func (c *Conn) Write(frames []byte) error {
	_, err := c.net.Write(frames)
	return err
}

// WriteWithin sends frames and gives up when they are not taken in time; after that the connection is good for nothing but Abort.
func (c *Conn) WriteWithin(frames []byte, limit time.Duration) error {
	if err := c.net.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	return c.Write(frames)
}

// Hurry bounds the write that is under way, and all later ones.
func (c *Conn) Hurry(limit time.Duration) { _ = c.net.SetWriteDeadline(time.Now().Add(limit)) }

// Wake makes a read that is under way return with an error that IsWake knows. The next read does, too, until Call was used or Unwake.
func (c *Conn) Wake() { _ = c.net.SetReadDeadline(time.Unix(1, 0)) }

// WakeAfter does the same when nothing arrives for a while.
func (c *Conn) WakeAfter(d time.Duration) { _ = c.net.SetReadDeadline(time.Now().Add(d)) }

// Unwake lets reads wait again.
func (c *Conn) Unwake() { _ = c.net.SetReadDeadline(time.Time{}) }

// IsWake tells whether a read ended because of Wake.
func IsWake(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// SendClose asks the broker to close the connection; a reader then sees connection.close-ok. Waits for it are bounded from now on.
func (c *Conn) SendClose() {
	_ = c.net.SetDeadline(time.Now().Add(closeTimeout))
	farewell := amqp.ConnectionClose{ReplyCode: amqp.ReplySuccess, ReplyText: "bye"}
	_, _ = c.net.Write(farewell.AppendFrame(nil, 0))
}

// Close says farewell, waits shortly for the answer, and closes the socket. It must not run beside a reader.
func (c *Conn) Close() {
	c.SendClose()
	for {
		f, err := c.Frames.ReadFrame()
		if err != nil || f.Method() == amqp.MethodConnectionCloseOk {
			break
		}
	}
	c.net.Close()
}

// Abort closes the socket at once; a reader or writer in another goroutine fails.
func (c *Conn) Abort() { c.net.Close() }
