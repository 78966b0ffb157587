package broker

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) == text {
		return
	}
	got, lines := strings.Split(text, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(lines)) {
		if i >= len(got) || i >= len(lines) || got[i] != lines[i] {
			t.Fatalf("%s line %d:\ngot  %s\nwant %s", path, i+1, strings.Join(got[min(i, len(got)):], "\n"), strings.Join(lines[min(i, len(lines)):], "\n"))
		}
	}
}

// TestErrorTexts holds every text to a client, word for word.
func TestErrorTexts(t *testing.T) {
	q, x := queueResource("/", "q"), exchangeResource("/", "x")
	var out strings.Builder
	add := func(what string, e *amqp.Error) {
		fmt.Fprintf(&out, "%-34s %s %s\n", what, e.Scope(), e.Error())
	}
	for _, c := range []struct {
		what string
		e    *amqp.Error
	}{
		{"no queue", errNotFound(q)}, {"no exchange", errNotFound(x)}, {"no previous queue", errNoPreviousQueue()}, {"time-out", errTimeout(q)},
		{"locked", errLocked(q)}, {"configure refused", errRefused(meta.Configure, q, "u")}, {"write refused", errRefused(meta.Write, x, "u")},
		{"read refused", errRefused(meta.Read, q, "u")}, {"reserved queue", errReserved(queueResource("/", "amq.q"))},
		{"topic refused", errTopicRefused(meta.Write, "k", x, "u")},
		{"reserved exchange", errReserved(exchangeResource("/", "amq.x"))}, {"default exchange", errDefaultExchange()}, {"internal exchange", errInternalExchange(x)},
		{"exclusive use", errExclusiveUse(q)}, {"in use", errInUse(q)}, {"not empty", errNotEmpty(q)}, {"unknown tag", errUnknownTag(5)}, {"tag reuse", errTagReuse("t")},
		{"consumers max", errConsumersMax(1024)}, {"too large", errBodyTooLarge(17, 16)}, {"user id", errUserID([]byte("a"), "b")},
		{"expiration", errExpiration([]byte("abc"), "no_integer")}, {"header type", errHeaderType("CC", "longstr")}, {"targets max", errTargetsMax(5, 4)},
		{"bodies in flight", errBodiesInFlight(33554432)}, {"internal error", errInternal()}, {"confirm to tx", errConfirmToTx()}, {"no tx", errNotTransactional()},
		{"catalogue", errCatalogue(q)}, {"login refused", errLoginRefused("PLAIN")}, {"mechanism", errMechanism("X")}, {"frame_max low", errNegotiatedLow("frame_max", 100, 4096)},
		{"frame_max high", errNegotiatedHigh("frame_max", 200000, 131072)}, {"no vhost", errNoVHost("v")}, {"vhost refused", errVHostRefused("v", "u")},
		{"vhost connections", errVHostConnections("v", "u", 9)}, {"user connections", errUserConnections("u", 9)}, {"user channels", errUserChannels("u", 9)}, {"secret refused", errSecretRefused()},
		{"channels max", errChannelsMax(3, 3)}, {"unopened", errChannelUnopened()}, {"opened", errChannelOpened()}, {"state", errState("starting")},
		{"shutdown", errShutdown()}, {"forced", errForced("Closed via management plugin")},
		{"host gone", errHost(quorum.ErrNoQueue, q)}, {"host closed", errHost(quorum.ErrClosed, q)}, {"host silent", errHost(quorum.ErrNoCatalogue, q)},
		{"other", asError(fmt.Errorf("something"))},
	} {
		add(c.what, c.e)
	}
	for r := meta.ReasonNoVHost; r <= meta.ReasonInvalidPolicy; r++ {
		reply := meta.Reply{Reason: r, Field: "x-arg", Detail: "detail", Received: "none", Current: "the value '1' of type 'long'", Count: 9}
		add("reason "+r.String(), errReason(&reply, q))
	}
	add("queues max", errReason(&meta.Reply{Reason: meta.ReasonLimit, Field: "queues", Count: 9}, q))
	add("bindings max", errReason(&meta.Reply{Reason: meta.ReasonLimit, Field: "bindings per destination", Count: 9}, q))
	add("exchanges max", errReason(&meta.Reply{Reason: meta.ReasonLimit, Field: "exchanges", Count: 9}, x))
	for code := queue.CodeRejected; code <= queue.CodeUnavailable; code++ {
		add(fmt.Sprintf("code %d", code), errCode(code, q))
	}
	for _, text := range []string{"", "abc", "10s", "-1", "-0", "0", "1.5", " 1", "99999999999999999999", "315360000000", "315360000001", "+5"} {
		fmt.Fprintf(&out, "%-34s %q\n", "expiration "+text, expirationProblem([]byte(text)))
	}
	golden(t, "errors.golden", out.String())
}
