package limits

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/e2e/harness"
)

// diskBytes is what the files below a directory take on disk. What goes meanwhile does not count.
func diskBytes(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			sum += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return nil
	})
	return sum
}

// TestOldMessagePinsNoDisk: one message of a busy queue and one of an idle queue stay unacknowledged while much passes through the busy one. The disk has what the log keeps for itself, 64 MiB, and twice what lives.
func TestOldMessagePinsNoDisk(t *testing.T) {
	const size, window = 16 << 10, 256
	through := 600 << 20
	if harness.Full() {
		through = 5 << 30
	}
	b := harness.Start(t, harness.Options{Patience: 20 * time.Minute})
	held := make([]amqp.Delivery, 2)
	for i, queue := range []string{"busy", "idle"} {
		b.FreshQueue(t, queue, harness.Quorum)
		harness.PublishConfirmed(t, b.Channel(t), "", queue, stampedBody(uint32(i), size))
		ch := b.Channel(t)
		deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		held[i] = harness.Receive(t, deliveries)
		if err := ch.Cancel(held[i].ConsumerTag, false); err != nil { // what it has stays unacknowledged
			t.Fatal(err)
		}
	}
	in, out := b.Channel(t), b.Channel(t)
	if err := out.Qos(window, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := out.Consume("busy", "", false, false, false, false, nil)
	if err == nil {
		err = in.Confirm(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	body := stampedBody(7, size)
	const most = limits.WALFilesBytes + 64<<20 + 2*(2*window+2)*size
	peak, n := int64(0), through/size
	for sent := 0; sent < n; sent += window {
		confirms := make([]*amqp.DeferredConfirmation, window)
		for i := range confirms {
			if confirms[i], err = in.PublishWithDeferredConfirm("", "busy", false, false, amqp.Publishing{Body: body, DeliveryMode: amqp.Persistent}); err != nil {
				t.Fatal(err)
			}
		}
		var last amqp.Delivery
		for range window {
			last = harness.Receive(t, deliveries)
		}
		if err := last.Ack(true); err != nil {
			t.Fatal(err)
		}
		for _, c := range confirms {
			if !c.Wait() {
				t.Fatal("a nack")
			}
		}
		peak = max(peak, diskBytes(b.DataDir))
	}
	t.Logf("at most %d MiB on disk while %d MiB passed, in the end %d MiB; wanted at most %d", peak>>20, through>>20, diskBytes(b.DataDir)>>20, int64(most)>>20)
	if peak > most {
		t.Errorf("%d MiB are on disk, want at most %d", peak>>20, int64(most)>>20)
	}
	for _, d := range held {
		if err := d.Ack(false); err != nil {
			t.Error(err)
		}
	}
}
