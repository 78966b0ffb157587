package meta

import (
	"strings"
	"testing"

	"github.com/warrenmq/warren/amqp"
)

func args(fields ...any) Arguments {
	var t amqp.Table
	for i := 0; i < len(fields); i += 2 {
		t = append(t, amqp.Field{Key: fields[i].(string), Value: fields[i+1].(amqp.Value)})
	}
	return NewArguments(t)
}

type argumentsCase struct {
	queueType string
	args      Arguments
	reason    Reason
	field     string
	detail    string
}

// The tails are RabbitMQ's to the letter: clients' tests compare them.
func TestQueueArgumentsAreRefusedInRabbitWords(t *testing.T) {
	i, s, long := amqp.Int32, amqp.Longstr, amqp.Int64
	const ttl, dlx, dlk = "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key"
	cases := []argumentsCase{
		{"classic", args(ttl, i(0)), ReasonOK, "", ""},
		{"classic", args(ttl, long(tenYearsMillis)), ReasonOK, "", ""},
		{"classic", args(ttl, i(-1)), ReasonInvalidArg, ttl, "{value_negative,-1}"},
		{"classic", args(ttl, long(tenYearsMillis+1)), ReasonInvalidArg, ttl, "{value_too_large,315360000001}"},
		{"classic", args(ttl, s("1000")), ReasonInvalidArg, ttl, `"expected integer, got longstr"`},
		{"classic", args(ttl, amqp.Float64(1)), ReasonInvalidArg, ttl, `"expected integer, got double"`},
		{"quorum", args("x-expires", i(0)), ReasonInvalidArg, "x-expires", "{value_zero,0}"},
		{"quorum", args("x-expires", i(-5)), ReasonInvalidArg, "x-expires", "{value_negative,-5}"},
		{"quorum", args("x-expires", i(1)), ReasonOK, "", ""},
		{"classic", args("x-max-length", i(-1)), ReasonInvalidArg, "x-max-length", "{value_negative,-1}"},
		{"classic", args("x-max-length-bytes", amqp.Uint8(9)), ReasonOK, "", ""},
		{"classic", args("x-max-priority", i(255)), ReasonOK, "", ""},
		{"classic", args("x-max-priority", i(256)), ReasonInvalidArg, "x-max-priority", "{max_value_exceeded,256}"},
		{"classic", args("x-max-priority", i(-1)), ReasonInvalidArg, "x-max-priority", "{value_negative,-1}"},
		{"quorum", args("x-max-priority", i(10)), ReasonOK, "", ""},
		{"classic", args("x-overflow", s("drop-tail")), ReasonInvalidArg, "x-overflow", "invalid_overflow"},
		{"classic", args("x-overflow", i(1)), ReasonInvalidArg, "x-overflow", "{unacceptable_type,signedint}"},
		{"classic", args("x-overflow", s("reject-publish-dlx")), ReasonOK, "", ""},
		{"classic", args(dlx, s("")), ReasonOK, "", ""},
		{"classic", args(dlx, i(1)), ReasonInvalidArgType, dlx, "signedint"},
		{"classic", args(dlk, s("k")), ReasonInvalidArg, dlk, "routing_key_but_no_dlx_defined"},
		{"classic", args(dlk, i(1)), ReasonInvalidArg, dlk, "{unacceptable_type,signedint}"},
		{"classic", args(dlk, s("k"), dlx, s("x")), ReasonOK, "", ""},
		{"quorum", args("x-dead-letter-strategy", s("exactly")), ReasonInvalidArg, "x-dead-letter-strategy", "invalid_dlx_strategy"},
		{"classic", args("x-single-active-consumer", s("true")), ReasonInvalidArg, "x-single-active-consumer", "{unacceptable_type,longstr}"},
		{"classic", args("x-queue-leader-locator", s("here")), ReasonInvalidArg, "x-queue-leader-locator", "invalid_queue_locator_arg"},
		{"classic", args("x-queue-type", s("tape")), ReasonInvalidArg, "x-queue-type", `"unsupported queue type 'tape'"`},
		{"classic", args("x-queue-type", i(1)), ReasonInvalidArg, "x-queue-type", "{unacceptable_type,signedint}"},
		{"classic", args("x-queue-mode", s("eager")), ReasonInvalidArg, "x-queue-mode", `"unsupported queue mode 'eager'"`},
		{"classic", args("x-queue-mode", s("lazy")), ReasonOK, "", ""},
		{"classic", args("x-queue-version", i(3)), ReasonInvalidArg, "x-queue-version", `"unsupported queue version '3'"`},
		{"classic", args("x-queue-version", i(0)), ReasonInvalidArg, "x-queue-version", `"unsupported queue version '0'"`},
		{"classic", args("x-queue-version", i(2)), ReasonOK, "", ""},
		{"quorum", args("x-quorum-initial-group-size", i(0)), ReasonInvalidArg, "x-quorum-initial-group-size", "{value_zero,0}"},
		{"quorum", args("x-delivery-limit", i(-1)), ReasonOK, "", ""},
		{"classic", args("x-max-age", s("1h")), ReasonArgOfOtherType, "x-max-age", "rabbit_classic_queue"},
		{"quorum", args("x-initial-cluster-size", i(1)), ReasonArgOfOtherType, "x-initial-cluster-size", "rabbit_quorum_queue"},
		{"stream", args("x-max-priority", i(1)), ReasonArgOfOtherType, "x-max-priority", "rabbit_stream_queue"},
		{"stream", args("x-max-age", s("1h")), ReasonOK, "", ""},
		{"stream", args("x-max-age", s("h")), ReasonInvalidArg, "x-max-age", "invalid_max_age"},
		{"stream", args("x-max-age", s("0s")), ReasonInvalidArg, "x-max-age", "invalid_max_age"},
		{"stream", args("x-max-age", s("5w")), ReasonInvalidArg, "x-max-age", "invalid_max_age"},
		{"classic", args("x-message-deduplication", s("true")), ReasonOK, "", ""},
		{"classic", args("x-message-deduplication", i(1)), ReasonOK, "", ""},
		{"classic", args("x-message-deduplication", i(0)), ReasonOK, "", ""},
		{"classic", args("x-message-deduplication", i(2)), ReasonInvalidArg, "x-message-deduplication", "{max_value_exceeded,2}"},
		{"classic", args("x-message-deduplication", i(-1)), ReasonInvalidArg, "x-message-deduplication", "{value_negative,-1}"},
		{"classic", args("x-message-deduplication", s("yes")), ReasonInvalidArg, "x-message-deduplication", "{unacceptable_type,longstr}"},
		{"quorum", args("x-cache-ttl", s("1000"), "x-cache-size", i(5), "x-cache-persistence", s("disk")), ReasonOK, "", ""},
		{"quorum", args("x-cache-ttl", s("1s")), ReasonInvalidArg, "x-cache-ttl", "{unacceptable_type,longstr}"},
		{"classic", args("x-cache-ttl", i(0)), ReasonInvalidArg, "x-cache-ttl", "{value_zero,0}"},
		{"classic", args("x-cache-size", s("-1")), ReasonInvalidArg, "x-cache-size", "{value_negative,-1}"},
		{"classic", args("x-cache-persistence", s("paper")), ReasonInvalidArg, "x-cache-persistence", "invalid_cache_persistence"},
		{"classic", args("x-unknown", amqp.Void(), "x-priority", s("not for queues")), ReasonOK, "", ""},
	}
	checkQueueArguments(t, cases)
}

func TestRetryArguments(t *testing.T) {
	s, i := amqp.Longstr, amqp.Int32
	checkQueueArguments(t, []argumentsCase{
		{"classic", args("x-retry-schedule", amqp.Array(i(1000), i(5000))), ReasonOK, "", ""},
		{"quorum", args("x-retry-schedule", s("1s,10s")), ReasonOK, "", ""},
		{"quorum", args("x-retry-schedule", s("soon")), ReasonInvalidArg, "x-retry-schedule", "invalid_retry_schedule"},
		{"quorum", args("x-delayed-retry-multiplier", i(0)), ReasonInvalidArg, "x-delayed-retry-multiplier", "{value_zero,0}"},
		{"quorum", args("x-delayed-retry-jitter", i(101)), ReasonInvalidArg, "x-delayed-retry-jitter", "{max_value_exceeded,101}"},
	})
}

func checkQueueArguments(t *testing.T, cases []argumentsCase) {
	t.Helper()
	for _, c := range cases {
		got := CheckQueueArguments(c.queueType, c.args)
		if got.Reason != c.reason || got.Field != c.field || got.Detail != c.detail {
			t.Errorf("%s %v: %s %s %s, want %s %s %s", c.queueType, c.args.Table(), got.Reason, got.Field, got.Detail, c.reason, c.field, c.detail)
		}
	}
}

func TestConsumerArguments(t *testing.T) {
	for _, c := range []struct {
		queueType, key string
		value          amqp.Value
		want           string
	}{
		{"classic", "x-priority", amqp.Int8(-3), "ok"},
		{"quorum", "x-priority", amqp.Longstr("3"), `invalid-arg "expected integer, got longstr"`},
		{"classic", "x-stream-offset", amqp.Longstr("first"), "arg-of-other-type rabbit_classic_queue"},
		{"stream", "x-stream-offset", amqp.Longstr("first"), "ok"},
		{"quorum", "x-consumer-timeout", amqp.Int32(0), "ok"},
		{"classic", "x-consumer-timeout", amqp.Int32(-1), "invalid-arg {value_negative,-1}"},
		{"classic", "x-cancel-on-ha-failover", amqp.Bool(true), "ok"},
		{"classic", "x-anything", amqp.Bool(true), "ok"},
	} {
		r := CheckConsumerArguments(c.queueType, args(c.key, c.value))
		if got := strings.TrimSpace(r.Reason.String() + " " + r.Detail); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.queueType, c.key, got, c.want)
		}
	}
}

func TestArgTableIsConsistent(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range ArgTable() {
		switch {
		case seen[a.Name]:
			t.Errorf("%s stands twice", a.Name)
		case a.Scope == 0 || a.Kind == 0:
			t.Errorf("%s has no scope or kind", a.Name)
		case a.Relaxed && !a.Equivalence:
			t.Errorf("%s counts between types, but not within one", a.Name)
		case a.Ignored && (a.Served || a.Equivalence):
			t.Errorf("%s is ignored and has an effect", a.Name)
		case a.Kind == WordArg && (a.BadWord == "" || len(a.Words) == 0):
			t.Errorf("%s: words %v, text %q", a.Name, a.Words, a.BadWord)
		case a.Kind == IntArg && a.Min > a.Max:
			t.Errorf("%s is bounded by %d and %d", a.Name, a.Min, a.Max)
		}
		seen[a.Name] = true
	}
}

func TestArgumentsAreCanonical(t *testing.T) {
	a := args("b", amqp.Int32(1), "a", amqp.Longstr("x"), "b", amqp.Int32(2))
	if b := args("a", amqp.Longstr("x"), "b", amqp.Int32(1)); a != b {
		t.Fatalf("%v and %v differ", a.Table(), b.Table())
	}
	if v, ok := a.Get("b"); !ok || !v.Equal(amqp.Int32(1)) {
		t.Fatalf("b is %v, the first entry counts", v)
	}
	if v, ok := a.Get("c"); ok {
		t.Fatalf("c is %v", v)
	}
	if got := a.With("aa", amqp.Void()).Table().String(); got != `{"a"="x" "aa"=void "b"=signedint(1)}` {
		t.Fatal(got)
	}
	if e := NewArguments(nil); !e.Empty() || e != args() || len(e.Table()) != 0 {
		t.Fatal("the empty table is not empty")
	}
}

func TestReservedName(t *testing.T) {
	for name, want := range map[string]bool{"amq.x": true, "amq.": true, "amq": false, "": false, "x.amq.": false} {
		if ReservedName(name) != want {
			t.Errorf("ReservedName(%q) = %v", name, !want)
		}
	}
}
