package limits

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

const mebibyte = 1 << 20

// startLarge starts a broker that takes messages of the largest size.
func startLarge(t *testing.T) *stage {
	return newStage(t, harness.Start(t, harness.Options{Args: []string{"--set", "max_message_size=128MiB", "--set", "publish_timeout=120s"}, Patience: 10 * time.Minute}))
}

// noise is a body of n bytes that differs from that of any other seed.
func noise(seed uint64, n int) []byte {
	body := make([]byte, n)
	src := rand.NewChaCha8(sha256.Sum256(fmt.Append(nil, seed)))
	_, _ = src.Read(body)
	return body
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// TestLargeMessages: what one client publishes another gets, whole, up to the largest size that the key takes.
func TestLargeMessages(t *testing.T) {
	s := startLarge(t)
	sizes := []int{1, 16}
	if harness.Full() {
		sizes = []int{1, 16, 64, 128}
	}
	python := harness.Python(t)
	for _, size := range sizes {
		ch := s.broker.Channel(t)
		queue := fmt.Sprint("large-", size)
		harness.Declare(t, ch, queue, "quorum")
		body := noise(uint64(size), size*mebibyte)
		began := time.Now()
		harness.PublishConfirmed(t, ch, "", queue, body)
		published := time.Since(began)
		out, err := exec.CommandContext(t.Context(), python, filepath.Join("..", "clients", "python", "large_messages.py"), s.broker.AMQPURL(), queue, fmt.Sprint(size*mebibyte)).Output()
		if err != nil {
			t.Fatalf("pika with %d MiB: %v", size, err)
		}
		got, sent, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
		if got != digest(body) {
			t.Errorf("pika got another message of %d MiB", size)
		}
		d, ok, err := ch.Get(queue, true)
		if err != nil || !ok || digest(d.Body) != sent {
			t.Errorf("amqp091 got another message of %d MiB than pika sent: %t, %v", size, ok, err)
		}
		t.Logf("%d MiB: confirmed after %v", size, published)
	}
	s.lives(t)
	s.drained(t)
}

// TestLargeMessagesInMemory: what a broker takes for large messages that come at the same time is in proportion to them, and they all arrive.
func TestLargeMessagesInMemory(t *testing.T) {
	s := startLarge(t)
	const publishers = 3
	size := 8 * mebibyte
	if harness.Full() {
		size = 64 * mebibyte
	}
	watch := watchAnonymous(t, s.broker.Pid())
	var all sync.WaitGroup
	for i := range publishers {
		ch := s.broker.Channel(t)
		queue := fmt.Sprint("memory-", i)
		harness.Declare(t, ch, queue, "quorum")
		all.Go(func() {
			body := noise(uint64(i), size)
			if err := harness.TryPublishConfirmed(ch, "", queue, body); err != nil {
				t.Errorf("publisher %d: %v", i, err)
				return
			}
			if d, ok, err := ch.Get(queue, true); err != nil || !ok || !bytes.Equal(d.Body, body) {
				t.Errorf("what came back of publisher %d is not what it sent: %t, %v", i, ok, err)
			}
		})
	}
	all.Wait()
	peak := watch()
	t.Logf("%d messages of %d MiB at once: at most %d MiB of anonymous memory", publishers, size/mebibyte, peak/mebibyte)
	if most := int64(10*publishers*size + 64*mebibyte); peak > most {
		t.Errorf("%d MiB are more than %d", peak/mebibyte, most/mebibyte)
	}
	s.lives(t)
}

// watchAnonymous looks at a process's anonymous memory until the function that it returns is called, which returns the most that it saw, in bytes.
func watchAnonymous(t *testing.T, pid int) func() int64 {
	t.Helper()
	file := fmt.Sprintf("/proc/%d/status", pid)
	if _, err := os.Stat(file); err != nil {
		harness.Missing(t, "memory is not measured here: %v", err)
	}
	stop, result := make(chan struct{}), make(chan int64, 1)
	go func() {
		most := int64(0)
		for {
			if data, err := os.ReadFile(file); err == nil {
				if _, rest, ok := strings.Cut(string(data), "RssAnon:"); ok {
					var kib int64
					if _, err := fmt.Sscan(rest, &kib); err == nil {
						most = max(most, kib<<10)
					}
				}
			}
			select {
			case <-stop:
				result <- most
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() int64 {
		close(stop)
		most := <-result
		if most == 0 {
			t.Error("no memory was seen")
		}
		return most
	}
}

// TestKillNineInLargePublish kills the broker somewhere in a large publish: what was confirmed is there, what is there is whole, and nothing is there twice.
func TestKillNineInLargePublish(t *testing.T) {
	s := startLarge(t)
	size, kills := 8*mebibyte, 3
	if harness.Full() {
		size, kills = 64*mebibyte, 12
	}
	ch := s.broker.Channel(t)
	harness.Declare(t, ch, "killed", "quorum")
	began := time.Now()
	harness.PublishConfirmed(t, ch, "", "killed", noise(0, size))
	takes := time.Since(began)
	sent := map[string]int{digest(noise(0, size)): 0}
	confirmed := map[int]bool{0: true}
	for i := 1; i <= kills; i++ {
		body := noise(uint64(i), size)
		sent[digest(body)] = i
		ch := s.broker.Channel(t)
		done := make(chan error, 1)
		go func() { done <- harness.TryPublishConfirmed(ch, "", "killed", body) }()
		time.Sleep(2 * takes * time.Duration(i) / time.Duration(kills))
		s.broker.Kill9()
		confirmed[i] = <-done == nil
		s.broker.Launch(t)
	}
	ch = s.broker.Channel(t)
	seen := map[int]bool{}
	for {
		var d amqp.Delivery
		ok := false
		harness.Eventually(t, 3*time.Minute, func() (err error) { // the queue may still read its log
			if d, ok, err = ch.Get("killed", false); err != nil {
				ch = s.broker.Channel(t)
			}
			return err
		})
		if !ok {
			break
		}
		if err := d.Ack(false); err != nil {
			t.Fatal(err)
		}
		i, known := sent[digest(d.Body)]
		if !known || seen[i] {
			t.Errorf("a message of %d bytes was never sent, or came before", len(d.Body))
		}
		seen[i] = true
	}
	for i := range kills + 1 {
		if confirmed[i] && !seen[i] {
			t.Errorf("message %d was confirmed and is lost", i)
		}
	}
	t.Logf("%d of %d are there", len(seen), kills+1)
}
