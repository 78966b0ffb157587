package meta

import (
	"encoding/base64"
	"strings"
	"testing"
)

// The first hash is the example in RabbitMQ's documentation of passwords: salt 908DC60A and the password test12.
func TestPasswordHashes(t *testing.T) {
	hash := HashPassword([4]byte{0x90, 0x8D, 0xC6, 0x0A}, []byte("test12"))
	if got := base64.StdEncoding.EncodeToString(hash); got != "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR" {
		t.Fatalf("hash %s", got)
	}
	if !CheckPassword("", hash, []byte("test12")) || !CheckPassword(DefaultHashing, hash, []byte("test12")) {
		t.Fatal("the right password is refused")
	}
	for algorithm, size := range map[string]int{DefaultHashing: 32, HashingSHA512: 64, HashingMD5: 16} {
		h := append([]byte("salt"), digest(algorithm, []byte("salt"), []byte("secret"))...)
		if len(h) != 4+size || !CheckPassword(algorithm, h, []byte("secret")) {
			t.Errorf("%s: %d bytes, refused", algorithm, len(h))
		}
		for _, wrong := range []string{"Secret", "secre", "secrets", ""} {
			if CheckPassword(algorithm, h, []byte(wrong)) {
				t.Errorf("%s accepts %q", algorithm, wrong)
			}
		}
		if CheckPassword(algorithm, h[:len(h)-1], []byte("secret")) || !KnownHashing(algorithm) {
			t.Errorf("%s accepts a cut hash or is unknown", algorithm)
		}
	}
	if CheckPassword("", nil, nil) || CheckPassword("", []byte("salt"), []byte("x")) || CheckPassword("rot13", hash, []byte("test12")) || KnownHashing("rot13") {
		t.Fatal("a missing hash or an unknown algorithm lets somebody in")
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{".*", "anything", true},
		{".*", "", true},
		{"", "", true},
		{"", "q", false},
		{"^$", "q", false},
		{"work", "my-work-queue", true},
		{"^work$", "my-work", false},
		{"^(a|b)\\.", "b.c", true},
		{"^amq\\.default$", PermissionName(""), true},
		{"^amq\\.default$", PermissionName("amq.direct"), false},
	} {
		p, err := CompilePattern(c.pattern)
		if err != nil || p.Allows(c.name) != c.want {
			t.Errorf("%q allows %q: %v (%v)", c.pattern, c.name, !c.want, err)
		}
	}
	if _, err := CompilePattern(strings.Repeat("a", PatternBytesMax+1)); err == nil {
		t.Error("a pattern over the limit is compiled")
	}
	if _, err := CompilePattern("("); err == nil {
		t.Error("a broken pattern is compiled")
	}
	if (Pattern{}).Allows("") {
		t.Error("the zero Pattern allows something")
	}
	p := Permission{Configure: "c", Write: "w", Read: "r"}
	if p.Pattern(Configure)+p.Pattern(Write)+p.Pattern(Read) != "cwr" {
		t.Error("accesses are mixed up")
	}
}
