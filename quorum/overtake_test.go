package quorum

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// batchLog is a target that takes every batch and notes its commands.
type batchLog struct {
	batches [][]queue.Command
}

func (r *batchLog) propose(_ queue.PipelineID, k uint64, buf []byte) (ticket, bool, error) {
	var b queue.Batch
	if err := queue.DecodeBatch(buf, &b); err != nil {
		return nil, false, err
	}
	if k != uint64(len(r.batches))+1 {
		return nil, false, errGap
	}
	var cmds []queue.Command
	rest := b.Commands
	for range b.Count {
		var c queue.Command
		var err error
		if rest, err = queue.DecodeCommand(rest, &c); err != nil {
			return nil, false, err
		}
		c.Envelope = nil
		cmds = append(cmds, c)
	}
	r.batches = append(r.batches, cmds)
	return nil, false, nil
}

func (r *batchLog) reset(queue.PipelineID)          {}
func (r *batchLog) attach(attachRequest, sink) bool { return true }

// line describes a batch: the session of each command, in capitals if it stores a message.
func (r *batchLog) line(i int) string {
	var s []byte
	for _, c := range r.batches[i] {
		letter := byte('a' + c.Session - 1)
		if c.Op == queue.OpEnqueue {
			letter -= 'a' - 'A'
		}
		s = append(s, letter)
	}
	return string(s)
}

// jam is a pipeline whose batches are answered one by one.
type jam struct {
	t        *testing.T
	p        *pipeline
	log      *batchLog
	sessions []*Session
	answered uint64
}

func newJam(t *testing.T, sessions int) *jam {
	h := &Host{clock: newClock(nil, nil), closed: make(chan struct{}), log: slog.New(slog.DiscardHandler), node: 1, boot: meta.Boot{Counter: 1, Nonce: 2}}
	j := &jam{t: t, p: newPipeline(h, 1024), log: &batchLog{}}
	j.p.start(j.log)
	for i := range sessions {
		j.sessions = append(j.sessions, &Session{host: h, id: queue.SessionID(i + 1), recv: &counter{}})
	}
	return j
}

// submit submits a command of session i and flushes.
func (j *jam) submit(i int, cmd queue.Command) {
	j.t.Helper()
	cmd.Session = j.sessions[i].id
	if err := j.p.submit(j.sessions[i], &cmd, 0); err != nil {
		j.t.Fatal(err)
	}
	j.p.flush()
}

func (j *jam) publish(i, bytes int) {
	j.t.Helper()
	j.submit(i, queue.Command{Op: queue.OpEnqueue, Envelope: make([]byte, bytes)})
}

func (j *jam) answer() {
	j.answered++
	j.p.answered(j.answered, nil)
}

// TestConsumerWaitsBehindMegabytes: what a consumer says is in the batch that is sent next, not behind all that others publish, unless it has published itself.
func TestConsumerWaitsBehindMegabytes(t *testing.T) {
	j := newJam(t, 2)
	j.submit(1, queue.Command{Op: queue.OpSubscribe, Consumer: 1})
	for range 8 {
		j.publish(0, limits.BatchBytesMax)
	}
	j.submit(1, queue.Command{Op: queue.OpDrained, To: 1})
	j.submit(1, queue.Command{Op: queue.OpSettle, From: 1, To: 1, Outcome: queue.OutcomeAck})
	j.publish(1, 1)
	j.submit(1, queue.Command{Op: queue.OpDrained, To: 2})
	for range 20 {
		j.answer()
	}
	var got []string
	for i := range j.log.batches {
		got = append(got, j.log.line(i))
	}
	if want := "[b A A b b A A A A A A Bb]"; fmt.Sprint(got) != want {
		t.Errorf("the batches are %s, want %s", got, want)
	}
}

// TestOvertakenOnlyByOthers: at any mix, a session's commands keep their order, every one is sent, and of two batches one has messages as long as some wait.
func TestOvertakenOnlyByOthers(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 9))
		j := newJam(t, 5)
		submitted := make([]uint64, len(j.sessions))
		total := 0
		for range 400 {
			if rng.IntN(4) == 0 && int(j.answered) < len(j.log.batches) {
				j.answer()
				continue
			}
			i := rng.IntN(len(j.sessions))
			submitted[i]++
			total++
			cmd := queue.Command{To: submitted[i]} // the number of the command, in whatever field
			switch kind := rng.IntN(6); {
			case i == 0 || kind == 0:
				cmd.Op, cmd.BodyBytes, cmd.Envelope = queue.OpEnqueue, uint32(submitted[i]), make([]byte, rng.IntN(limits.BatchBytesMax/(1+99*rng.IntN(2))))
			case kind == 1:
				cmd.Op, cmd.Consumer = queue.OpSubscribe, queue.ConsumerID(submitted[i])
			case kind == 2:
				cmd.Op, cmd.Outcome, cmd.From = queue.OpSettle, queue.OutcomeAck, 1
			default:
				cmd.Op = queue.OpDrained
			}
			j.submit(i, cmd)
		}
		for int(j.answered) < len(j.log.batches) {
			j.answer()
		}
		inOrder(t, seed, j.log, total)
	}
}

func inOrder(t *testing.T, seed uint64, log *batchLog, total int) {
	t.Helper()
	last := map[queue.SessionID]uint64{}
	for i, cmds := range log.batches {
		for _, c := range cmds {
			number := c.To
			switch c.Op {
			case queue.OpEnqueue:
				number = uint64(c.BodyBytes)
			case queue.OpSubscribe:
				number = uint64(c.Consumer)
			}
			if number != last[c.Session]+1 {
				t.Fatalf("seed %d: batch %d has command %d of session %d behind %d", seed, i+1, number, c.Session, last[c.Session])
			}
			last[c.Session] = number
			total--
		}
	}
	if total != 0 {
		t.Fatalf("seed %d: %d commands were not sent", seed, total)
	}
}
