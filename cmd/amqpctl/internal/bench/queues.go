package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/lean"
)

// settleTime bounds the wait for a broker to count the last acknowledgements, if the time-out of the run is not shorter.
const settleTime = 5 * time.Second

// settleStep is the pause between two looks at the count.
const settleStep = 50 * time.Millisecond

// queues are the queues of a run, handled over a connection of their own.
type queues struct {
	conn     *lean.Conn
	cfg      *Config
	declared []string // by this run, which therefore deletes them
	before   uint64   // messages that were there already
}

// open connects and declares what does not exist yet. A queue that exists is used as it is.
func (q *queues) open(ctx context.Context) error {
	conn, err := lean.Dial(ctx, q.cfg.Target)
	if err != nil {
		return err
	}
	q.conn = conn
	arguments := map[string]any{}
	for k, v := range q.cfg.QueueArgs {
		arguments[k] = v
	}
	if q.cfg.QueueType != "" {
		arguments["x-queue-type"] = q.cfg.QueueType
	}
	encoded, err := amqp.TableFromMap(arguments)
	if err != nil {
		return exit.Errorf(exit.Usage, "arguments of the queue: %w", err)
	}
	for i := range q.cfg.QueueCount {
		if err := q.ensure(q.cfg.queueName(i), encoded); err != nil {
			return err
		}
	}
	return nil
}

func (q *queues) ensure(name string, arguments amqp.Table) error {
	ready, err := q.count(name)
	if err == nil {
		q.before += ready
		if ready > 0 && q.cfg.Notice != nil {
			q.cfg.Notice(fmt.Sprintf("queue %q already holds %d messages; they are counted as foreign", name, ready))
		}
		return nil
	}
	if exit.Of(err) != exit.Data {
		return err
	}
	if err := q.conn.Reopen(); err != nil {
		return err
	}
	declare := &amqp.QueueDeclare{Queue: name, Durable: true, Arguments: arguments}
	if err := q.conn.Call(lean.Channel, declare, &amqp.QueueDeclareOk{}); err != nil {
		return exit.Wrap(err, "declare queue %q", name)
	}
	q.declared = append(q.declared, name)
	return nil
}

// count returns the ready messages of a queue.
func (q *queues) count(name string) (uint64, error) {
	var ok amqp.QueueDeclareOk
	err := q.conn.Call(lean.Channel, &amqp.QueueDeclare{Queue: name, Passive: true}, &ok)
	return uint64(ok.MessageCount), err
}

// left returns the ready messages of all queues once they are the expected number, or some time later whatever they are. Without consumers
// those that were there before are not counted.
func (q *queues) left(expected uint64) (uint64, error) {
	for deadline := time.Now().Add(min(settleTime, q.cfg.Target.Timeout)); ; {
		var total uint64
		for i := range q.cfg.QueueCount {
			n, err := q.count(q.cfg.queueName(i))
			if err != nil {
				return 0, err
			}
			total += n
		}
		if q.cfg.Consumers == 0 {
			total -= min(total, q.before)
		}
		if total == expected || time.Now().After(deadline) {
			return total, nil
		}
		pause(settleStep)
	}
}

// close deletes what the run declared and says farewell.
func (q *queues) close() {
	if q.conn == nil {
		return
	}
	for _, name := range q.declared {
		if q.cfg.Keep {
			break
		}
		if err := q.conn.Call(lean.Channel, &amqp.QueueDelete{Queue: name}, &amqp.QueueDeleteOk{}); err != nil {
			if q.cfg.Notice != nil {
				q.cfg.Notice(fmt.Sprintf("queue %q could not be deleted: %s", name, exit.Text(err)))
			}
			break
		}
	}
	q.conn.Close()
}
