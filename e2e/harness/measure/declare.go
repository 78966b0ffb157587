package measure

import (
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// Times are measured durations in rising order.
type Times []time.Duration

// Quantile returns the duration below which a share q of the measurements lies.
func (t Times) Quantile(q float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	return t[min(int(q*float64(len(t))), len(t)-1)]
}

// String shows the usual quantiles.
func (t Times) String() string {
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
	return fmt.Sprintf("%d measured: median %v, p90 %v, p99 %v, longest %v", len(t), round(t.Quantile(0.5)), round(t.Quantile(0.9)), round(t.Quantile(0.99)),
		round(t.Quantile(1)))
}

// Declares measures count declares of new durable queues, one after the other on one connection, and deletes the queues.
func Declares(url, queueType string, count int) (Times, error) {
	conn, err := harness.Dial(url)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	prefix := fmt.Sprintf("measure-declare-%d-", time.Now().UnixNano())
	times := make(Times, 0, count)
	for i := range count {
		began := time.Now()
		if _, err := ch.QueueDeclare(fmt.Sprint(prefix, i), true, false, false, false, amqp.Table{amqp.QueueTypeArg: queueType}); err != nil {
			return nil, fmt.Errorf("declare %d of %d: %w", i+1, count, err)
		}
		times = append(times, time.Since(began))
	}
	for i := range count {
		if _, err := ch.QueueDelete(fmt.Sprint(prefix, i), false, false, false); err != nil {
			return nil, fmt.Errorf("delete %d of %d: %w", i+1, count, err)
		}
	}
	slices.Sort(times)
	return times, nil
}
