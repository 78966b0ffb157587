package management

import (
	"net"
	"net/http"
	"slices"

	"github.com/warrenmq/warren/meta"
)

// realm is what browsers show at the login; RabbitMQ's, for tools compare the header.
const realm = `Basic realm="RabbitMQ Management"`

// The tags that open the API. Each includes what is said of the ones before it.
const (
	tagManagement    = "management"
	tagPolicymaker   = "policymaker"
	tagMonitoring    = "monitoring"
	tagAdministrator = "administrator"
)

// decoy is what the password of an unknown user is compared with, so that the answer takes as long as for a known one.
var decoy = meta.HashPassword([4]byte{1, 2, 3, 4}, []byte("no password has this hash, for nobody can send a byte 255 in it: \xff"))

// login finds the user of a request. The failure says what RabbitMQ says, and never whether the user exists.
func (s *Server) login(r *http.Request, view *meta.View) (*meta.User, *failure) {
	if r.Header.Get("Authorization") == "" {
		return nil, &failure{status: http.StatusUnauthorized, challenge: true}
	}
	refused := &failure{status: http.StatusUnauthorized, kind: "not_authorized", reason: "Login failed", challenge: true}
	name, password, ok := r.BasicAuth()
	if !ok {
		return nil, refused
	}
	u := view.User(name)
	s.logins.attempts.Add(1)
	algorithm, hash := meta.DefaultHashing, decoy
	if u != nil && len(u.PasswordHash) > 0 {
		algorithm, hash = u.HashingAlgorithm, u.PasswordHash
	}
	good := meta.CheckPassword(algorithm, hash, []byte(password))
	if u == nil || len(u.PasswordHash) == 0 || !good {
		s.logins.failed.Add(1)
		return nil, refused
	}
	if slices.Contains(s.opt.LoopbackUsers, name) && !fromLoopback(r) {
		s.logins.failed.Add(1)
		return nil, notAuthorised("User can only log in via localhost")
	}
	if !mayManage(u) {
		s.logins.failed.Add(1)
		return nil, notAuthorised("Not management user")
	}
	s.logins.succeeded.Add(1)
	return u, nil
}

// fromLoopback tells whether the request came over the loopback interface. Headers of proxies are not believed.
func fromLoopback(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func isAdministrator(u *meta.User) bool { return u.HasTag(tagAdministrator) }

// isMonitor tells whether the user sees everything.
func isMonitor(u *meta.User) bool { return isAdministrator(u) || u.HasTag(tagMonitoring) }

func mayManage(u *meta.User) bool {
	return isMonitor(u) || u.HasTag(tagPolicymaker) || u.HasTag(tagManagement)
}

// administrator and monitor guard handlers for which a tag is needed.
func administrator(h handler) handler {
	return func(c *call) error {
		if !isAdministrator(c.user) {
			return notAuthorised("Not administrator user")
		}
		return h(c)
	}
}

func monitor(h handler) handler {
	return func(c *call) error {
		if !isMonitor(c.user) {
			return notAuthorised("Not monitor user")
		}
		return h(c)
	}
}
