package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
)

// Error is an answer with a status that is no success.
type Error struct {
	Status int    // HTTP status
	Reason string // the `reason` of the answer, else what it said, else the name of the status
	host   string
	denied bool // a 401 although the login is good
}

var _ exit.Coder = (*Error)(nil)

func newError(status int, answer []byte) *Error {
	var body struct {
		Error  any `json:"error"`
		Reason any `json:"reason"`
	}
	e := &Error{Status: status}
	switch err := json.Unmarshal(answer, &body); {
	case err == nil && body.Reason != nil:
		e.Reason = fmt.Sprint(body.Reason)
	case err == nil && body.Error != nil:
		e.Reason = fmt.Sprint(body.Error)
	case err != nil && len(answer) > 0 && !strings.HasPrefix(strings.TrimSpace(string(answer)), "<"):
		e.Reason = string(answer[:min(len(answer), reasonBytesMax)])
	}
	e.Reason = strings.Join(strings.Fields(e.Reason), " ")
	if e.Reason == "" {
		e.Reason = http.StatusText(status)
	}
	return e
}

// Error is the reason. When it is about the login or the server rather than an object, the server is named.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s (HTTP %d)", e.Reason, e.Status)
	if code := e.Exit(); code != exit.Data && code != exit.Denied {
		text = "management API " + e.host + ": " + text
	}
	return text
}

// Exit maps the status to an exit code. What the server could not do (5xx) is told apart from what it would not do.
func (e *Error) Exit() exit.Code {
	switch {
	case e.Status == http.StatusUnauthorized && !e.denied:
		return exit.Auth
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return exit.Denied
	case e.Status == http.StatusRequestTimeout, e.Status == http.StatusGatewayTimeout, e.Status == http.StatusTooManyRequests:
		return exit.Timeout
	case e.Status == http.StatusBadGateway, e.Status == http.StatusServiceUnavailable:
		return exit.Unavailable
	case e.Status >= 400 && e.Status < 500:
		return exit.Data
	}
	return exit.Internal
}
