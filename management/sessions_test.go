package management

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
)

// browser keeps a cookie and a CSRF token as a web page does.
type browser struct {
	f      *fixture
	cookie *http.Cookie
	csrf   string
}

// login logs in with a form; the answer's cookie and token are kept if there are any.
func (b *browser) login(name, pass string) *httptest.ResponseRecorder {
	w := b.f.do("-", http.MethodPost, "/api/login", "username="+name+"&password="+pass, func(r *http.Request) {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	})
	b.take(w)
	return w
}

func (b *browser) take(w *httptest.ResponseRecorder) {
	for _, c := range w.Result().Cookies() {
		b.cookie = c
	}
	var told struct {
		Token string `json:"csrf_token"`
	}
	if json.Unmarshal(w.Body.Bytes(), &told) == nil && told.Token != "" {
		b.csrf = told.Token
	}
}

// do sends a request with the cookie and the token.
func (b *browser) do(method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	w := b.f.do("-", method, path, body, append([]func(*http.Request){func(r *http.Request) {
		r.AddCookie(&http.Cookie{Name: b.cookie.Name, Value: b.cookie.Value})
		if method != http.MethodGet {
			r.Header.Set("X-CSRF-Token", b.csrf)
		}
	}}, change...)...)
	b.take(w)
	return w
}

func (b *browser) wantIn(yes bool) {
	b.f.t.Helper()
	w := b.do(http.MethodGet, "/api/whoami", "")
	switch {
	case yes:
		b.f.want(w, 200, `"csrf_token":"`+b.csrf+`"`)
	default:
		b.f.want(w, 401, `{"error":"not_authorised","reason":"The session has ended"}`)
		if w.Header().Get("WWW-Authenticate") != "" {
			b.f.t.Fatal("a browser is made to ask for a password")
		}
	}
}

func TestLoginMakesASessionThatEveryNodeTakes(t *testing.T) {
	share := func(o *Options) { o.Secret = []byte("shared") }
	f := newFixture(t, share)
	other := startFixture(t, f.host.join("rabbit@two"), share)
	stranger := startFixture(t, f.host.join("rabbit@three"))
	b := &browser{f: f}
	f.want(b.login("mon", password), 200, `{"name":"mon","tags":["monitoring"],"is_internal_user":true,"csrf_token":"`)
	if c := b.cookie; c.Name != "warren_session" || c.Path != "/" || !c.HttpOnly || c.Secure || c.SameSite != http.SameSiteStrictMode || c.MaxAge != 480*60 {
		t.Fatalf("cookie: %+v", c)
	}
	b.wantIn(true)
	f.want(b.do(http.MethodGet, "/api/users", ""), 401, "Not administrator user")
	(&browser{f: other, cookie: b.cookie, csrf: b.csrf}).wantIn(true)
	(&browser{f: stranger, cookie: b.cookie}).wantIn(false)
	// An Authorization header goes before the cookie.
	f.want(b.do(http.MethodGet, "/api/whoami", "", func(r *http.Request) { r.SetBasicAuth("mgt", password) }), 200, `"name":"mgt"`)

	w := f.do("-", http.MethodPost, "/api/login", `{"username":"guest","password":"x"}`, func(r *http.Request) {
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
		r.TLS = new(tls.ConnectionState)
	})
	f.want(w, 200, `"csrf_token"`)
	if !w.Result().Cookies()[0].Secure {
		t.Error("the cookie of a login over TLS may be sent without")
	}
}

func TestFailedLoginsSayLittle(t *testing.T) {
	f := newFixture(t)
	b := &browser{f: f}
	for name, reason := range map[string]string{"mon": "Login failed", "nobody": "Login failed", "": "Login failed"} {
		w := b.login(name, "wrong")
		f.want(w, 401, `{"error":"not_authorised","reason":"`+reason+`"}`)
		if w.Header().Get("WWW-Authenticate") != "" || w.Header().Get("Set-Cookie") != "" {
			t.Error(name, w.Header())
		}
	}
	f.want(b.login("none", password), 401, "Not management user")
	f.from = "192.0.2.1:4000"
	f.want(b.login("guest", password), 401, "User can only log in via localhost")
	asJSON := func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }
	asForm := func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }
	f.want(f.do("-", http.MethodPost, "/api/login", `{"username":1}`, asJSON), 400, `["not_string","username"]`)
	f.want(f.do("-", http.MethodPost, "/api/login", strings.Repeat("a", loginBodyBytesMax+1), asForm), 413, "larger than 16384 bytes")
	f.want(f.do("-", http.MethodPost, "/api/login", "%zz", asForm), 400, "not_a_form")
	f.want(f.do("-", http.MethodPost, "/api/login", "username=mon&password=x", asForm, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }), 403, "cross-origin")
	w := f.do("-", http.MethodGet, "/api/whoami", "", func(r *http.Request) { r.Header.Set("X-Requested-With", "fetch") })
	f.want(w, 401, `{"error":"not_authorised","reason":"Not logged in"}`)
	wrong := f.do("nobody", http.MethodGet, "/api/whoami", "", func(r *http.Request) { r.Header.Set("X-Requested-With", "fetch") })
	f.want(wrong, 401, `"reason":"Login failed"`)
	if w.Header().Get("WWW-Authenticate") != "" || wrong.Header().Get("WWW-Authenticate") != "" {
		t.Error("a script's request makes the browser ask for a password")
	}
}

func TestChangesByCookieNeedTheCSRFToken(t *testing.T) {
	f := newFixture(t)
	b, stranger := &browser{f: f}, &browser{f: f}
	b.login("guest", password)
	stranger.login("mon", password)
	for _, token := range []string{"", "x", stranger.csrf} {
		bad := browser{f: f, cookie: b.cookie, csrf: token}
		for _, method := range []string{http.MethodPut, http.MethodDelete} {
			f.want(bad.do(method, "/api/queues/a/q", ""), 403, `{"error":"forbidden","reason":"CSRF token missing or wrong"}`)
		}
		f.want(bad.do(http.MethodDelete, "/api/login", ""), 403, "CSRF")
	}
	f.want(b.do(http.MethodHead, "/api/whoami", ""), 200, "")
	f.want(b.do(http.MethodPut, "/api/queues/a/q", ""), 201, "")
	// With a password in the request there is nothing to forge.
	f.want(f.do("guest", http.MethodDelete, "/api/queues/a/q", ""), 204, "")
}

func TestSessionsEnd(t *testing.T) {
	putUser := func(f *fixture, name, tag, pass string) {
		f.host.apply(meta.Command{Op: meta.OpPutUser, User: meta.User{Name: name, PasswordHash: meta.HashPassword([4]byte{2}, []byte(pass)), Tags: []string{tag}}})
	}
	for name, end := range map[string]func(*browser){
		"logout": func(b *browser) {
			w := b.do(http.MethodDelete, "/api/login", "")
			b.f.want(w, 204, "")
			if b.cookie.Value != "" || b.cookie.MaxAge >= 0 || b.cookie.Path != "/" {
				b.f.t.Errorf("the cookie stays: %+v", b.cookie)
			}
		},
		"password": func(b *browser) { putUser(b.f, "mon", "monitoring", "other") },
		"gone": func(b *browser) {
			b.f.host.apply(meta.Command{Op: meta.OpDeleteUser, User: meta.User{Name: "mon"}})
		},
		"time": func(b *browser) { time.Sleep(8*time.Hour + time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				b := &browser{f: f}
				b.login("mon", password)
				kept := b.cookie
				b.wantIn(true)
				end(b)
				b.cookie = kept
				b.wantIn(false)
			})
		})
	}
}

// TestLostTagsEndASession: who may not manage any more is out, whatever the cookie says.
func TestLostTagsEndASession(t *testing.T) {
	f := newFixture(t)
	b := &browser{f: f}
	b.login("mon", password)
	hash := f.host.Catalogue().View.User("mon").PasswordHash
	f.host.apply(meta.Command{Op: meta.OpPutUser, User: meta.User{Name: "mon", PasswordHash: hash}})
	f.want(b.do(http.MethodGet, "/api/whoami", ""), 401, "Not management user")
}

func TestSessionsInUseLiveOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *Options) { o.SessionLife = time.Hour })
		b := &browser{f: f}
		b.login("mon", password)
		first := b.cookie
		b.wantIn(true)
		if b.cookie != first {
			t.Fatal("a fresh cookie is made anew")
		}
		for range 5 {
			time.Sleep(50 * time.Minute)
			b.wantIn(true)
		}
		last := b.cookie
		b.do(http.MethodDelete, "/api/login", "")
		b.cookie = last
		b.wantIn(false)
		time.Sleep(50 * time.Minute)
		b.wantIn(false)
	})
}

// TestTokensCannotBeMade: no changed bit makes another valid token.
func TestTokensCannotBeMade(t *testing.T) {
	f := newFixture(t)
	b := &browser{f: f}
	b.login("mon", password)
	raw, err := base64.RawURLEncoding.DecodeString(b.cookie.Value)
	if err != nil {
		t.Fatal(err)
	}
	view, now := f.host.Catalogue().View, time.Now()
	if x, _ := f.s.sessions.read(b.cookie.Value, view, now); x == nil {
		t.Fatal("the token itself is not valid")
	}
	for i := range raw {
		for bit := range 8 {
			forged := append([]byte(nil), raw...)
			forged[i] ^= 1 << bit
			if x, _ := f.s.sessions.read(base64.RawURLEncoding.EncodeToString(forged), view, now); x != nil {
				t.Fatalf("bit %d of byte %d does not matter", bit, i)
			}
		}
		if x, _ := f.s.sessions.read(base64.RawURLEncoding.EncodeToString(raw[:i]), view, now); x != nil {
			t.Fatalf("%d bytes are enough", i)
		}
	}
}

func TestEndedSessionsAreBounded(t *testing.T) {
	s := newSessions(nil, time.Hour)
	now := time.Now()
	ids := make([]*session, limits.EndedSessionsMax+10)
	for i := range ids {
		ids[i] = s.begin(&meta.User{Name: "u"}, now)
		s.end(ids[i], now)
	}
	if len(s.ended) != limits.EndedSessionsMax || len(s.order) != limits.EndedSessionsMax || s.hasEnded(ids[0].id) || !s.hasEnded(ids[len(ids)-1].id) {
		t.Error(len(s.ended), len(s.order))
	}
	s.end(ids[0], now.Add(2*time.Hour))
	if len(s.ended) != 1 {
		t.Error("what has expired is kept:", len(s.ended))
	}
}

func TestPathPrefix(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.PathPrefix = "/warren" })
	f.want(f.do("guest", http.MethodGet, "/warren/api/whoami", ""), 200, "guest")
	f.want(f.do("guest", http.MethodGet, "/api/whoami", ""), 404, "")
	f.want(f.do("guest", http.MethodGet, "/warrenx/api/whoami", ""), 404, "")
	f.want(f.do("-", http.MethodGet, "/warren/", ""), 200, "<html")
	f.want(f.do("-", http.MethodGet, "/livez", ""), 200, "ok")
	if w := f.do("-", http.MethodGet, "/warren", ""); w.Header().Get("Location") != "/warren/" {
		t.Error(w.Code, w.Header())
	}
	w := f.do("-", http.MethodPost, "/warren/api/login", `{"username":"guest","password":"x"}`, func(r *http.Request) { r.Header.Set("Content-Type", "application/json") })
	f.want(w, 200, "csrf_token")
	if path := w.Result().Cookies()[0].Path; path != "/warren" {
		t.Error("the cookie's path is", path)
	}
}
