package config

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/internal/tlsconf"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files and docs/configuration.md instead of comparing")

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test ./config -rewrite makes it", err)
	}
	if got != string(want) {
		t.Errorf("%s differs; go test ./config -rewrite writes it anew, read the diff.\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// render prints what a file means: every setting that is not a default, what is ignored, or the error with its exit code.
func render(c *Config, err error) string {
	var b strings.Builder
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return fmt.Sprintf("not an *Error: %v\n", err)
		}
		fmt.Fprintf(&b, "exit %d: %s\n", e.Code, e)
		return b.String()
	}
	for _, s := range c.Effective() {
		if s.Source != "default" {
			fmt.Fprintf(&b, "%s = %s  (%s)\n", s.Key, s.Value, s.Source)
		}
	}
	fmt.Fprintf(&b, "listen %q loopback %q\n", c.AMQP.Listen, c.LoopbackUsers)
	if len(c.AMQP.ListenTLS) > 0 || c.Management.ListenTLS != "" || c.Metrics.ListenTLS != "" {
		fmt.Fprintf(&b, "tls %q %+v\n", c.AMQP.ListenTLS, c.AMQP.TLS)
		fmt.Fprintf(&b, "management %+v\nprometheus %+v\n", c.Management, c.Metrics)
	}
	if c.AMQP.ProxyProtocol || len(c.Login.Mechanisms) != 2 {
		fmt.Fprintf(&b, "proxies %v login %v %+v\n", c.AMQP.Proxies, c.Login.Mechanisms, c.Login.Certificate)
	}
	for _, n := range c.Ignored {
		fmt.Fprintf(&b, "ignored %s (%s): %s\n", n.Key, n.Source, n.Reason)
	}
	return b.String()
}

func TestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.conf")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d files: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".conf"), func(t *testing.T) {
			c, err := Load(Sources{File: file, HostName: "host1.example.org"})
			golden(t, strings.TrimSuffix(file, ".conf")+".golden", render(c, err))
		})
	}
}

func TestDefaults(t *testing.T) {
	c, err := Load(Sources{HostName: "host1.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		DataDir: "./data", NodeName: "rabbit@host1", LoginSession: 8 * time.Hour,
		Management: HTTP{Listen: ":15672"}, Metrics: HTTP{Listen: ":15692"},
		Login: Login{
			Mechanisms: []string{"AMQPLAIN", "PLAIN"}, Certificate: tlsconf.Login{From: tlsconf.FromDistinguishedName, SANType: tlsconf.SANDNS},
			AnonymousUser: "guest", AnonymousPass: "guest",
		},
		AMQP: AMQP{
			Listen: []string{":5672"}, HandshakeTimeout: 10 * time.Second, Heartbeat: time.Minute, FrameBytesMax: 131072, UntunedFrameBytesMax: 8192,
			TLSTimeout: 5 * time.Second, TLS: tlsconf.Options{DepthMax: 10},
			ChannelMax: 2047, ConsumersPerChannelMax: 1024, BodyBytesMax: 16 << 20, PublishTimeout: 10 * time.Second,
		},
		Alarms:        Alarms{MemoryHigh: alarm.Relative(0.6)},
		Cluster:       Cluster{Name: "rabbit@host1", Listen: "127.0.0.1:25672", Advertise: "127.0.0.1:25672", ParkAfter: 30 * time.Second},
		First:         First{User: "guest", Pass: "guest", VHost: "/"},
		LoopbackUsers: []string{"guest"}, LogLevel: slog.LevelInfo,
	}
	got := *c
	got.settings = nil
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, s := range c.Effective() {
		if s.Source != "default" {
			t.Errorf("%s comes from %s", s.Key, s.Source)
		}
	}
}

// Later sources win, and Effective names the one that did.
func TestPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.conf")
	if err := os.WriteFile(file, []byte("heartbeat = 10\nchannel_max = 10\nframe_max = 5000\nlisteners.tcp.1 = 127.0.0.1:1\nlisteners.tcp.2 = 127.0.0.1:2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Sources{
		File:    file,
		Environ: []string{"HOME=/", "WARREN_HEARTBEAT=20", "WARREN_CHANNEL_MAX=20", "WARREN_DATA_DIR=", "WARREN_MANAGEMENT_TCP_IP=127.0.0.1", "WARREN_LOOPBACK_USERS_BOB=true"},
		Set:     []string{"heartbeat=25", "heartbeat=30", "management.tcp.port = 8080"},
		Flags:   map[string]string{"amqp": "127.0.0.1:3", "name": "n1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.AMQP.Heartbeat != 30*time.Second || c.AMQP.ChannelMax != 20 || c.AMQP.FrameBytesMax != 5000 || c.DataDir != "./data" {
		t.Errorf("got %+v, data dir %q", c.AMQP, c.DataDir)
	}
	if !slices.Equal(c.AMQP.Listen, []string{"127.0.0.1:3"}) || c.Management.Listen != "127.0.0.1:8080" || !slices.Equal(c.LoopbackUsers, []string{"bob", "guest"}) {
		t.Errorf("listen %q, http %q, loopback users %q", c.AMQP.Listen, c.Management.Listen, c.LoopbackUsers)
	}
	if !strings.HasPrefix(c.NodeName, "n1@") {
		t.Errorf("node name %q", c.NodeName)
	}
	want := map[string]string{
		"heartbeat": "30s from --set", "channel_max": "20 from environment WARREN_CHANNEL_MAX", "frame_max": "5000 from " + file + ":3", "data_dir": "./data from default",
		"listeners.tcp.default": "127.0.0.1:3 from --amqp", "management.listen": "127.0.0.1:8080 from --set",
	}
	for _, s := range c.Effective() {
		if w, ok := want[s.Key]; ok && w != s.Value+" from "+s.Source {
			t.Errorf("%s: got %s from %s, want %s", s.Key, s.Value, s.Source, w)
		}
		delete(want, s.Key)
		if s.Key == "listeners.tcp.1" || s.Key == "management.tcp.port" {
			t.Errorf("%s is still listed", s.Key)
		}
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
}

func TestMistakesOutsideFiles(t *testing.T) {
	for _, tt := range []struct {
		name string
		src  Sources
		want string
	}{
		{"unknown --set", Sources{Set: []string{"hartbeat=1"}}, "exit 64: --set: hartbeat: unknown key; did you mean heartbeat?"},
		{"--set without value", Sources{Set: []string{"heartbeat"}}, "exit 64: --set heartbeat: there is no value; write --set key=value"},
		{"bad flag", Sources{Flags: map[string]string{"amqp": "localhost:99999"}}, `exit 64: --amqp: listeners.tcp.default: "99999" is not a port (0 to 65535); use HOST:PORT, [IPv6]:PORT or :PORT for every address`},
		{"empty flag", Sources{Flags: map[string]string{"data-dir": ""}}, "exit 64: --data-dir: data_dir: the value is empty; give one, or leave the flag out"},
		{"flag and --set", Sources{Set: []string{"data_dir=a"}, Flags: map[string]string{"data-dir": "b"}}, "exit 64: --data-dir: data_dir: the flag and --set data_dir are both given; keep one of them"},
		{"unknown variable", Sources{Environ: []string{"WARREN_HEARTBEET=1"}}, "exit 65: environment WARREN_HEARTBEET: no key has this variable; did you mean WARREN_HEARTBEAT?"},
		{"bad variable", Sources{Environ: []string{"WARREN_CHANNEL_MAX=many"}}, `exit 65: environment WARREN_CHANNEL_MAX: channel_max: "many" is not an integer; use a decimal number`},
		{"missing file", Sources{File: "testdata/none.conf"}, "exit 65: --config testdata/none.conf: cannot open the file: no such file or directory; name a readable file"},
		{"directory", Sources{File: "testdata"}, "exit 65: --config testdata: cannot read the file: is a directory; name a readable file"},
		{"secret with a newline", Sources{Set: []string{"cluster.secret=hush\nhush"}}, "exit 64: --set: cluster.secret: the value has a control character or is not UTF-8; use printable UTF-8 text"},
		{"long user", Sources{Set: []string{"default_user=" + strings.Repeat("u", 256)}}, "exit 64: --set: default_user: it is longer than 255 bytes; use a shorter one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := render(Load(tt.src)); got != tt.want+"\n" {
				t.Errorf("\ngot  %swant %s", got, tt.want)
			}
		})
	}
}

// Variables that Kubernetes adds for a service named warren must not stop a pod.
func TestServiceLinksAreNoSettings(t *testing.T) {
	c, err := Load(Sources{Environ: []string{
		"WARREN_SERVICE_HOST=10.0.0.1", "WARREN_SERVICE_PORT=5672", "WARREN_SERVICE_PORT_AMQP=5672", "WARREN_PORT=tcp://10.0.0.1:5672", "WARREN_PORT_5672_TCP=tcp://10.0.0.1:5672",
		"WARREN_PORT_5672_TCP_PROTO=tcp", "WARREN_PORT_5672_TCP_PORT=5672", "WARREN_PORT_5672_TCP_ADDR=10.0.0.1", "WARREN_NODES_SERVICE_HOST=None",
		"WARREN_NODES_PORT=tcp://10.0.0.1:5672", "WARREN_E2E=1", "WARREN_BIN=bin/warren",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.AMQP.Listen; !slices.Equal(got, []string{":5672"}) {
		t.Errorf("listen %q", got)
	}
	if _, err := Load(Sources{Environ: []string{"WARREN_PORT=5672"}}); err == nil {
		t.Error("WARREN_PORT=5672 is no service link and no key, yet it was accepted")
	}
}

func TestSecretsAreMasked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("hush-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		src  Sources
		want string
	}{
		{Sources{Flags: map[string]string{"cluster-secret": "hush-flag"}, Set: []string{"default_pass=hush-pass"}}, "hush-flag"},
		{Sources{Flags: map[string]string{"cluster-secret-file": file}, Environ: []string{"WARREN_CLUSTER_SECRET=hush-env"}}, "hush-file"},
		{Sources{Environ: []string{"WARREN_CLUSTER_SECRET=hush-env"}, File: ""}, "hush-env"},
		{Sources{Environ: []string{"WARREN_CLUSTER_SECRET_FILE=" + file}, Set: []string{"cluster.secret=hush-set"}}, "hush-set"},
	} {
		c, err := Load(tt.src)
		if err != nil {
			t.Fatal(err)
		}
		if c.Cluster.Secret != tt.want {
			t.Errorf("secret %q, want %q", c.Cluster.Secret, tt.want)
		}
		if listing := fmt.Sprint(c.Effective()); strings.Contains(listing, "hush") || !strings.Contains(listing, "********") {
			t.Errorf("listing: %s", listing)
		}
	}
}

func TestAdvertiseFollowsListen(t *testing.T) {
	for listen, want := range map[string]string{":7": "h:7", "0.0.0.0:7": "h:7", "[::]:7": "h:7", "10.1.2.3:7": "10.1.2.3:7"} {
		c, err := Load(Sources{HostName: "h.example.org", Flags: map[string]string{"cluster": listen}})
		if err != nil || c.Cluster.Advertise != want {
			t.Errorf("%s: got %v, %v, want %s", listen, c, err, want)
		}
	}
}

func TestUnusableHostNames(t *testing.T) {
	for _, name := range []string{"höst", ".", "a b"} {
		c, err := Load(Sources{HostName: name})
		if err != nil || c.NodeName != "rabbit@localhost" {
			t.Errorf("%q: got %v, %v", name, c, err)
		}
	}
}
