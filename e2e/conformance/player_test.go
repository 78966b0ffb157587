package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/rawamqp"
)

// player plays the steps of one case and writes down what the broker answers. It has a virtual host and a user name of its own, which the transcript
// shows as "/" and "user".
type player struct {
	t      *testing.T
	broker *harness.Broker
	vhost  string
	conns  []*playedConn
	out    []string
	vars   map[string]string
}

// playedConn is one connection of a case, by its name; the first is "a", which a step need not name.
type playedConn struct {
	*rawamqp.Conn
	name     string
	closed   string          // why nothing more comes, empty while it is open
	channels []uint16        // that were opened
	shut     map[uint16]bool // of them, which are closed
	contents map[uint16]*content
	unasked  map[string]int // what came while something else was waited for, by channel and name
}

// content is a message that has not come whole.
type content struct {
	name, method, properties string
	header                   bool
	left                     uint64
	body                     []byte
}

// event is a method that has come, with its content if it has one.
type event struct {
	channel    uint16
	name, text string
}

const (
	// quietTimeout is how long the broker may take to close a socket that it is done with; RabbitMQ waits 3 s before it tells that a login failed.
	quietTimeout = 10 * time.Second
	firstConn    = "a"
	endOfSocket  = "(the socket is closed)"
)

// step is one line: who, on which channel, what, and the words behind it.
type step struct {
	conn    string
	channel uint16
	verb    string
	words   []string
	given   map[string]string
}

func parseStep(line string) (step, error) {
	s := step{conn: firstConn, channel: 1, given: map[string]string{}}
	words := splitWords(line)
	if name, ok := strings.CutSuffix(words[0], ":"); ok {
		s.conn, words = name, words[1:]
	}
	if len(words) == 0 {
		return s, errors.New("nothing to do")
	}
	s.verb = words[0]
	if channel, verb, ok := strings.Cut(s.verb, "/"); ok {
		n, err := strconv.ParseUint(channel, 10, 16)
		if err != nil {
			return s, err
		}
		s.channel, s.verb = uint16(n), verb
	} else if strings.HasPrefix(s.verb, "connection.") || s.verb == "wait" && strings.HasPrefix(words[1], "connection.") {
		s.channel = 0
	}
	for _, w := range words[1:] {
		key, value, ok := strings.Cut(w, "=")
		if ok && !strings.HasPrefix(w, `"`) && !strings.HasPrefix(w, "{") && !strings.HasPrefix(w, "/") {
			s.given[key] = value
			continue
		}
		s.words = append(s.words, w)
	}
	return s, nil
}

// splitWords splits at spaces outside double quotes.
func splitWords(line string) (words []string) {
	var word strings.Builder
	quoted := false
	for i := 0; i < len(line); i++ {
		c := line[i]
		if c == '\\' && quoted && i+1 < len(line) {
			word.WriteString(line[i : i+2])
			i++
			continue
		}
		if c == '"' {
			quoted = !quoted
		}
		if c == ' ' && !quoted {
			if word.Len() > 0 {
				words = append(words, word.String())
			}
			word.Reset()
			continue
		}
		word.WriteByte(c)
	}
	if word.Len() > 0 {
		words = append(words, word.String())
	}
	return words
}

// play plays a case and returns its transcript.
func play(t *testing.T, b *harness.Broker, id int, steps []string) []string {
	t.Helper()
	p := &player{t: t, broker: b, vhost: fmt.Sprintf("conformance-%d", id), vars: map[string]string{}}
	p.vars["vhost"], p.vars["user"] = p.vhost, fmt.Sprintf("conformance-user-%d", id)
	p.api(http.MethodDelete, harness.Path("vhosts", p.vhost), "", http.StatusNotFound)
	p.api(http.MethodPut, harness.Path("vhosts", p.vhost), "")
	p.api(http.MethodPut, harness.Path("permissions", p.vhost, "guest"), `{"configure":".*","write":".*","read":".*"}`)
	defer func() {
		for _, c := range p.conns {
			c.Close()
		}
		p.api(http.MethodDelete, harness.Path("vhosts", p.vhost), "")
		p.api(http.MethodDelete, harness.Path("users", p.vars["user"]), "", http.StatusNotFound)
	}()
	for _, line := range steps {
		for name, value := range p.vars {
			line = strings.ReplaceAll(line, "{"+name+"}", value)
		}
		s, err := parseStep(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if err := p.do(s); err != nil {
			t.Fatalf("%s: %v\nso far:\n%s", line, err, strings.Join(p.out, "\n"))
		}
	}
	for _, c := range p.conns {
		p.after(c)
	}
	return p.out
}

// api sends a request that must succeed, or have one of the other answers that are allowed.
func (p *player) api(method, path, body string, allowed ...int) harness.Answer {
	p.t.Helper()
	var data any
	if body != "" {
		data = json.RawMessage(body)
	}
	a := p.broker.API(p.t, method, path, data)
	if a.Status >= http.StatusBadRequest && !slices.Contains(allowed, a.Status) {
		p.t.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
	}
	return a
}

var masks = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`conformance-user-\d+`), "user"},
	{regexp.MustCompile(`'conformance-\d+'`), "'/'"},
	{regexp.MustCompile(`conformance-\d+`), "/"},
	{regexp.MustCompile(`amq\.gen-[-_A-Za-z0-9]{22}`), "amq.gen-*"},
	{regexp.MustCompile(`time:T\d+`), "time:T*"},
	{regexp.MustCompile(`amq\.ctag-[-_A-Za-z0-9]{22}`), "amq.ctag-*"},
	{regexp.MustCompile(`="?amq\.rabbitmq\.reply-to\.[^ "]+"?`), "=amq.rabbitmq.reply-to.*"},
}

// print writes a line of the transcript, with everything masked that differs from run to run.
func (p *player) print(conn, text string) {
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.text)
	}
	if conn != firstConn {
		text = conn + ": " + text
	}
	p.out = append(p.out, text)
}

// conn returns a connection; the first one comes by itself.
func (p *player) conn(name string) *playedConn {
	for _, c := range p.conns {
		if c.name == name {
			return c
		}
	}
	if name != firstConn {
		p.t.Fatalf("no connection %s", name)
	}
	p.connect(step{conn: name, given: map[string]string{}})
	return p.conns[len(p.conns)-1]
}

// do carries out one step.
func (p *player) do(s step) error {
	switch s.verb {
	case "http":
		return p.http(s)
	case "until":
		return p.until(s)
	case "connect":
		p.connect(s)
		return nil
	case "dial":
		p.dial(s.conn)
		return nil
	case "count":
		p.count(s)
		return nil
	case "repeat":
		return p.repeat(s)
	}
	c := p.conn(s.conn)
	switch s.verb {
	case "wait":
		p.await(c, s.channel, s.words[0])
	case "closed":
		p.await(c, 0, "")
	case "lose":
		c.closed = "lost"
		return c.Close()
	case "send": // without waiting for the answer
		inner := s
		inner.verb, inner.words = s.words[0], s.words[1:]
		return p.send(c, inner)
	case "raw":
		return sendQuoted(c, s.words[0])
	case "frame":
		return p.frame(c, s)
	case "publish", "content":
		return p.publish(c, s)
	default:
		return p.method(c, s)
	}
	return nil
}

func sendQuoted(c *playedConn, text string) error {
	raw, err := unquote(text)
	if err != nil {
		return err
	}
	return c.SendRaw(raw)
}

// repeat does a step that has no answer many times.
func (p *player) repeat(s step) error {
	n, err := strconv.Atoi(s.words[0])
	if err != nil {
		return err
	}
	inner := step{conn: s.conn, channel: s.channel, verb: s.words[1], words: s.words[2:], given: s.given}
	for range n {
		if err := p.do(inner); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) dial(name string) *playedConn {
	conn, err := rawamqp.Dial(p.broker.AMQP)
	if err != nil {
		p.t.Fatal(err)
	}
	c := &playedConn{Conn: conn, name: name, shut: map[uint16]bool{}, contents: map[uint16]*content{}, unasked: map[string]int{}}
	p.vars["connection"] = strings.ReplaceAll(url.QueryEscape(conn.LocalAddr().String()+" -> "+conn.RemoteAddr().String()), "+", "%20")
	p.conns = append(p.conns, c)
	return c
}

// clientProperties declares every capability that a client can have.
const clientProperties = `{capabilities:F{authentication_failure_close:t1,consumer_cancel_notify:t1,connection.blocked:t1,basic.nack:t1,publisher_confirms:t1}}`

// connect goes through the handshake and opens channel 1. Where the broker refuses, that is printed.
func (p *player) connect(s step) {
	c := p.dial(s.conn)
	given := func(name, other string) string {
		if v, ok := s.given[name]; ok {
			return v
		}
		return other
	}
	user, password := given("user", "guest"), given("password", "guest")
	before := len(p.out)
	if err := c.SendRaw(rawamqp.Header); err != nil {
		p.t.Fatal(err)
	}
	p.await(c, 0, "connection.start")
	for _, line := range []string{
		"connection.start-ok client-properties=" + given("client-properties", clientProperties) + " mechanism=" + given("mechanism", "PLAIN") + " response=" +
			given("response", strconv.Quote("\x00"+user+"\x00"+password)) + " locale=en_US",
		"connection.tune-ok channel-max=" + given("channel-max", "2047") + " frame-max=" + given("frame-max", "131072") + " heartbeat=" + given("heartbeat", "0"),
		"connection.open vhost=" + given("vhost", p.vhost),
		"channel.open",
	} {
		inner, err := parseStep(line)
		if err == nil {
			err = p.method(c, inner)
		}
		if err != nil {
			p.t.Fatalf("%s: %v", line, err)
		}
	}
	if c.closed == "" {
		p.out = p.out[:before] // how a handshake goes that goes well is no news
	}
}

// http sends a request; "show=a.b" prints a value of the answer.
func (p *player) http(s step) error {
	body := ""
	if len(s.words) > 2 {
		body = strings.Join(s.words[2:], " ")
	}
	var data any
	if body != "" {
		data = json.RawMessage(body)
	}
	a := p.broker.API(p.t, s.words[0], s.words[1], data)
	if a.Status >= http.StatusBadRequest {
		p.print(firstConn, fmt.Sprintf("http %d %s", a.Status, a.Body))
		return nil
	}
	if path := s.given["show"]; path != "" {
		var v any
		a.JSON(p.t, &v)
		for key := range strings.SplitSeq(path, ".") {
			if object, ok := v.(map[string]any); ok {
				v = object[key]
			}
		}
		shown, err := json.Marshal(v)
		p.print(firstConn, fmt.Sprintf("http %s=%s", path, shown))
		return err
	}
	return nil
}

// until sends an HTTP request until it succeeds: what is asked for comes a little later there.
func (p *player) until(s step) error {
	s.verb, s.words = s.words[0], s.words[1:]
	var failed error
	harness.Eventually(p.t, eventTimeout, func() error {
		before := len(p.out)
		if failed = p.http(s); failed == nil && len(p.out) > before && s.given["show"] == "" {
			text := p.out[before]
			p.out = p.out[:before]
			return errors.New(text)
		}
		return nil
	})
	return failed
}

// count waits until a queue has so many ready messages, as a connection of its own sees it.
func (p *player) count(s step) {
	conn, err := rawamqp.Open(p.broker.AMQP, rawamqp.Login{User: "guest", Password: "guest", VHost: p.vhost})
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.OpenChannel(1); err != nil {
		p.t.Fatal(err)
	}
	payload, err := encodeMethod(methodsByName["queue.declare"], map[string]string{"queue": s.given["queue"], "passive": "true"})
	if err != nil {
		p.t.Fatal(err)
	}
	want := "message-count=" + s.given["ready"] + " "
	harness.Eventually(p.t, eventTimeout, func() error {
		f, err := conn.Call(rawamqp.Frame{Type: rawamqp.TypeMethod, Channel: 1, Payload: payload}, 50, 11)
		if err != nil {
			return err
		}
		if _, text := showMethod(f.Payload); !strings.Contains(text+" ", want) && (want != "message-count=0 " || strings.Contains(text, "message-count")) {
			return fmt.Errorf("%s, want %s", text, want)
		}
		return nil
	})
}

func (p *player) frame(c *playedConn, s step) error {
	kind, err := strconv.ParseUint(s.given["type"], 10, 8)
	if err != nil {
		return err
	}
	payload, err := unquote(s.given["payload"])
	if err != nil {
		return err
	}
	return c.Send(rawamqp.Frame{Type: byte(kind), Channel: s.channel, Payload: []byte(payload)})
}

// publish sends basic.publish with its content; "content" sends the content alone.
func (p *player) publish(c *playedConn, s step) error {
	method, properties := map[string]string{}, map[string]string{}
	for name, value := range s.given {
		switch name {
		case "exchange", "routing-key", "mandatory", "immediate":
			method[name] = value
		case "body", "size", "fill":
		default:
			properties[name] = value
		}
	}
	body, err := unquote(s.given["body"])
	if err != nil {
		return err
	}
	if n := s.given["fill"]; n != "" { // a body of so many octets
		octets, err := strconv.Atoi(n)
		if err != nil {
			return err
		}
		body = strings.Repeat("x", octets)
	}
	size := len(body)
	if n := s.given["size"]; n != "" {
		if size, err = strconv.Atoi(n); err != nil {
			return err
		}
	}
	payload, err := encodeMethod(methodsByName["basic.publish"], method)
	if err != nil {
		return err
	}
	header, err := encodeProperties(size, properties)
	if err != nil {
		return err
	}
	var frames []rawamqp.Frame
	if s.verb == "publish" {
		frames = append(frames, rawamqp.Frame{Type: rawamqp.TypeMethod, Channel: s.channel, Payload: payload})
	}
	frames = append(frames, rawamqp.Frame{Type: rawamqp.TypeHeader, Channel: s.channel, Payload: header})
	if body != "" {
		frames = append(frames, rawamqp.Frame{Type: rawamqp.TypeBody, Channel: s.channel, Payload: []byte(body)})
	}
	return p.ifOpen(c, c.Send(frames...))
}

// ifOpen forgives a failed write where the broker has closed the socket; that is noticed when its answer is read.
func (p *player) ifOpen(_ *playedConn, err error) error {
	var netErr interface{ Timeout() bool }
	if errors.As(err, &netErr) && netErr.Timeout() {
		return err
	}
	return nil
}

// method sends a method and waits for its answer, if it has one.
func (p *player) method(c *playedConn, s step) error {
	if err := p.send(c, s); err != nil || c.closed != "" {
		return err
	}
	if answer := answers[s.verb]; answer != "" && s.given["no-wait"] != "true" {
		p.await(c, s.channel, answer)
	}
	return nil
}

// send sends a method.
func (p *player) send(c *playedConn, s step) error {
	m := methodsByName[s.verb]
	if m == nil {
		return errors.New("no such method")
	}
	if c.closed != "" {
		return nil
	}
	payload, err := encodeMethod(m, s.given)
	if err != nil {
		return err
	}
	if s.verb == "channel.open" {
		delete(c.shut, s.channel)
		if !slices.Contains(c.channels, s.channel) {
			c.channels = append(c.channels, s.channel)
		}
	}
	if s.verb == "channel.close" {
		c.shut[s.channel] = true
	}
	return p.ifOpen(c, c.Send(rawamqp.Frame{Type: rawamqp.TypeMethod, Channel: s.channel, Payload: payload}))
}

// await prints what comes until a certain method does, or the channel or the connection ends.
func (p *player) await(c *playedConn, channel uint16, want string) {
	p.t.Helper()
	key := fmt.Sprint(channel, want)
	if c.closed != "" {
		return
	}
	if c.unasked[key] > 0 {
		c.unasked[key]--
		return
	}
	for {
		e, ok := p.next(c)
		if !ok {
			continue
		}
		p.note(e)
		switch {
		case c.closed != "":
			return
		case e.channel == channel && (e.name == want || e.name == "basic.get-empty" && want == "basic.get-ok"):
			return
		case e.name == "channel.close" && (e.channel == channel || want == ""):
			return
		}
		c.unasked[fmt.Sprint(e.channel, e.name)]++
	}
}

// note keeps what later steps may refer to.
func (p *player) note(e event) {
	for _, w := range splitWords(e.text) {
		key, value, _ := strings.Cut(w, "=")
		switch {
		case e.name == "queue.declare-ok" && key == "queue":
			p.vars["queue"] = value
		case key == "reply-to":
			p.vars["reply-to"] = value
		case e.name == "basic.consume-ok" && key == "consumer-tag":
			p.vars["tag"] = value
		}
	}
}

// next reads one frame; ok is false if it is only a part of something. What is whole is printed.
func (p *player) next(c *playedConn) (event, bool) {
	p.t.Helper()
	f, err := c.Read()
	var closed *rawamqp.CloseError
	if err != nil && !errors.As(err, &closed) {
		var netErr interface{ Timeout() bool }
		if errors.As(err, &netErr) && netErr.Timeout() {
			p.t.Fatalf("the broker does not answer; so far:\n%s", strings.Join(p.out, "\n"))
		}
		c.closed = "end"
		p.print(c.name, endOfSocket)
		return event{}, true
	}
	e := event{channel: f.Channel}
	switch f.Type {
	case rawamqp.TypeMethod:
		e.name, e.text = showMethod(f.Payload)
	case rawamqp.TypeHeader, rawamqp.TypeBody:
		return p.part(c, f)
	default:
		p.t.Fatalf("unexpected %v", f)
	}
	switch e.name {
	case "connection.close":
		c.closed = "close"
	case "channel.close", "channel.close-ok":
		c.shut[f.Channel] = true
	case "connection.close-ok":
		c.closed = "close-ok"
	case "connection.start":
		e.text = "connection.start version=0.9" // the rest tells about the product
	case "basic.deliver", "basic.get-ok", "basic.return":
		c.contents[f.Channel] = &content{name: e.name, method: e.text}
		return e, false
	}
	p.printEvent(c, e)
	return e, true
}

func (p *player) printEvent(c *playedConn, e event) {
	text := e.text
	if e.channel > 1 {
		text = fmt.Sprintf("%d/%s", e.channel, text)
	}
	p.print(c.name, text)
}

// part adds a content header or a body to its message.
func (p *player) part(c *playedConn, f rawamqp.Frame) (event, bool) {
	m := c.contents[f.Channel]
	if m == nil {
		p.t.Fatalf("%v, which belongs to nothing", f)
	}
	if f.Type == rawamqp.TypeHeader {
		m.properties, m.left = showProperties(f.Payload)
		m.header = true
	} else {
		m.body = append(m.body, f.Payload...)
		m.left -= uint64(len(f.Payload))
	}
	if m.left > 0 {
		return event{}, false
	}
	delete(c.contents, f.Channel)
	body := strconv.Quote(string(m.body))
	if len(m.body) > 100 {
		body = fmt.Sprintf("%d octets", len(m.body))
	}
	e := event{channel: f.Channel, name: m.name, text: m.method + " |" + m.properties + " | " + body}
	p.printEvent(c, e)
	return e, true
}

// after prints in which state a connection and its channels are when all steps are done: an open channel answers, a closed one can be opened again.
func (p *player) after(c *playedConn) {
	p.t.Helper()
	if c.closed == "lost" {
		return
	}
	if c.closed == "" && len(c.channels) == 0 {
		return // it did not come so far
	}
	states := make([]string, 0, len(c.channels))
	for _, channel := range c.channels {
		if c.closed == "" && !c.shut[channel] {
			p.probe(c, channel, "channel.flow", "active", "true")
		}
	}
	for _, channel := range c.channels {
		state := "open"
		if c.shut[channel] {
			state = "closed"
		}
		states = append(states, fmt.Sprintf("channel %d %s", channel, state))
	}
	for _, channel := range c.channels {
		if c.closed == "" && c.shut[channel] {
			before := len(p.out)
			if p.probe(c, channel, "channel.open"); c.closed == "" {
				p.out = p.out[:before]
			}
		}
	}
	if c.closed == "" {
		p.print(c.name, "after: connection open, "+strings.Join(states, ", "))
		return
	}
	if c.closed != "end" {
		if err := c.SetReadDeadline(time.Now().Add(quietTimeout)); err != nil {
			p.t.Fatal(err)
		}
		if _, err := c.AwaitEnd(); err != nil {
			p.t.Fatalf("the socket is open after connection.close: %v", err)
		}
	}
	p.print(c.name, "after: connection closed")
}

// probe calls a method whose answer only shows that the channel answers; it is not printed.
func (p *player) probe(c *playedConn, channel uint16, method string, given ...string) {
	p.t.Helper()
	s := step{conn: c.name, channel: channel, verb: method, given: map[string]string{}}
	for i := 0; i+1 < len(given); i += 2 {
		s.given[given[i]] = given[i+1]
	}
	if err := p.method(c, s); err != nil {
		p.t.Fatal(err)
	}
	if last := len(p.out) - 1; strings.HasSuffix(p.out[last], answers[method]+" active=true") {
		p.out = p.out[:last]
	}
}
