package broker

import (
	"fmt"
	"strconv"

	"github.com/warrenmq/warren/amqp"
)

// This file is an automaton of what a server of AMQP 0-9-1 says to a client, from the specification and RabbitMQ's rules. It knows nothing of the broker:
// a table of what may be sent, and one state per connection and channel. sequence_test.go plays it against the broker.

// phase is where a connection stands.
type phase uint8

const (
	phaseHeader  phase = iota // nothing has come
	phaseStart                // start was sent
	phaseTune                 // tune was sent
	phaseOpen                 // tune-ok has come
	phaseRunning              // open-ok was sent
	phaseClosing              // the server has sent connection.close
	phaseDoomed               // the server says nothing and will close the socket
	phaseEnded                // the socket is closed
)

// content is what a channel waits for.
type content uint8

const (
	contentNone content = iota
	contentHeader
	contentBody
)

// chanModel is a channel that was opened.
type chanModel struct {
	failed    bool // the server has sent channel.close
	confirm   bool
	published int
	content   content
	left      int // bytes of body to come
	nowhere   bool
	mandatory bool
	body      bool
}

// connModel is a connection.
type connModel struct {
	wrong      wrongRule
	phase      phase
	deaf       bool // frames cannot be told apart any more, only close-ok is looked for
	channelMax int
	channels   map[uint16]*chanModel
}

// wrongRule is a fault planted into the automaton, 0 for none.
type wrongRule int

const (
	wrongNone wrongRule = iota
	wrongSecondOpen
	wrongAfterFailure
	wrongChannelMax
	wrongHeartbeat
	wrongBodyTooLong
	wrongClosing
	wrongTuneOrder
	wrongEnd
)

const (
	frameMaxOfModel   = 131072
	channelMaxOfModel = 2047
	bodyMaxOfModel    = 16 << 20
)

// connectionClose and channelClose are what the server says when it fails something.
func connectionClose(code int) string { return "0 connection.close " + strconv.Itoa(code) }
func channelClose(channel uint16, code int) string {
	return fmt.Sprintf("%d channel.close %d", channel, code)
}
func says(channel uint16, method string) []string {
	return []string{fmt.Sprintf("%d %s", channel, method)}
}

// fail is a connection error.
func (m *connModel) fail(code int) []string {
	m.phase = phaseClosing
	return []string{connectionClose(code)}
}

// broken is a connection error after which frames cannot be found.
func (m *connModel) broken(code int) []string {
	if m.phase != phaseClosing {
		m.deaf = true
		return m.fail(code)
	}
	m.deaf = true
	return nil
}

// take says what the server answers to a step.
func (m *connModel) take(s *step) []string {
	switch {
	case m.phase == phaseEnded:
		return nil
	case s.kind == stepWait:
		return m.wait()
	case s.kind == stepForce:
		if m.phase != phaseRunning {
			return nil
		}
		return m.fail(320)
	case m.phase == phaseHeader:
		return m.header(s)
	case m.deaf || m.phase == phaseDoomed:
		if s.method == "connection.close-ok" {
			m.phase = phaseEnded
		}
		return nil
	case s.kind == stepBroken:
		return m.broken(501)
	case s.kind == stepHeartbeat && s.channel != 0:
		if m.wrong == wrongHeartbeat {
			return nil
		}
		return m.broken(505)
	case s.kind == stepHeartbeat:
		return nil
	case s.kind == stepHeader:
		return m.broken(501) // its octets are a frame of type A with a size beyond all bounds
	case m.phase == phaseClosing:
		return m.closing(s)
	case m.phase == phaseRunning:
		return m.running(s)
	}
	return m.handshake(s)
}

// wait lets time pass, more than any limit but heartbeats, which are off.
func (m *connModel) wait() []string {
	if m.phase != phaseRunning {
		m.phase = phaseEnded
	}
	return nil
}

func (m *connModel) header(s *step) []string {
	if s.kind == stepHeader && s.variant < 2 {
		m.phase = phaseStart
		return says(0, "connection.start")
	}
	m.phase = phaseEnded
	return []string{"protocol header"}
}

func (m *connModel) closing(s *step) []string {
	if s.channel != 0 || s.kind != stepMethod {
		return nil
	}
	switch s.method {
	case "connection.close-ok":
		m.phase = phaseEnded
	case "connection.close":
		if m.wrong == wrongClosing {
			return nil
		}
		return says(0, "connection.close-ok")
	}
	return nil
}

func (m *connModel) handshake(s *step) []string {
	switch {
	case s.kind != stepMethod || s.channel != 0:
		return m.fail(505)
	case s.method == "connection.close":
		m.phase = phaseEnded
		return says(0, "connection.close-ok")
	case s.method == "connection.close-ok":
		m.phase = phaseEnded
		return nil
	case m.phase == phaseStart && s.method == "connection.start-ok":
		return m.startOk(s)
	case m.phase == phaseTune && s.method == "connection.tune-ok":
		return m.tuneOk(s)
	case m.phase == phaseOpen && s.method == "connection.open":
		if s.code != 0 {
			return m.fail(s.code)
		}
		m.phase = phaseRunning
		return says(0, "connection.open-ok")
	case m.wrong == wrongTuneOrder && m.phase == phaseTune && s.method == "connection.open":
		m.phase = phaseRunning
		return says(0, "connection.open-ok")
	}
	return m.fail(504)
}

func (m *connModel) startOk(s *step) []string {
	if s.code == silentRefusal {
		m.phase = phaseDoomed
		return nil
	}
	if s.code != 0 {
		return m.fail(s.code)
	}
	m.phase = phaseTune
	return says(0, "connection.tune")
}

func (m *connModel) tuneOk(s *step) []string {
	tune := s.send.(*amqp.ConnectionTuneOk)
	if f := tune.FrameMax; f != 0 && f < 4096 || f > frameMaxOfModel || tune.ChannelMax > channelMaxOfModel {
		return m.fail(530)
	}
	m.channelMax = int(tune.ChannelMax)
	if m.channelMax == 0 {
		m.channelMax = channelMaxOfModel
	}
	if m.wrong == wrongChannelMax {
		m.channelMax++
	}
	m.phase = phaseOpen
	return nil
}

func (m *connModel) running(s *step) []string {
	if s.channel == 0 {
		switch {
		case s.kind != stepMethod:
			return m.fail(505)
		case s.method == "connection.close":
			m.phase = phaseEnded
			if m.wrong == wrongEnd {
				m.phase = phaseClosing
			}
			return says(0, "connection.close-ok")
		case s.method == unknownMethod:
			return m.fail(503)
		}
		return m.fail(504)
	}
	ch := m.channels[s.channel]
	if ch == nil {
		return m.unopened(s)
	}
	if ch.failed {
		return m.failed(s)
	}
	switch ch.content {
	case contentHeader:
		return m.contentHeader(ch, s)
	case contentBody:
		return m.contentBody(ch, s)
	}
	if s.kind != stepMethod {
		return m.fail(505)
	}
	return m.method(ch, s)
}

func (m *connModel) unopened(s *step) []string {
	switch {
	case s.method != "channel.open":
		return m.fail(504)
	case len(m.channels) >= m.channelMax:
		return m.fail(530)
	}
	m.channels[s.channel] = &chanModel{}
	return says(s.channel, "channel.open-ok")
}

func (m *connModel) failed(s *step) []string {
	switch s.method {
	case "channel.close":
		return says(s.channel, "channel.close-ok")
	case "channel.close-ok":
		delete(m.channels, s.channel)
	default:
		if m.wrong == wrongAfterFailure && s.reply != "" {
			return says(s.channel, s.reply)
		}
	}
	return nil
}

// failChannel is a channel error.
func (m *connModel) failChannel(ch *chanModel, s *step, code int) []string {
	ch.failed = true
	return []string{channelClose(s.channel, code)}
}

func (m *connModel) contentHeader(ch *chanModel, s *step) []string {
	switch {
	case s.kind != stepContent || s.class != 60 || s.weight != 0:
		return m.fail(505)
	case s.size > 512<<20:
		return m.fail(501)
	case s.size > bodyMaxOfModel:
		return m.failChannel(ch, s, 406)
	}
	ch.left, ch.content, ch.body = int(s.size), contentBody, s.size > 0
	return m.complete(ch, s)
}

func (m *connModel) contentBody(ch *chanModel, s *step) []string {
	switch {
	case s.kind != stepBody:
		return m.fail(505)
	case int(s.size) > ch.left && m.wrong != wrongBodyTooLong:
		return m.fail(501)
	}
	ch.left -= int(s.size)
	return m.complete(ch, s)
}

// complete is what follows when all of a message is there.
func (m *connModel) complete(ch *chanModel, s *step) []string {
	if ch.left > 0 {
		return nil
	}
	ch.content = contentNone
	if ch.nowhere {
		return m.failChannel(ch, s, 404)
	}
	var out []string
	if ch.mandatory {
		out = append(out, says(s.channel, "basic.return")...)
		out = append(out, says(s.channel, "header")...)
		if ch.body {
			out = append(out, says(s.channel, "body")...)
		}
	}
	if ch.confirm {
		ch.published++
		out = append(out, says(s.channel, "basic.ack "+strconv.Itoa(ch.published))...)
	}
	return out
}

func (m *connModel) method(ch *chanModel, s *step) []string {
	switch s.method {
	case "channel.open":
		if m.wrong == wrongSecondOpen {
			return says(s.channel, "channel.open-ok")
		}
		return m.fail(504)
	case "channel.close-ok":
		return m.fail(503)
	case "channel.close":
		delete(m.channels, s.channel)
	case "basic.publish":
		publish := s.send.(*amqp.BasicPublish)
		ch.content, ch.nowhere, ch.mandatory = contentHeader, publish.Exchange != "", publish.Mandatory
		return nil
	case "confirm.select":
		ch.confirm = true
	}
	switch {
	case s.code >= 500:
		return m.fail(s.code)
	case s.code != 0:
		return m.failChannel(ch, s, s.code)
	case s.reply == "":
		return nil
	}
	return says(s.channel, s.reply)
}
