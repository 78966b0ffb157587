package httpapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/trust"
)

// answerBytesMax bounds one answer: 100,000 queues with every field are about 200 MB.
const answerBytesMax = 512 << 20

// reasonBytesMax bounds how much of an error answer that is not JSON is shown.
const reasonBytesMax = 200

// defaultUser and its password are used when the URL names nobody, as the RabbitMQ tools do.
const defaultUser = "guest"

// Client talks to one management endpoint.
type Client struct {
	base *url.URL
	user *url.Userinfo
	http *http.Client
}

// New makes a client for a URL such as http://guest:guest@localhost:15672. A path in it is a prefix of /api; a trailing /api is ignored.
// timeout bounds one request with its answer; secure is for https, Go's default if nil. A URL that cannot be used is a Config error.
func New(rawURL string, timeout time.Duration, secure *tls.Config) (*Client, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, BadURL()
	}
	user := u.User
	if user == nil {
		user = url.UserPassword(defaultUser, defaultUser)
	}
	base := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/api")}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	return &Client{base: base, user: user, http: &http.Client{Timeout: timeout, Transport: transport}}, nil
}

// BadURL is the error for a management URL that cannot be used. Its text never appears, for it holds a password.
func BadURL() error {
	return exit.Errorf(exit.Config, "bad --url: want http://user:password@host:port, with reserved characters in user and password percent-encoded")
}

// Path joins segments into a path below /api, each escaped so that it stays one segment whatever it contains.
func Path(segments ...string) string {
	escaped := make([]string, len(segments))
	for i, s := range segments {
		switch s {
		case ".", "..": // servers and proxies resolve these as directories unless the dots are escaped, too
			escaped[i] = strings.ReplaceAll(s, ".", "%2E")
		default:
			escaped[i] = url.PathEscape(s)
		}
	}
	return "/" + strings.Join(escaped, "/")
}

// Get returns the body of a GET on a path made by Path, with an optional query.
func (c *Client) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	body, _, err := c.do(ctx, http.MethodGet, path, query, nil)
	return body, err
}

// reasonHeader carries why something is deleted.
const reasonHeader = "X-Reason"

// DeleteFor removes an object for a reason that is told to whom it concerns.
func (c *Client) DeleteFor(ctx context.Context, path, reason string) error {
	_, _, err := c.do(ctx, http.MethodDelete, path, nil, nil, reasonHeader, strings.Join(strings.Fields(reason), " "))
	return err
}

// Put sends body as JSON and tells whether the object was created (201) rather than updated or found (204).
func (c *Client) Put(ctx context.Context, path string, body any) (created bool, err error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return false, err
	}
	_, status, err := c.do(ctx, http.MethodPut, path, nil, encoded)
	return status == http.StatusCreated, err
}

// Post sends body as JSON.
func (c *Client) Post(ctx context.Context, path string, body any) error {
	return c.send(ctx, http.MethodPost, path, body)
}

// Ask is a POST that changes nothing and returns the answer.
func (c *Client) Ask(ctx context.Context, path string, body any) ([]byte, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	answer, _, err := c.do(ctx, http.MethodPost, path, nil, encoded)
	return answer, err
}

// DeleteAnswer deletes an object and returns what is told of it.
func (c *Client) DeleteAnswer(ctx context.Context, path string) ([]byte, error) {
	answer, _, err := c.do(ctx, http.MethodDelete, path, nil, nil)
	return answer, err
}

// DeleteBy is a DELETE whose body says what is removed.
func (c *Client) DeleteBy(ctx context.Context, path string, body any) error {
	return c.send(ctx, http.MethodDelete, path, body)
}

func (c *Client) send(ctx context.Context, method, path string, body any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, _, err = c.do(ctx, method, path, nil, encoded)
	return err
}

// Delete removes an object.
func (c *Client) Delete(ctx context.Context, path string, query url.Values) error {
	_, _, err := c.do(ctx, http.MethodDelete, path, query, nil)
	return err
}

// do sends a request, with header as pairs of names and values.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body []byte, header ...string) ([]byte, int, error) {
	answer, status, err := c.roundTrip(ctx, method, path, query, body, header...)
	if err != nil {
		return nil, 0, err
	}
	if status >= 200 && status < 300 {
		return answer, status, nil
	}
	failure := newError(status, answer)
	failure.host = c.base.Host
	if status == http.StatusUnauthorized {
		// Brokers answer 401 to a wrong password and to a missing permission alike; only a good login may ask who it is.
		if _, who, err := c.roundTrip(ctx, http.MethodGet, "/whoami", nil, nil); err == nil && who == http.StatusOK {
			failure.denied = true
		}
	}
	return nil, status, failure
}

func (c *Client) roundTrip(ctx context.Context, method, path string, query url.Values, body []byte, header ...string) ([]byte, int, error) {
	target := c.base.String() + "/api" + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	password, _ := c.user.Password()
	req.SetBasicAuth(c.user.Username(), password)
	req.Header.Set("Accept", "application/json, */*;q=0.1") // RabbitMQ has nothing to say to a change of a limit, and does not call that JSON
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, 0, c.transportError(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerBytesMax+1))
	if err != nil {
		return nil, 0, c.transportError(err)
	}
	if len(answer) > answerBytesMax {
		return nil, 0, exit.Errorf(exit.Internal, "the answer of %s is larger than %d bytes", c.base.Host, answerBytesMax)
	}
	return answer, resp.StatusCode, nil
}

// transportError says which address did not answer; the URL in the error of net/http is left out because it tells less.
func (c *Client) transportError(err error) error {
	cause := err
	if u, ok := err.(*url.Error); ok {
		cause = u.Err
	}
	code := exit.Of(err)
	switch {
	case strings.Contains(cause.Error(), "malformed HTTP"):
		return exit.Errorf(exit.Unavailable, "%s does not speak HTTP (is it the AMQP port? the management API is at :15672)", c.base.Host)
	case code == exit.Timeout:
		return exit.Errorf(exit.Timeout, "no answer from %s within %s", c.base.Host, c.http.Timeout)
	case code == exit.Internal:
		code = exit.Unavailable
	}
	return &exit.Error{Code: code, Text: "management API " + c.base.Host + ": " + cause.Error() + trust.Hint(err), Err: err}
}
