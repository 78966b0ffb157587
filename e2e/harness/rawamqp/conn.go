package rawamqp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// answerTimeout bounds the wait for one frame.
const answerTimeout = 20 * time.Second

// Conn is one connection.
type Conn struct {
	net.Conn
	// ChannelMax, FrameMax and Heartbeat are what the broker proposed in connection.tune.
	ChannelMax uint16
	FrameMax   uint32
	Heartbeat  uint16
}

// Login says how a handshake goes.
type Login struct {
	// User and Password are for PLAIN.
	User, Password string
	// Mechanism and Response are another way to log in, which needs no User and Password; PLAIN if empty.
	Mechanism, Response string
	// VHost is opened; "/" if empty.
	VHost string
	// ChannelMax and FrameMax are answered in tune-ok; what the broker proposed if 0.
	ChannelMax uint16
	FrameMax   uint32
	// QuietFailure leaves out the capability authentication_failure_close.
	QuietFailure bool
}

// Guest is the login of guest to "/".
var Guest = Login{User: "guest", Password: "guest"}

// Dial opens the socket and sends nothing.
func Dial(address string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", address, answerTimeout)
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c}, nil
}

// Open opens the socket and goes through the whole handshake.
func Open(address string, login Login) (*Conn, error) {
	c, err := Dial(address)
	if err != nil {
		return nil, err
	}
	if err := c.Handshake(login); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// CloseError is the broker's connection.close or channel.close.
type CloseError struct {
	// Channel is 0 for a connection.
	Channel uint16
	// Code and Text are the reply code and text.
	Code uint16
	Text string
}

func (e *CloseError) Error() string {
	return fmt.Sprintf("channel %d closed: %d %s", e.Channel, e.Code, e.Text)
}

// Send writes frames.
func (c *Conn) Send(frames ...Frame) error {
	var data []byte
	for _, f := range frames {
		data = f.Append(data)
	}
	return c.SendRaw(string(data))
}

// SendRaw writes octets as they are.
func (c *Conn) SendRaw(data string) error {
	if err := c.SetWriteDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	_, err := io.WriteString(c.Conn, data)
	return err
}

// Read reads the next frame that is no heartbeat. A connection.close or channel.close is answered and returned as a *CloseError.
func (c *Conn) Read() (Frame, error) {
	for {
		if err := c.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
			return Frame{}, err
		}
		f, err := readFrame(c.Conn)
		if err != nil {
			return Frame{}, err
		}
		if f.Type == TypeHeartbeat {
			continue
		}
		class, method := f.Method()
		switch {
		case class == 10 && method == 50:
			_ = c.Send(Method(10, 51).Frame(0))
		case class == 20 && method == 40:
			_ = c.Send(Method(20, 41).Frame(f.Channel))
		default:
			return f, nil
		}
		return f, closeError(f)
	}
}

func closeError(f Frame) error {
	rest := f.Payload[4:]
	if len(rest) < 3 || len(rest) < 3+int(rest[2]) {
		return errors.New("a close method that is too short")
	}
	return &CloseError{Channel: f.Channel, Code: binary.BigEndian.Uint16(rest), Text: string(rest[3 : 3+int(rest[2])])}
}

// Expect reads until a certain method comes; a close in its place is the error.
func (c *Conn) Expect(class, method uint16) (Frame, error) {
	f, err := c.Read()
	if err != nil {
		return f, fmt.Errorf("waiting for method %d.%d: %w", class, method, err)
	}
	if gotClass, gotMethod := f.Method(); gotClass != class || gotMethod != method {
		return f, fmt.Errorf("%v instead of method %d.%d", f, class, method)
	}
	return f, nil
}

// Call sends a method and waits for its answer.
func (c *Conn) Call(request Frame, class, method uint16) (Frame, error) {
	if err := c.Send(request); err != nil {
		return Frame{}, err
	}
	return c.Expect(class, method)
}

// AwaitClose reads on until the broker closes the connection or a channel, and returns what it said. ErrSilent means that it closed the socket
// without a word.
func (c *Conn) AwaitClose() (*CloseError, error) {
	for {
		_, err := c.Read()
		var closed *CloseError
		switch {
		case errors.As(err, &closed):
			return closed, nil
		case isEnd(err):
			return nil, ErrSilent
		case err != nil:
			return nil, err
		}
	}
}

// ErrSilent says that the broker closed the socket without a close method.
var ErrSilent = errors.New("the socket was closed without a word")

// isEnd tells the end of a socket from a broker that does not answer.
func isEnd(err error) bool {
	var netErr net.Error
	return err != nil && !(errors.As(err, &netErr) && netErr.Timeout())
}

// AwaitEnd reads until the other side has closed the socket, and returns what came before.
func (c *Conn) AwaitEnd() ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(c.Conn, frameBytesMax))
	if isEnd(err) {
		err = nil // a reset ends a connection as well
	}
	return data, err
}

// StartOK is connection.start-ok.
func StartOK(login Login) Frame {
	properties := ""
	if !login.QuietFailure {
		capability := (&Arguments{}).ShortString("authentication_failure_close").Raw("t\x01")
		properties = string((&Arguments{}).ShortString("capabilities").Raw("F").LongString(string(capability.bytes)).bytes)
	}
	if login.Mechanism == "" {
		login.Mechanism, login.Response = "PLAIN", "\x00"+login.User+"\x00"+login.Password
	}
	return Method(10, 11).LongString(properties).ShortString(login.Mechanism).LongString(login.Response).ShortString("en_US").Frame(0)
}

// Handshake sends the protocol header and goes on to connection.open-ok.
func (c *Conn) Handshake(login Login) error {
	if err := c.SendRaw(Header); err != nil {
		return err
	}
	if _, err := c.Expect(10, 10); err != nil {
		return err
	}
	tune, err := c.Call(StartOK(login), 10, 30)
	if err != nil {
		return err
	}
	if len(tune.Payload) < 12 {
		return errors.New("connection.tune is too short")
	}
	c.ChannelMax = binary.BigEndian.Uint16(tune.Payload[4:])
	c.FrameMax = binary.BigEndian.Uint32(tune.Payload[6:])
	c.Heartbeat = binary.BigEndian.Uint16(tune.Payload[10:])
	if login.ChannelMax == 0 {
		login.ChannelMax = c.ChannelMax
	}
	if login.FrameMax == 0 {
		login.FrameMax = c.FrameMax
	}
	if login.VHost == "" {
		login.VHost = "/"
	}
	tuneOK := Method(10, 31).Short(login.ChannelMax).Long(login.FrameMax).Short(0).Frame(0)
	open := Method(10, 40).ShortString(login.VHost).ShortString("").Octet(0).Frame(0)
	if err := c.Send(tuneOK, open); err != nil {
		return err
	}
	_, err = c.Expect(10, 41)
	return err
}

// OpenChannel opens a channel.
func (c *Conn) OpenChannel(channel uint16) error {
	_, err := c.Call(Method(20, 10).ShortString("").Frame(channel), 20, 11)
	return err
}
