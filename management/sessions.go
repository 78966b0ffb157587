package management

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
)

// A browser's session is a cookie that says who logged in and until when, signed with a key that all nodes of a cluster make from their secret. No node keeps a list of sessions, so any node
// behind a load balancer takes it; it ends with its time, with the user, with a change of the user's password, and on the node that was told to end it.

const (
	// sessionCookie is the cookie's name.
	sessionCookie = "warren_session"
	// csrfHeader is the header without which a cookie changes nothing: another site's page can make a browser send the cookie, never this.
	csrfHeader = "X-CSRF-Token"
	// sessionLifeDefault is how long an unused session lives, unless Options says otherwise.
	sessionLifeDefault = limits.LoginSessionMinutes * time.Minute
	// renewals is how often within its life the cookie of a session in use is made anew.
	renewals = 16
	// loginBodyBytesMax bounds the body of a login.
	loginBodyBytesMax = 16 << 10
	// sessionVersion is the first byte of a token; other versions are not understood.
	sessionVersion = 1
)

// sessionID names a session, also after its cookie was renewed.
type sessionID [16]byte

// session is what a cookie says.
type session struct {
	id              sessionID
	issued, expires time.Time // whole seconds
	user            string
	// password is a keyed digest of the user's password hash.
	password [16]byte
}

// sessions signs sessions, checks them, and remembers those that were ended here.
type sessions struct {
	key  []byte
	life time.Duration

	mu    sync.Mutex
	ended map[sessionID]bool
	order []endedSession // oldest first
}

// endedSession is a session that is refused until its cookies have expired, too.
type endedSession struct {
	id    sessionID
	until time.Time
}

// newSessions makes the key from the cluster's secret; without one it is random, and sessions end with the process.
func newSessions(secret []byte, life time.Duration) *sessions {
	if len(secret) == 0 {
		secret = make([]byte, 32)
		_, _ = rand.Read(secret)
	}
	if life <= 0 {
		life = sessionLifeDefault
	}
	return &sessions{key: mac(secret, "HTTP session"), life: life, ended: make(map[sessionID]bool)}
}

func mac(key []byte, purpose string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(codec.AppendString(nil, purpose))
	for _, part := range parts {
		h.Write(codec.AppendBytes(nil, part))
	}
	return h.Sum(nil)
}

// begin makes a session for a user.
func (s *sessions) begin(u *meta.User, now time.Time) *session {
	x := &session{user: u.Name, password: s.fingerprint(u)}
	_, _ = rand.Read(x.id[:])
	s.renew(x, now)
	return x
}

// renew begins the life of a session anew.
func (s *sessions) renew(x *session, now time.Time) {
	x.issued, x.expires = now, now.Add(s.life)
}

func (s *sessions) fingerprint(u *meta.User) (sum [16]byte) {
	copy(sum[:], mac(s.key, "password", []byte(u.HashingAlgorithm), u.PasswordHash))
	return sum
}

// csrf is what requests that change something have to show beside the cookie.
func (s *sessions) csrf(x *session) string { return hex.EncodeToString(mac(s.key, "CSRF", x.id[:])) }

// token writes a session as its cookie has it.
func (s *sessions) token(x *session) string {
	b := append([]byte{sessionVersion}, x.id[:]...)
	b = append(b, x.password[:]...)
	b = codec.AppendUvarint(b, uint64(x.issued.Unix()))
	b = codec.AppendUvarint(b, uint64(x.expires.Unix()))
	b = codec.AppendString(b, x.user)
	return base64.RawURLEncoding.EncodeToString(append(b, mac(s.key, "token", b)...))
}

// read returns the session of a token and its user, nil if it is not valid now.
func (s *sessions) read(token string, view *meta.View, now time.Time) (*session, *meta.User) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	x := new(session)
	const fixed = 1 + len(x.id) + len(x.password)
	if err != nil || len(b) < fixed+sha256.Size {
		return nil, nil
	}
	b, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if !hmac.Equal(sum, mac(s.key, "token", b)) || b[0] != sessionVersion {
		return nil, nil
	}
	copy(x.id[:], b[1:])
	copy(x.password[:], b[1+len(x.id):])
	in := codec.NewReader(b[fixed:])
	x.issued, x.expires, x.user = time.Unix(int64(in.Uvarint()), 0), time.Unix(int64(in.Uvarint()), 0), in.String()
	if in.Err() != nil || !now.Before(x.expires) || s.hasEnded(x.id) {
		return nil, nil
	}
	u := view.User(x.user)
	if u == nil || s.fingerprint(u) != x.password {
		return nil, nil
	}
	return x, u
}

// end has a session refused from now on, also by cookies that were made for it before.
func (s *sessions) end(x *session, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := 0
	for old < len(s.order) && (s.order[old].until.Before(now) || len(s.order)-old >= limits.EndedSessionsMax) {
		delete(s.ended, s.order[old].id)
		old++
	}
	s.order = append(s.order[:0], s.order[old:]...)
	if !s.ended[x.id] {
		s.ended[x.id] = true
		s.order = append(s.order, endedSession{x.id, now.Add(s.life)})
	}
}

func (s *sessions) hasEnded(id sessionID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended[id]
}

// resume finds the user of a request by its cookie. An old cookie is made anew.
func (c *call) resume() *failure {
	now := time.Now()
	for _, cookie := range c.r.CookiesNamed(sessionCookie) {
		x, u := c.s.sessions.read(cookie.Value, c.view, now)
		if x == nil {
			continue
		}
		if refused := c.s.admit(c.r, u); refused != nil {
			return refused
		}
		if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead && !hmac.Equal([]byte(c.r.Header.Get(csrfHeader)), []byte(c.s.sessions.csrf(x))) {
			return &failure{status: http.StatusForbidden, kind: "forbidden", reason: "CSRF token missing or wrong"}
		}
		if now.Sub(x.issued) > c.s.sessions.life/renewals {
			c.s.sessions.renew(x, now)
			c.setCookie(c.s.sessions.token(x), c.s.sessions.life)
		}
		c.user, c.session = u, x
		return nil
	}
	return notAuthorised("The session has ended")
}

// setCookie gives the browser a cookie, or takes it away if its life is negative.
func (c *call) setCookie(token string, life time.Duration) {
	path := c.s.opt.PathPrefix
	if path == "" {
		path = "/"
	}
	secure := c.r.TLS != nil || c.r.Header.Get("X-Forwarded-Proto") == "https"
	http.SetCookie(c.w, &http.Cookie{
		Name: sessionCookie, Value: token, Path: path, MaxAge: int(life / time.Second), HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
	})
}

// login is POST /login with a form or an object of username and password. It needs no login and says nothing that makes a browser ask for one.
func login(c *call) error {
	name, password, err := c.credentials()
	if err != nil {
		return err
	}
	u, refused := c.s.passwordLogin(c.r, c.view, name, password)
	if refused != nil {
		return refused
	}
	c.user, c.session = u, c.s.sessions.begin(u, time.Now())
	c.setCookie(c.s.sessions.token(c.session), c.s.sessions.life)
	return whoami(c)
}

func (c *call) credentials() (name, password string, err error) {
	c.r.Body = http.MaxBytesReader(c.w, c.r.Body, loginBodyBytesMax)
	if strings.HasPrefix(c.r.Header.Get("Content-Type"), "application/json") {
		b, err := c.readBody()
		if err != nil {
			return "", "", err
		}
		if name, err = b.text("username", ""); err != nil {
			return "", "", err
		}
		password, err = b.text("password", "")
		return name, password, err
	}
	if err := c.r.ParseForm(); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return "", "", bodyTooLarge(large.Limit)
		}
		return "", "", badRequest("not_a_form")
	}
	return c.r.PostForm.Get("username"), c.r.PostForm.Get("password"), nil
}

// logout is DELETE /login: the session of the cookie ends. Without one there is nothing to do, and nothing is wrong.
func logout(c *call) error {
	if len(c.r.CookiesNamed(sessionCookie)) > 0 {
		if refused := c.resume(); refused != nil && refused.status == http.StatusForbidden {
			return refused
		}
		if c.session != nil {
			c.s.sessions.end(c.session, time.Now())
		}
		c.w.Header().Del("Set-Cookie") // resume may have renewed it
		c.setCookie("", -time.Second)
	}
	return c.empty(http.StatusNoContent)
}
