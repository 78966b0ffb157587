package management

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
)

// call is one request on its way through a handler.
type call struct {
	s      *Server
	w      http.ResponseWriter
	r      *http.Request
	params [paramsMax]string
	user   *meta.User
	// session is that of the cookie by which the user is known, nil if a password came with the request.
	session *session
	view    *meta.View
	query   url.Values
	spans   spans
}

// answer begins a JSON answer; the writer must be finished.
func (c *call) answer(status int) *writer {
	c.w.Header().Set("Content-Type", "application/json")
	return &writer{out: c.w, status: status}
}

// object answers with one object, of which the client may want some columns only.
func (c *call) object(status int, write func(*writer)) error {
	columns, err := c.columns()
	if err != nil {
		return err
	}
	w := c.answer(status)
	w.columns = columns
	if w.Object("") {
		write(w)
		w.End()
	}
	w.finish()
	return nil
}

// empty answers with a status and nothing else.
func (c *call) empty(status int) error {
	c.w.WriteHeader(status)
	return nil
}

// made answers a PUT: 201 if it made something, 204 if it changed it or found it as wanted.
func (c *call) made(existed bool) error {
	if existed {
		return c.empty(http.StatusNoContent)
	}
	return c.empty(http.StatusCreated)
}

func (c *call) columns() (*columns, error) {
	if !c.query.Has("columns") {
		return nil, nil
	}
	return parseColumns(c.query.Get("columns"))
}

// flag tells whether a parameter is set to true; anything else is false, as in RabbitMQ.
func (c *call) flag(name string) bool { return c.query.Get(name) == "true" }

// do writes commands to the catalogue, of which the first is not refused by the View, and returns its reply. what names the object for texts.
func (c *call) do(what resource, cmds ...meta.Command) (meta.Reply, error) {
	reply := c.view.Check(&cmds[0])
	if err := refusal(&reply, what); err != nil {
		return reply, err
	}
	if reply.Existed {
		return reply, nil
	}
	replies, err := c.s.opt.Host.Do(c.r.Context(), cmds...)
	if err != nil {
		return meta.Reply{}, hostFailure(err, what)
	}
	for i := range replies {
		if err := refusal(&replies[i], what); err != nil {
			return replies[i], err
		}
	}
	return replies[0], nil
}

// body is a request's JSON object. Keys that nobody asks for are ignored.
type body map[string]json.RawMessage

// readBody reads the body. None, null and undefined are the empty object.
func (c *call) readBody() (body, error) {
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, limits.HTTPBodyBytesMax))
	if err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, bodyTooLarge(large.Limit)
		}
		return nil, badRequest("the request body ended early")
	}
	switch text := strings.TrimSpace(string(data[:min(len(data), 16)])); text {
	case "", "null", "undefined":
		if len(data) <= 16 {
			return body{}, nil
		}
	}
	var b body
	if !utf8.Valid(data) {
		return nil, badRequest("not_json")
	}
	if err := json.Unmarshal(data, &b); err != nil {
		if json.Valid(data) && strings.HasPrefix(strings.TrimSpace(string(data[:min(len(data), 64)])), `"`) {
			return nil, badRequest("invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?")
		}
		return nil, badRequest("not_json")
	}
	return b, nil
}

// require checks that keys are there and names all that are missing, in RabbitMQ's form.
func (b body) require(keys ...string) error {
	var missing []string
	for _, k := range keys {
		if _, ok := b[k]; !ok {
			missing = append(missing, "{key_missing,"+k+"}")
		}
	}
	if missing == nil {
		return nil
	}
	return badRequest("[" + strings.Join(missing, ",") + "]")
}

// has tells whether a key is there with a value other than null.
func (b body) has(key string) bool {
	raw, ok := b[key]
	return ok && string(raw) != "null"
}

// text returns a string, the default if there is none.
func (b body) text(key, missing string) (string, error) {
	if !b.has(key) {
		return missing, nil
	}
	var s string
	if json.Unmarshal(b[key], &s) != nil {
		return "", badRequestWords("not_string", key)
	}
	return s, nil
}

// bool returns a bool; the strings true and false count, too.
func (b body) bool(key string, missing bool) (bool, error) {
	switch raw := string(b[key]); raw {
	case "", "null":
		return missing, nil
	case "true", `"true"`:
		return true, nil
	case "false", `"false"`:
		return false, nil
	default:
		return false, badRequestWords("not_boolean", plainJSON(b[key]))
	}
}

// int returns a whole number between bounds; the string of one counts, too. What is above the upper bound is cut to it.
func (b body) int(key string, least, most int) (int, error) {
	text := plainJSON(b[key])
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) && !strings.HasPrefix(text, "-"):
		return most, nil
	case err != nil:
		return 0, badRequestWords("not_integer", text)
	case n < int64(least):
		return 0, badRequestf("%s must be at least %d", key, least)
	}
	return int(min(n, int64(most))), nil
}

// plainJSON is a value for an error text: a string without its quotes, anything else as it was sent, not too much of it.
func plainJSON(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		s = string(raw)
	}
	const most = 128
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// tags reads a list of tags: an array of strings, or a string with commas.
func (b body) tags(key string) ([]string, error) {
	if !b.has(key) {
		return nil, nil
	}
	var list []string
	if json.Unmarshal(b[key], &list) == nil {
		return trimmed(list), nil
	}
	text, err := b.text(key, "")
	if err != nil {
		return nil, badRequestf("%s must be a list of strings or a string with commas", key)
	}
	return trimmed(strings.Split(text, ",")), nil
}

func trimmed(list []string) []string {
	out := list[:0]
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}
