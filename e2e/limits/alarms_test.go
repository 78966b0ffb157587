package limits

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/rawamqp"
)

// alarmPatience is how long the broker may take to do what it does within a fraction of a second.
const alarmPatience = 10 * time.Second

// setLimits sets limits of the broker's node at run time.
func setLimits(t *testing.T, b *harness.Broker, limits map[string]any) {
	t.Helper()
	var nodes []struct{ Name string }
	b.Get(t, "/api/nodes?columns=name", &nodes)
	if a := b.API(t, "PUT", harness.Path("nodes", nodes[0].Name, "limits"), limits); a.Status != 204 {
		t.Fatalf("set %v: %v", limits, a)
	}
}

// states are the states of the connections by the names that their clients gave them.
func states(b *harness.Broker) (map[string]string, error) {
	var list []struct {
		State string
		Name  string `json:"user_provided_name"`
	}
	if err := b.TryGet("/api/connections", &list); err != nil {
		return nil, err
	}
	out := make(map[string]string)
	for _, c := range list {
		out[c.Name] = c.State
	}
	return out, nil
}

func awaitStates(t *testing.T, b *harness.Broker, want map[string]string) {
	t.Helper()
	harness.Eventually(t, alarmPatience, func() error {
		got, err := states(b)
		if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			err = fmt.Errorf("states %v, want %v", got, want)
		}
		return err
	})
}

func named(t *testing.T, b *harness.Broker, name string) *amqp.Connection {
	t.Helper()
	c, err := amqp.DialConfig(b.AMQPURL(), amqp.Config{Properties: amqp.Table{"connection_name": name}, Heartbeat: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.CloseDeadline(time.Now().Add(time.Second)) })
	return c
}

// alarmStage is a broker with a queue, who publishes to it, who consumes from it, and one who does neither.
type alarmStage struct {
	t          *testing.T
	b          *harness.Broker
	out, idle  *amqp.Channel
	blockings  <-chan amqp.Blocking
	deliveries <-chan amqp.Delivery
}

func newAlarmStage(t *testing.T, b *harness.Broker) *alarmStage {
	t.Helper()
	publisher, silent, reader := named(t, b, "publisher"), named(t, b, "silent"), named(t, b, "consumer")
	s := &alarmStage{t: t, b: b, out: harness.Channel(t, publisher), idle: harness.Channel(t, silent), blockings: publisher.NotifyBlocked(make(chan amqp.Blocking, 10))}
	harness.Declare(t, s.idle, "work", harness.Quorum)
	err := s.out.Confirm(false)
	if err == nil {
		s.deliveries, err = harness.Channel(t, reader).Consume("work", "", false, false, false, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *alarmStage) publish(body string) *amqp.DeferredConfirmation {
	s.t.Helper()
	confirm, err := s.out.PublishWithDeferredConfirm("", "work", false, false, amqp.Publishing{Body: []byte(body), DeliveryMode: amqp.Persistent})
	if err != nil {
		s.t.Fatal(err)
	}
	return confirm
}

// arrives waits for the confirm of a message, and takes and acknowledges it.
func (s *alarmStage) arrives(c *amqp.DeferredConfirmation, body string) {
	s.t.Helper()
	select {
	case <-c.Done():
		if !c.Acked() {
			s.t.Fatal("nacked")
		}
	case <-time.After(alarmPatience):
		s.t.Fatal("no confirm")
	}
	d := harness.Receive(s.t, s.deliveries)
	if string(d.Body) != body {
		s.t.Fatalf("got %q, want %q", d.Body, body)
	}
	if err := d.Ack(false); err != nil {
		s.t.Fatal(err)
	}
}

// told waits until the publisher is told that it is blocked, or is not any more.
func (s *alarmStage) told(want amqp.Blocking) {
	s.t.Helper()
	select {
	case x := <-s.blockings:
		if x != want {
			s.t.Errorf("told %+v, want %+v", x, want)
		}
	case <-time.After(alarmPatience):
		s.t.Fatalf("not told %+v", want)
	}
}

func (s *alarmStage) states(publisher, others string) {
	s.t.Helper()
	awaitStates(s.t, s.b, map[string]string{"publisher": publisher, "silent": others, "consumer": others})
}

// TestDiskAlarm sets the disk limit above what is free: publishers are paused and told why, everything else goes on, and so do they when there is room again.
func TestDiskAlarm(t *testing.T) {
	b := harness.Start(t, harness.Options{})
	s := newAlarmStage(t, b)
	s.arrives(s.publish("before"), "before")

	setLimits(t, b, map[string]any{"disk_free_limit.absolute": "1000TB"})
	s.states("blocking", "blocking")
	accepted := s.publish("accepted")
	s.told(amqp.Blocking{Active: true, Reason: "low on disk"})
	s.arrives(accepted, "accepted")
	held := s.publish("held")
	s.states("blocked", "blocking")
	wantAlarmShown(t, b)
	wantOthersGoOn(t, b, s.idle)
	wantDeadBlockedClientFound(t, b)
	select {
	case <-held.Done():
		t.Error("a publish of a blocked connection was confirmed")
	default:
	}

	setLimits(t, b, map[string]any{"disk_free_limit.absolute": "1MB"})
	s.told(amqp.Blocking{})
	s.arrives(held, "held")
	s.states("running", "running")
	if a := b.API(t, "GET", "/api/health/checks/local-alarms", nil); a.Status != 200 || string(a.Body) != `{"status":"ok"}` {
		t.Errorf("local-alarms afterwards: %v", a)
	}
}

// wantAlarmShown looks where operators do.
func wantAlarmShown(t *testing.T, b *harness.Broker) {
	t.Helper()
	type node struct {
		Name      string
		DiskAlarm bool    `json:"disk_free_alarm"`
		MemAlarm  bool    `json:"mem_alarm"`
		DiskLimit float64 `json:"disk_free_limit"`
		Free      float64 `json:"disk_free"`
	}
	var n node
	harness.Eventually(t, alarmPatience, func() error { // numbers are as of the last second
		var nodes []node
		if b.Get(t, "/api/nodes", &nodes); !nodes[0].DiskAlarm || nodes[0].MemAlarm || nodes[0].DiskLimit != 1e15 || nodes[0].Free <= 0 {
			return fmt.Errorf("node: %+v", nodes[0])
		}
		n = nodes[0]
		return nil
	})
	for check, where := range map[string]string{"alarms": "in the cluster", "local-alarms": "on the node"} {
		a := b.API(t, "GET", "/api/health/checks/"+check, nil)
		want := fmt.Sprintf(`{"status":"failed","reason":"There are alarms in effect %s","alarms":[{"node":%q,"resource":"disk space"}]}`, where, n.Name)
		if a.Status != 503 || string(a.Body) != want {
			t.Errorf("%s: %d %s, want 503 %s", check, a.Status, a.Body, want)
		}
	}
	for name, want := range map[string]float64{
		"rabbitmq_alarms_free_disk_space_watermark": 1, "rabbitmq_alarms_memory_used_watermark": 0, "rabbitmq_disk_space_available_limit_bytes": 1e15,
	} {
		if got, err := b.Metric(name); err != nil || got != want {
			t.Errorf("%s is %v (%v), want %v", name, got, err, want)
		}
	}
	for _, line := range []string{"disk space alarm is raised", `publishers are blocked`} {
		if !strings.Contains(b.Log(), line) {
			t.Errorf("the log does not say %q", line)
		}
	}
}

// wantOthersGoOn declares, gets and deletes on a connection that does not publish; publishing over HTTP is refused.
func wantOthersGoOn(t *testing.T, b *harness.Broker, ch *amqp.Channel) {
	t.Helper()
	harness.Declare(t, ch, "passing", harness.Quorum)
	if _, ok, err := ch.Get("passing", true); err != nil || ok {
		t.Errorf("get: %v %v", ok, err)
	}
	if _, err := ch.QueueDelete("passing", false, false, false); err != nil {
		t.Error(err)
	}
	a := b.API(t, "POST", "/api/exchanges/%2F/amq.default/publish", map[string]any{"properties": map[string]any{}, "routing_key": "work", "payload": "x", "payload_encoding": "string"})
	if want := `{"error":"service_unavailable","reason":"publishers are blocked: the cluster is low on disk"}`; a.Status != 503 || string(a.Body) != want {
		t.Errorf("publish over HTTP: %d %s, want 503 %s", a.Status, a.Body, want)
	}
}

// wantDeadBlockedClientFound kills a client while the broker does not read what it sends.
func wantDeadBlockedClientFound(t *testing.T, b *harness.Broker) {
	t.Helper()
	c, err := rawamqp.Open(b.AMQP, rawamqp.Guest)
	if err == nil {
		err = c.OpenChannel(1)
	}
	for range 2 { // the second publish stays unread
		if err == nil {
			err = c.Send(rawamqp.Publish(1, "nowhere"), rawamqp.BodyHeader(1, 0))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	values := func() (list []string, err error) {
		got, err := states(b)
		for _, s := range got {
			list = append(list, s)
		}
		slices.Sort(list)
		return list, err
	}
	count := func(want ...string) {
		t.Helper()
		harness.Eventually(t, alarmPatience, func() error {
			got, err := values()
			if err == nil && !slices.Equal(got, want) {
				err = fmt.Errorf("states %q, want %q", got, want)
			}
			return err
		})
	}
	count("blocked", "blocked", "blocking", "blocking")
	_ = c.Close()
	count("blocked", "blocking", "blocking")
}
