package management

import (
	"net"
	"net/http"
	"net/netip"
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

// authenticate finds the user of a request: by the Authorization header, else by the session's cookie. Browsers' scripts, which have a login page of their own, are told so without the header
// that makes a browser ask for a password.
func (c *call) authenticate() *failure {
	_, err := c.r.Cookie(sessionCookie)
	hasCookie := err == nil
	var refused *failure
	switch name, password, ok := c.r.BasicAuth(); {
	case ok:
		c.user, refused = c.s.passwordLogin(c.r, c.view, name, password)
		if refused != nil && refused.reason == loginFailed {
			refused.kind, refused.challenge = "not_authorized", true
		}
	case c.r.Header.Get("Authorization") != "":
		refused = &failure{status: http.StatusUnauthorized, kind: "not_authorized", reason: loginFailed, challenge: true}
	case hasCookie:
		refused = c.resume()
	case c.r.Header.Get("X-Requested-With") != "":
		refused = notAuthorised("Not logged in")
	default:
		refused = &failure{status: http.StatusUnauthorized, challenge: true}
	}
	if refused != nil && (hasCookie || c.r.Header.Get("X-Requested-With") != "") {
		refused.challenge = false
	}
	return refused
}

// loginFailed is all that is said of a wrong name or password.
const loginFailed = "Login failed"

// passwordLogin finds the user with a password. The failure says what RabbitMQ says, and never whether the user exists.
func (s *Server) passwordLogin(r *http.Request, view *meta.View, name, password string) (*meta.User, *failure) {
	u := view.User(name)
	s.logins.attempts.Add(1)
	algorithm, hash := meta.DefaultHashing, decoy
	if u != nil && len(u.PasswordHash) > 0 {
		algorithm, hash = u.HashingAlgorithm, u.PasswordHash
	}
	good := meta.CheckPassword(algorithm, hash, []byte(password))
	if u == nil || len(u.PasswordHash) == 0 || !good {
		s.logins.failed.Add(1)
		s.slowDown(r)
		return nil, notAuthorised(loginFailed)
	}
	if refused := s.admit(r, u); refused != nil {
		s.logins.failed.Add(1)
		return nil, refused
	}
	s.logins.succeeded.Add(1)
	return u, nil
}

// slowDown lets the refusal of a wrong password wait if there were many. A right one is never held up, for a tool sends it with every request.
func (s *Server) slowDown(r *http.Request) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return
	}
	s.opt.Guesses.Wait(r.Context(), from.Addr())
	s.opt.Guesses.Failed(from.Addr())
}

// admit checks that a user whose name is proven may use the API from where the request comes.
func (s *Server) admit(r *http.Request, u *meta.User) *failure {
	switch {
	case slices.Contains(s.opt.LoopbackUsers, u.Name) && !fromLoopback(r):
		return notAuthorised("User can only log in via localhost")
	case !mayManage(u):
		return notAuthorised("Not management user")
	}
	return nil
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

// check checks that the user has the tag for an operation.
func (a access) check(u *meta.User) *failure {
	switch {
	case a == administrators && !isAdministrator(u):
		return notAuthorised("Not administrator user")
	case a == monitors && !isMonitor(u):
		return notAuthorised("Not monitor user")
	}
	return nil
}
