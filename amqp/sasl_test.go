package amqp

import (
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	cases := []struct {
		response, user, password string
		ok                       bool
	}{
		{"\x00guest\x00secret", "guest", "secret", true},
		{"\x00guest\x00", "guest", "", true},
		{"\x00\x00secret", "", "secret", true},
		{"\x00ü\x00pä\xff", "ü", "pä\xff", true},
		{"guest\x00guest\x00secret", "", "", false},
		{"\x00guest", "", "", false},
		{"\x00guest\x00sec\x00ret", "", "", false},
		{"\x00", "", "", false},
		{"", "", "", false},
	}
	for _, c := range cases {
		login, err := ParsePlain(c.response)
		if c.ok != (err == nil) || login.User != c.user || login.Password != c.password {
			t.Errorf("%q: got %q, %q, %v", c.response, login.User, login.Password, err)
		}
		if !c.ok && (!isCode(err, ReplySyntaxError) || strings.Contains(err.Error(), "guest")) {
			t.Errorf("%q: %v", c.response, err)
		}
	}
}

func TestAMQPlain(t *testing.T) {
	user, password := Field{"LOGIN", Longstr("guest")}, Field{"PASSWORD", Longstr("secret")}
	cases := []struct {
		table Table
		text  string // "" if the login is good
	}{
		{Table{user, password}, ""},
		{Table{{"x", Void()}, password, user, {"LOGIN", Longstr("second")}}, ""},
		{Table{user}, "missing"},
		{Table{password}, "missing"},
		{nil, "missing"},
		{Table{user, {"PASSWORD", Bytes("secret")}}, "type"},
		{Table{{"LOGIN", Int32(1)}, password}, "type"},
		{Table{{"login", Longstr("guest")}, password}, "missing"},
	}
	for _, c := range cases {
		login, err := ParseAMQPlain(string(c.table.AppendEntries(nil)))
		if c.text == "" {
			if err != nil || login != (Login{"guest", "secret"}) {
				t.Errorf("%v: got %v, %v", c.table, login, err)
			}
			continue
		}
		if !isCode(err, ReplySyntaxError) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "secret") || login != (Login{}) {
			t.Errorf("%v: got %v, %v", c.table, login, err)
		}
	}
	raw := string(Table{user, password}.AppendEntries(nil))
	for n := range raw {
		if _, err := ParseAMQPlain(raw[:n]); !isCode(err, ReplySyntaxError) {
			t.Errorf("%d octets: %v", n, err)
		}
	}
}
