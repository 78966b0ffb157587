package quorum

import (
	"testing"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// TestConfigUnderPolicies: what a queue follows has the settings of policies; what its replicas begin with has none, for a replica that begins later must come to the same state by the same log.
func TestConfigUnderPolicies(t *testing.T) {
	q := meta.Queue{Name: "q", Type: meta.TypeQuorum, ConfigVersion: 1, Arguments: meta.NewArguments(amqp.Table{{Key: "x-max-length", Value: amqp.Int32(50)}})}
	declared := queueConfig(&q)
	if declared.Version != 1 || declared.MaxLength != queue.LimitOf(50) || declared.DeadLetter || declared.CountReturns || declared.DeliveryLimit != queue.LimitOf(limits.DeliveryLimit) {
		t.Fatalf("as declared: %+v", declared)
	}
	q.ConfigVersion = 4
	q.Policies = meta.Attached{Policy: "p", Definition: meta.NewArguments(amqp.Table{
		{Key: "max-length", Value: amqp.Int64(20)}, {Key: "message-ttl", Value: amqp.Int64(5)}, {Key: "dead-letter-exchange", Value: amqp.Longstr("x")}, {Key: "overflow", Value: amqp.Longstr("reject-publish")},
		{Key: "delivery-limit", Value: amqp.Int64(3)}, {Key: "delivery-limit-counts", Value: amqp.Longstr("all")}, {Key: "dead-letter-routing-key", Value: amqp.Longstr("k")},
		{Key: "dead-letter-strategy", Value: amqp.Longstr("at-most-once")},
	})}
	cfg := queueConfig(&q)
	if cfg.Version != 4 || cfg.MaxLength != queue.LimitOf(20) || cfg.MessageTTL != queue.LimitOf(5) || !cfg.DeadLetter || cfg.Overflow != queue.RejectPublish || cfg.DeliveryLimit != queue.LimitOf(3) || !cfg.CountReturns {
		t.Errorf("under policies: %+v", cfg)
	}
	if s := surveyOf(&q, queue.ReasonExpired); s == nil || s.exchange != "x" || s.key == nil || *s.key != "k" || !s.once {
		t.Errorf("dead letters go to %+v", s)
	}
	if first := firstConfig(&q); first != declared {
		t.Errorf("replicas begin with %+v, want %+v", first, declared)
	}
}

// TestConfigOfRetries: a multiplier or a schedule has all wait that come back, unless the type says otherwise; least and most alone do nothing, as in RabbitMQ.
func TestConfigOfRetries(t *testing.T) {
	for _, c := range []struct {
		arguments amqp.Table
		want      queue.Config
	}{
		{amqp.Table{{Key: "x-delayed-retry-min", Value: amqp.Int32(10)}}, queue.Config{RetryMin: queue.LimitOf(10)}},
		{amqp.Table{{Key: "x-delayed-retry-min", Value: amqp.Int32(10)}, {Key: "x-delayed-retry-multiplier", Value: amqp.Int32(2)}, {Key: "x-delayed-retry-jitter", Value: amqp.Int32(5)}},
			queue.Config{Retry: queue.RetryAll, RetryMin: queue.LimitOf(10), RetryMultiplier: queue.LimitOf(2), RetryJitter: queue.LimitOf(5)}},
		{amqp.Table{{Key: "x-retry-schedule", Value: amqp.Longstr("1s,1m")}}, queue.Config{Retry: queue.RetryAll, RetrySchedule: queue.ScheduleOf([]uint64{1000, 60_000})}},
		{amqp.Table{{Key: "x-retry-schedule", Value: amqp.Longstr("1s")}, {Key: "x-delayed-retry-type", Value: amqp.Longstr("failed")}},
			queue.Config{Retry: queue.RetryFailed, RetrySchedule: queue.ScheduleOf([]uint64{1000})}},
		{amqp.Table{{Key: "x-retry-schedule", Value: amqp.Longstr("1s")}, {Key: "x-delayed-retry-type", Value: amqp.Longstr("disabled")}}, queue.Config{RetrySchedule: queue.ScheduleOf([]uint64{1000})}},
	} {
		if got := queueConfig(&meta.Queue{Type: meta.TypeClassic, Arguments: meta.NewArguments(c.arguments)}); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.arguments, got, c.want)
		}
	}
}

// TestConsumerTimeoutMillis: the consumer's own timeout goes before the queue's, which is that of its argument or policy, whichever is less, or else that of its type; 0 is none.
func TestConsumerTimeoutMillis(t *testing.T) {
	timeout := func(n int64) amqp.Table { return amqp.Table{{Key: "x-consumer-timeout", Value: amqp.Int64(n)}} }
	for _, c := range []struct {
		kind            string
		queue, consumer amqp.Table
		policy          int64
		want            int64
	}{
		{kind: meta.TypeQuorum, want: limits.ConsumerTimeoutMillis},
		{kind: meta.TypeClassic, want: 0},
		{kind: meta.TypeQuorum, queue: timeout(7_200_000), want: 7_200_000},
		{kind: meta.TypeQuorum, queue: timeout(50), policy: 70, want: 50},
		{kind: meta.TypeClassic, queue: timeout(50), policy: 30, want: 30},
		{kind: meta.TypeQuorum, policy: 70, consumer: timeout(90), want: 90},
		{kind: meta.TypeQuorum, consumer: timeout(0), want: 0},
		{kind: meta.TypeQuorum, queue: timeout(0), want: 0},
	} {
		q := meta.Queue{Type: c.kind, Arguments: meta.NewArguments(c.queue)}
		if c.policy > 0 {
			q.Policies = meta.Attached{Policy: "p", Definition: meta.NewArguments(amqp.Table{{Key: "consumer-timeout", Value: amqp.Int64(c.policy)}})}
		}
		if got := ConsumerTimeoutMillis(&q, c.consumer); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestConfigFollowsPolicies: what a policy says of priorities and of retries goes before what the queue was declared with, and is undone with the policy.
func TestConfigFollowsPolicies(t *testing.T) {
	number := func(key string, n int64) amqp.Table { return amqp.Table{{Key: key, Value: amqp.Int64(n)}} }
	word := func(key, text string) amqp.Table { return amqp.Table{{Key: key, Value: amqp.Longstr(text)}} }
	for _, c := range []struct {
		declared, policy amqp.Table
		change           func(*queue.Config)
	}{
		{number("x-max-priority", 10), number("max-priority", 3), func(c *queue.Config) { c.PriorityMax, c.PriorityDefault = 3, 3 }},
		{nil, number("max-priority", 200), func(c *queue.Config) { c.PriorityMax = 200 }},
		{nil, number("priority-aging-ms", 50), func(c *queue.Config) { c.PriorityAging = queue.LimitOf(50) }},
		{number("x-priority-aging-ms", 20), number("priority-aging-ms", 0), func(c *queue.Config) { c.PriorityAging = queue.LimitOf(0) }},
		{nil, word("delayed-retry-type", "returned"), func(c *queue.Config) { c.Retry = queue.RetryReturned }},
		{word("x-delayed-retry-type", "all"), word("delayed-retry-type", "disabled"), func(c *queue.Config) { c.Retry = 0 }},
		{nil, number("delayed-retry-min", 10), func(c *queue.Config) { c.RetryMin = queue.LimitOf(10) }},
		{nil, number("delayed-retry-max", 10), func(c *queue.Config) { c.RetryMax = queue.LimitOf(10) }},
		{nil, number("delayed-retry-multiplier", 3), func(c *queue.Config) { c.Retry, c.RetryMultiplier = queue.RetryAll, queue.LimitOf(3) }},
		{nil, number("delayed-retry-jitter", 7), func(c *queue.Config) { c.RetryJitter = queue.LimitOf(7) }},
		{word("x-retry-schedule", "1m"), word("retry-schedule", "1s,2s"), func(c *queue.Config) {
			c.Retry, c.RetrySchedule = queue.RetryAll, queue.ScheduleOf([]uint64{1000, 2000})
		}},
	} {
		q := meta.Queue{Name: "q", Type: meta.TypeQuorum, ConfigVersion: 1, Arguments: meta.NewArguments(c.declared)}
		declared := queueConfig(&q)
		want := declared
		c.change(&want)
		if want == declared {
			t.Fatalf("%v: the policy says nothing", c.policy)
		}
		q.Policies = meta.Attached{Policy: "p", Definition: meta.NewArguments(c.policy)}
		if got := queueConfig(&q); got != want {
			t.Errorf("%v under %v: %+v\nwant %+v", c.declared, c.policy, got, want)
		}
		q.Policies = meta.Attached{}
		if got := queueConfig(&q); got != declared {
			t.Errorf("%v after %v: %+v\nwant %+v", c.declared, c.policy, got, declared)
		}
	}
}
