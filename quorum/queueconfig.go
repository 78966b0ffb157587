package quorum

import (
	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// Priorities of a queue declared without x-max-priority: RabbitMQ's for quorum queues; a classic queue has none.
const (
	quorumPriorityMax     = 31
	quorumPriorityDefault = 4
)

// firstConfig is the configuration that the machine of a queue begins with on every replica, whenever that begins: as the declaration has it. What policies add comes through the log.
func firstConfig(q *meta.Queue) queue.Config {
	bare := *q
	bare.Policies, bare.ConfigVersion, bare.Was = meta.Attached{}, 1, ""
	return queueConfig(&bare)
}

// queueConfig is what the machine of a queue must know (PROTOCOL 5: everything Apply reads is replicated).
func queueConfig(q *meta.Queue) queue.Config {
	cfg := queue.Config{Version: q.ConfigVersion, AutoDelete: q.AutoDelete, Draining: q.IsDraining()}
	if _, cfg.Relay = q.RelayOf(); cfg.Relay {
		deduplicate(q, &cfg)
		return cfg
	}
	if q.Type == meta.TypeQuorum {
		cfg.PriorityMax, cfg.PriorityDefault = quorumPriorityMax, quorumPriorityDefault
		cfg.DeliveryLimit = queue.LimitOf(limits.DeliveryLimit)
		cfg.ConsumerTimeout = queue.LimitOf(limits.ConsumerTimeoutMillis)
	}
	if n, ok := intArgument(q, "x-max-priority"); ok {
		cfg.PriorityMax = uint8(min(max(n, 0), 255))
		cfg.PriorityDefault = min(cfg.PriorityDefault, cfg.PriorityMax)
	}
	for _, l := range [...]struct {
		name string
		to   *queue.Limit
	}{
		{"x-message-ttl", &cfg.MessageTTL}, {"x-max-length", &cfg.MaxLength}, {"x-max-length-bytes", &cfg.MaxLengthBytes}, {"x-expires", &cfg.Expires},
		{"x-delivery-limit", &cfg.DeliveryLimit}, {"x-delayed-retry-min", &cfg.RetryMin}, {"x-delayed-retry-max", &cfg.RetryMax},
		{"x-delayed-retry-multiplier", &cfg.RetryMultiplier}, {"x-delayed-retry-jitter", &cfg.RetryJitter},
		{"x-consumer-timeout", &cfg.ConsumerTimeout}, {"x-priority-aging-ms", &cfg.PriorityAging},
	} {
		if n, ok := intArgument(q, l.name); ok {
			*l.to = 0 // a negative delivery limit is none
			if n >= 0 {
				*l.to = queue.LimitOf(uint64(n))
			}
		}
	}
	switch textArgument(q, "x-overflow") {
	case "reject-publish":
		cfg.Overflow = queue.RejectPublish
	case "reject-publish-dlx":
		cfg.Overflow = queue.RejectPublishDLX
	}
	setRetry(q, &cfg)
	cfg.CountReturns = textArgument(q, "x-delivery-limit-counts") == "all"
	if v, ok := q.Arguments.Get("x-single-active-consumer"); ok {
		cfg.SingleActive, _ = v.AsBool()
	}
	deduplicate(q, &cfg)
	if q.Name == deadQueue {
		cfg.DeliveryLimit = 0
	}
	_, cfg.DeadLetter = q.Effective("x-dead-letter-exchange")
	cfg.ParkPoison = cfg.DeliveryLimit != 0 && !cfg.DeadLetter
	return cfg
}

// setRetry says which messages wait before they are tried again. Settings that RabbitMQ has not turn it on by themselves.
func setRetry(q *meta.Queue, cfg *queue.Config) {
	if v, ok := q.Effective("x-retry-schedule"); ok {
		if millis, ok := meta.Schedule(v); ok {
			cfg.RetrySchedule = queue.ScheduleOf(millis)
		}
	}
	switch textArgument(q, "x-delayed-retry-type") {
	case "all":
		cfg.Retry = queue.RetryAll
	case "failed":
		cfg.Retry = queue.RetryFailed
	case "returned":
		cfg.Retry = queue.RetryReturned
	case "":
		if cfg.RetrySchedule != "" || cfg.RetryMultiplier != 0 {
			cfg.Retry = queue.RetryAll
		}
	}
}

// ConsumerTimeoutMillis tells how long a consumer of the queue with these arguments may keep a delivery, 0: for ever. Its own argument goes before what the queue says.
func ConsumerTimeoutMillis(q *meta.Queue, arguments amqp.Table) int64 {
	if l := OwnTimeout(arguments); l != 0 {
		n, _ := l.Get()
		return int64(n)
	}
	cfg := queueConfig(q)
	n, ok := cfg.ConsumerTimeout.Get()
	if !ok {
		return 0
	}
	return int64(n)
}

// OwnTimeout is what the arguments of a consumer say of its timeout.
func OwnTimeout(arguments amqp.Table) queue.Limit {
	v, _ := arguments.Get("x-consumer-timeout")
	if n, ok := v.AsInt64(); ok && n >= 0 {
		return queue.LimitOf(uint64(n))
	}
	return 0
}

// deduplicate adds what a queue was told about ids.
func deduplicate(q *meta.Queue, cfg *queue.Config) {
	on, ttl, size := q.Deduplication()
	cfg.Deduplicate = on
	if ttl > 0 {
		cfg.DedupTTL = queue.LimitOf(uint64(ttl))
	}
	if size > 0 {
		cfg.DedupSize = queue.LimitOf(uint64(size))
	}
}

func intArgument(q *meta.Queue, name string) (int64, bool) {
	v, _ := q.Effective(name)
	return v.AsInt64()
}

func textArgument(q *meta.Queue, name string) string {
	v, _ := q.Effective(name)
	s, _ := v.AsString()
	return s
}

// surveyOf tells where a queue sends what died for a reason; nil if nowhere.
func surveyOf(q *meta.Queue, reason queue.Reason) *deathSurvey {
	v, ok := q.Effective("x-dead-letter-exchange")
	switch {
	case !ok && reason == queue.ReasonDeliveryLimit:
		key := deadQueue
		return &deathSurvey{key: &key, keep: true}
	case !ok:
		return nil
	}
	s := &deathSurvey{once: textArgument(q, "x-dead-letter-strategy") == "at-most-once"}
	s.exchange, _ = v.AsString()
	if v, ok := q.Effective("x-dead-letter-routing-key"); ok {
		if key, ok := v.AsString(); ok {
			s.key = &key
		}
	}
	return s
}
