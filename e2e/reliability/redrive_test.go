package reliability

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// redriven is what the API says of a redrive.
type redriven struct {
	State string
	Moved int
}

// beginRedrive begins a redrive of the queue dead.
func beginRedrive(b *harness.Broker, body map[string]any) (r redriven, err error) {
	a, err := b.TryAPI(http.MethodPost, harness.Path("queues", "/", "dead", "redrive"), body)
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("%d %s", a.Status, a.Body)
	}
	if err == nil {
		err = json.Unmarshal(a.Body, &r)
	}
	return r, err
}

// TestKillNineRedrivesOnce: dead letters go back to where they died while the broker dies at random moments and the redrive is begun again. Each is in the one queue or the other, once, and comes back as it was.
func TestKillNineRedrivesOnce(t *testing.T) {
	messages, kills := chainSize()
	kills = 2*kills + 1
	seed := number(t, envSeed, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", envSeed, seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	b := harness.Start(t, harness.Options{Patience: patienceFor(kills)})
	b.AwaitHTTP(t)
	ch := b.Channel(t)
	harness.Declare(t, ch, "dead", harness.Quorum)
	args := amqp.Table{amqp.QueueTypeArg: harness.Quorum, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
	if _, err := ch.QueueDeclare("orders", true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	for n := range messages {
		m := amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: strconv.Itoa(n), Expiration: "0", Body: []byte("body")} // without it from then on
		if err := ch.PublishWithContext(t.Context(), "", "orders", false, false, m); err != nil {
			t.Fatal(err)
		}
	}
	count := func(queue string) (ready, moving int, err error) {
		var q struct {
			Ready  int `json:"messages_ready"`
			Moving int `json:"messages_dlx"`
		}
		err = b.TryGet(harness.Path("queues", "/", queue), &q)
		return q.Ready, q.Moving, err
	}
	await := func(queue string, want int) {
		t.Helper()
		harness.Eventually(t, time.Minute, func() error {
			ready, moving, err := count(queue)
			if err == nil && (ready != want || moving != 0) {
				err = fmt.Errorf("%s has %d messages, %d on their way; want %d", queue, ready, moving, want)
			}
			return err
		})
	}
	await("orders", 0)
	await("dead", messages)
	dry, err := beginRedrive(b, map[string]any{"dry_run": true})
	if err != nil || dry.Moved != messages {
		t.Fatalf("dry: %+v, %v", dry, err)
	}
	part := messages / (kills + 1)
	for range kills {
		go func() { _, _ = beginRedrive(b, map[string]any{"limit": part, "rate": 2 * part}) }() // it may die with its question
		time.Sleep(time.Duration(100+rng.IntN(250)) * time.Millisecond)
		b.Kill9()
		b.Launch(t)
		b.AwaitHTTP(t)
		ready, moving, err := count("dead")
		t.Logf("killed with %d messages left and %d on their way (%v)", ready, moving, err)
	}
	harness.Eventually(t, time.Minute, func() error {
		_, err := beginRedrive(b, nil)
		ready, _, failed := count("dead")
		if err == nil && failed == nil && ready > 0 {
			err = fmt.Errorf("%d are left", ready)
		}
		return err
	})
	await("dead", 0)
	await("orders", messages)
	takeRedriven(t, b, messages)
}

// takeRedriven takes all messages and looks at each.
func takeRedriven(t *testing.T, b *harness.Broker, messages int) {
	t.Helper()
	deliveries, err := b.Channel(t).Consume("orders", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	times := make([]int, messages)
	for range messages {
		var d amqp.Delivery
		select {
		case d = <-deliveries:
		case <-time.After(10 * time.Second):
			t.Fatal("no more messages come")
		}
		n, err := strconv.Atoi(d.MessageId)
		if err != nil || n >= messages {
			t.Fatalf("message %q", d.MessageId)
		}
		if times[n]++; times[n] > 1 {
			t.Errorf("message %d comes twice", n)
		}
		deaths, _ := d.Headers["x-death"].([]any)
		if len(deaths) != 1 || d.RoutingKey != "orders" || string(d.Body) != "body" || d.Expiration != "" || d.Headers["x-first-death-queue"] != "orders" {
			t.Fatalf("message %d comes back as %+v", n, d)
		}
	}
}
