package amqp

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestReplyCodes holds the whole table of codes: name and what an error with the code closes.
func TestReplyCodes(t *testing.T) {
	codes := []struct {
		code  uint16
		name  string
		scope Scope
	}{
		{200, "SUCCESS", ScopeNone},
		{311, "CONTENT_TOO_LARGE", ScopeChannel}, {312, "NO_ROUTE", ScopeChannel}, {313, "NO_CONSUMERS", ScopeChannel},
		{403, "ACCESS_REFUSED", ScopeChannel}, {404, "NOT_FOUND", ScopeChannel}, {405, "RESOURCE_LOCKED", ScopeChannel},
		{406, "PRECONDITION_FAILED", ScopeChannel},
		{320, "CONNECTION_FORCED", ScopeConnection}, {402, "INVALID_PATH", ScopeConnection},
		{501, "FRAME_ERROR", ScopeConnection}, {502, "SYNTAX_ERROR", ScopeConnection}, {503, "COMMAND_INVALID", ScopeConnection},
		{504, "CHANNEL_ERROR", ScopeConnection}, {505, "UNEXPECTED_FRAME", ScopeConnection}, {506, "RESOURCE_ERROR", ScopeConnection},
		{530, "NOT_ALLOWED", ScopeConnection}, {540, "NOT_IMPLEMENTED", ScopeConnection}, {541, "INTERNAL_ERROR", ScopeConnection},
		{999, "", ScopeConnection},
	}
	known := 0
	for _, c := range codes {
		if ReplyName(c.code) != c.name || ReplyScope(c.code) != c.scope {
			t.Errorf("%d is %q and closes %v, want %q %v", c.code, ReplyName(c.code), ReplyScope(c.code), c.name, c.scope)
		}
	}
	for code := range uint16(1000) {
		if ReplyName(code) != "" {
			known++
		}
	}
	if known != len(codes)-1 {
		t.Errorf("%d codes have a name", known)
	}
}

func TestErrorAsCloseMethod(t *testing.T) {
	e := Errorf(ReplyNotFound, "no queue '%s' in vhost '%s'", "q", "/").At(MethodQueueDeclare)
	want := ChannelClose{ReplyCode: 404, ReplyText: "NOT_FOUND - no queue 'q' in vhost '/'", ClassID: 50, MethodID: 10}
	if got := e.ChannelClose(); got != want {
		t.Errorf("got %v", &got)
	}
	if got := e.ConnectionClose(); got != ConnectionClose(want) {
		t.Errorf("got %v", &got)
	}
	if got := e.Error(); got != "404 NOT_FOUND - no queue 'q' in vhost '/'" {
		t.Errorf("got %q", got)
	}
	if e.Scope() != ScopeChannel || e.Method() != MethodQueueDeclare {
		t.Errorf("closes %v, method %v", e.Scope(), e.Method())
	}
}

// TestReplyTextIsCut finds RabbitMQ's cut: 252 bytes and three dots, but never inside a character.
func TestReplyTextIsCut(t *testing.T) {
	prefix := len("NOT_FOUND - ")
	for n := 230; n < 300; n++ {
		for _, letter := range []string{"x", "é", "世", "🐇"} {
			explanation := strings.Repeat("-", n%4) + strings.Repeat(letter, n)
			got := Errorf(ReplyNotFound, "%s", explanation).ReplyText()
			full := "NOT_FOUND - " + explanation
			if len(full) <= 255 {
				if got != full {
					t.Errorf("%d bytes became %d", len(full), len(got))
				}
				continue
			}
			body, ok := strings.CutSuffix(got, "...")
			if !ok || len(got) > 255 || len(got) < 255-utf8.UTFMax || !utf8.ValidString(got) || full[:len(body)] != body {
				t.Errorf("%d times %s: got %d bytes %q", n, letter, len(got), got[prefix:])
			}
		}
	}
}

func TestTextThatIsNotUTF8IsCutAllTheSame(t *testing.T) {
	got := Errorf(ReplyNotFound, "%s", strings.Repeat("\x80", 300)).ReplyText()
	if len(got) != 255 {
		t.Errorf("got %d bytes", len(got))
	}
}

func TestUnknownCodeHasNoName(t *testing.T) {
	if got := Errorf(700, "odd").ReplyText(); got != "odd" {
		t.Errorf("got %q", got)
	}
}
