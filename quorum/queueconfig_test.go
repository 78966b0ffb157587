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
