package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/amqplink"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/fakebroker"
)

// small is a run that ends after some messages.
func small(b *fakebroker.Broker) Config {
	return Config{
		Target:    amqplink.Target{URL: b.URL(), Vhost: "/", Name: "test", Timeout: 10 * time.Second},
		Producers: 1, Consumers: 1, BodyBytes: 100, Prefetch: 50, Window: 20, AckEvery: 10, Queue: "bench", QueueCount: 1,
		Persistent: true, ProducerMessages: 3000,
	}
}

func faultAt(fault fakebroker.Fault, numbers ...uint64) func(uint64) fakebroker.Fault {
	return func(n uint64) fakebroker.Fault {
		for _, at := range numbers {
			if n == at {
				return fault
			}
		}
		return fakebroker.None
	}
}

func TestEveryMessageIsAccountedFor(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		total  uint64
	}{
		{"one queue", func(*Config) {}, 3000},
		{"several workers and queues", func(c *Config) { c.Producers, c.Consumers, c.QueueCount = 4, 4, 2 }, 12000},
		{"automatic ack", func(c *Config) { c.AutoAck = true }, 3000},
		{"no confirms", func(c *Config) { c.Window = 0 }, 3000},
		{"window of one, ack each", func(c *Config) { c.Window, c.Prefetch, c.AckEvery = 1, 1, 1 }, 3000},
		{"no prefetch", func(c *Config) { c.Prefetch = 0 }, 3000},
		{"body in several frames", func(c *Config) { c.BodyBytes, c.ProducerMessages = 300_000, 20 }, 20},
		{"smallest body", func(c *Config) { c.BodyBytes = stampBytes }, 3000},
		{"producers only", func(c *Config) { c.Consumers = 0 }, 3000},
		{"by time, with a warm-up", func(c *Config) {
			c.ProducerMessages, c.Warmup, c.Duration = 0, 30*time.Millisecond, 60*time.Millisecond
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			broker := fakebroker.Start(t, fakebroker.Config{})
			cfg := small(broker)
			c.change(&cfg)
			report, err := Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			check := report.Check
			if !check.OK || len(check.Differences) > 0 {
				t.Errorf("check failed: %+v", check)
			}
			if check.Published == 0 || c.total > 0 && check.Published != c.total {
				t.Errorf("published %d, want %d", check.Published, c.total)
			}
			if cfg.Window > 0 && check.Confirmed != check.Published || cfg.Consumers > 0 && check.Consumed != check.Published {
				t.Errorf("confirmed %d and consumed %d of %d", check.Confirmed, check.Consumed, check.Published)
			}
			if cfg.Consumers > 0 && (report.Latency == nil || report.Latency.Max < report.Latency.P50) || cfg.Window > 0 && report.ConfirmedIn == nil {
				t.Errorf("latencies %+v and %+v", report.Latency, report.ConfirmedIn)
			}
			if _, there := broker.Bodies("bench"); there {
				t.Error("the queue was not deleted")
			}
		})
	}
}

// A broker that loses, doubles or refuses a message must not pass.
func TestCheckFindsPlantedFaults(t *testing.T) {
	for _, c := range []struct {
		fault fakebroker.Fault
		text  string
		count func(Check) uint64
	}{
		{fakebroker.Lose, "published and never consumed: 2", func(c Check) uint64 { return c.Missing }},
		{fakebroker.Double, "consumed more than once: 2", func(c Check) uint64 { return c.Duplicates }},
		{fakebroker.Refuse, "refused (nack): 2", func(c Check) uint64 { return c.Nacked }},
	} {
		broker := fakebroker.Start(t, fakebroker.Config{OnPub: faultAt(c.fault, 1000, 1001)})
		cfg := small(broker)
		cfg.Target.Timeout = time.Second
		if c.fault == fakebroker.Lose {
			cfg.ProducerMessages, cfg.Duration = 0, 100*time.Millisecond
		}
		report, err := Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if report.Check.OK || c.count(report.Check) != 2 || fmt.Sprint(report.Check.Differences) != "["+c.text+"]" {
			t.Errorf("%s: %+v", c.text, report.Check)
		}
	}
}

// A message lost without consumers shows in the queue.
func TestCheckWithoutConsumersCountsTheQueue(t *testing.T) {
	broker := fakebroker.Start(t, fakebroker.Config{OnPub: faultAt(fakebroker.Lose, 7)})
	broker.Put("bench", "old", "older")
	cfg := small(broker)
	cfg.Consumers, cfg.Target.Timeout = 0, time.Second
	var notices []string
	cfg.Notice = func(text string) { notices = append(notices, text) }
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if want := "[neither consumed nor in the queue: 1]"; fmt.Sprint(report.Check.Differences) != want {
		t.Errorf("%+v", report.Check)
	}
	if len(notices) != 1 || !strings.Contains(notices[0], "2 messages") {
		t.Errorf("notices %q", notices)
	}
	if bodies, there := broker.Bodies("bench"); !there || len(bodies) != 3001 {
		t.Error("a queue that was there before must be left alone")
	}
}

func TestFailuresEndTheRun(t *testing.T) {
	for _, c := range []struct {
		name   string
		config fakebroker.Config
		change func(*Config)
		code   exit.Code
		text   string
	}{
		{"connection lost", fakebroker.Config{OnPub: faultAt(fakebroker.Hangup, 500)}, func(*Config) {}, exit.Unavailable, "lost"},
		{"no confirm", fakebroker.Config{OnPub: faultAt(fakebroker.Silent, 500)}, func(c *Config) { c.Target.Timeout = 200 * time.Millisecond }, exit.Timeout, "nothing moved"},
		{"blocked", fakebroker.Config{OnPub: faultAt(fakebroker.Block, 500)}, func(c *Config) { c.Target.Timeout = 200 * time.Millisecond }, exit.Timeout, "blocks publishers"},
		{"wrong password", fakebroker.Config{Password: "x"}, func(*Config) {}, exit.Auth, "403"},
		{"body too small", fakebroker.Config{}, func(c *Config) { c.BodyBytes = 8 }, exit.Usage, "size"},
	} {
		t.Run(c.name, func(t *testing.T) {
			broker := fakebroker.Start(t, c.config)
			cfg := small(broker)
			c.change(&cfg)
			report, err := Run(t.Context(), cfg)
			if exit.Of(err) != c.code || !strings.Contains(fmt.Sprint(err), c.text) {
				t.Errorf("code %d, %v, report %v", exit.Of(err), err, report)
			}
		})
	}
}

// With a rate, as many messages go out as the time allows, not more, and latency counts from when they were due.
func TestRateIsKept(t *testing.T) {
	broker := fakebroker.Start(t, fakebroker.Config{})
	cfg := small(broker)
	cfg.ProducerMessages, cfg.Duration, cfg.Rate = 0, 300*time.Millisecond, 2000
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if most := uint64(report.Seconds*cfg.Rate) + 20; report.Published > most || report.Published < most/3 {
		t.Errorf("%d messages in %.2f s at %v/s", report.Published, report.Seconds, cfg.Rate)
	}
}

func TestPacer(t *testing.T) {
	clk := newClock()
	p := newPacer(1000, clk)
	if due := p.dueNanos(1, 0); due != p.start {
		t.Errorf("the first message is due %d ns after the start", due-p.start)
	}
	if due := p.dueNanos(1001, 0); due != p.start+int64(time.Second) {
		t.Errorf("message 1001 is due %d ns after the start", due-p.start)
	}
	if n, delay := p.due(1_000_000, 10); n != 0 || delay < 900*time.Second || delay > 1001*time.Second {
		t.Errorf("far ahead of the rate: %d messages, wait %s", n, delay)
	}
	p.start -= int64(50 * time.Millisecond) // 51 are due now or a little more
	if n, _ := p.due(0, 20); n != 20 {
		t.Errorf("behind the rate: %d of 20 messages", n)
	}
	if n, _ := newPacer(0, clk).due(5, 20); n != 20 {
		t.Errorf("without a rate: %d of 20 messages", n)
	}
}

func TestConsumerLimitTakesNoMore(t *testing.T) {
	broker := fakebroker.Start(t, fakebroker.Config{})
	cfg := small(broker)
	for range 100 {
		broker.Put("bench", strings.Repeat("x", 20))
	}
	cfg.Producers, cfg.ProducerMessages, cfg.ConsumerMessages = 0, 0, 35
	report, err := Run(t.Context(), cfg)
	if err != nil || report.Check.Consumed != 35 || report.Consumed != 35 || !report.Check.OK {
		t.Fatalf("%+v, %v", report, err)
	}
	if bodies, _ := broker.Bodies("bench"); len(bodies) != 65 {
		t.Errorf("%d messages left, want 65", len(bodies))
	}
}

func TestInterruptStillReports(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	broker := fakebroker.Start(t, fakebroker.Config{OnPub: func(n uint64) fakebroker.Fault {
		if n == 1000 {
			cancel()
		}
		return fakebroker.None
	}})
	cfg := small(broker)
	cfg.ProducerMessages, cfg.Duration = 0, time.Hour
	report, err := Run(ctx, cfg)
	if err != nil || report.Published < 100 || !report.Check.OK {
		t.Fatalf("%+v, %v", report, err)
	}
	if _, there := broker.Bodies("bench"); there {
		t.Error("the queue was not deleted")
	}
}

func TestIntervalsAreReported(t *testing.T) {
	broker := fakebroker.Start(t, fakebroker.Config{})
	cfg := small(broker)
	cfg.ProducerMessages, cfg.Duration = 0, 1100*time.Millisecond
	var got []Interval
	cfg.Progress = func(i Interval) { got = append(got, i) }
	if _, err := Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if len(got) == 0 || got[0].Phase != phaseMeasure || got[0].Published <= 0 || got[0].P50Nanos <= 0 || got[0].P99Nanos < got[0].P50Nanos {
		t.Errorf("intervals %+v", got)
	}
}

// The keys of the JSON report are an interface.
func TestReportKeys(t *testing.T) {
	encoded, err := json.Marshal(&Report{Latency: &Latency{}, ConfirmedIn: &Latency{}})
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := json.Unmarshal(encoded, &keys); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"publish_rate", "confirm_rate", "consume_rate", "latency_ms", "confirm_latency_ms", "check", "seconds", "generator_cpus"} {
		if _, ok := keys[key]; !ok {
			t.Errorf("key %s is missing", key)
		}
	}
	latency := keys["latency_ms"].(map[string]any)
	for _, key := range []string{"min", "mean", "p50", "p95", "p99", "p99.9", "max"} {
		if _, ok := latency[key]; !ok {
			t.Errorf("key latency_ms.%s is missing", key)
		}
	}
}

func TestValidate(t *testing.T) {
	good := Config{Producers: 1, Consumers: 1, BodyBytes: 16, AckEvery: 1, QueueCount: 1, Duration: 1, Queue: "q"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"nobody":               func(c *Config) { c.Producers, c.Consumers = 0, 0 },
		"small body":           func(c *Config) { c.BodyBytes = 15 },
		"acks that never come": func(c *Config) { c.Prefetch, c.AckEvery = 10, 11 },
		"no end":               func(c *Config) { c.Duration = 0 },
		"queues nobody empties": func(c *Config) {
			c.Producers, c.QueueCount = 2, 2
		},
		"negative rate":         func(c *Config) { c.Rate = -1 },
		"consumers of anything": func(c *Config) { c.Producers, c.Queue = 0, "" },
	} {
		c := good
		change(&c)
		if c.Validate() == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
