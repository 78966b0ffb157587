package bench

import (
	"fmt"
	"math"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/amqplink"
)

// Limits of a run.
const (
	workersMax   = math.MaxUint16 // producers must fit the stamp
	bodyBytesMax = 512 << 20      // the protocol's largest body
	windowMax    = 1 << 20        // unconfirmed messages of a producer: their times are kept
	queuesMax    = 100_000
)

// Config says what to run.
type Config struct {
	Target    amqplink.Target // Timeout also bounds a time without progress
	Producers int
	Consumers int
	BodyBytes int
	Prefetch  int     // unacknowledged messages of a consumer; 0 is no limit
	Window    int     // unconfirmed messages of a producer; 0 publishes without confirms
	AckEvery  int     // one acknowledgement for so many messages
	Rate      float64 // messages per second and producer; 0 is as fast as possible

	Warmup   time.Duration // not measured
	Duration time.Duration // measured; 0 is until the message limits are reached

	Queue      string // name, or with several queues the front of the names
	QueueCount int
	QueueType  string         // x-queue-type; "" is the broker's choice
	QueueArgs  map[string]any // further arguments
	Keep       bool           // do not delete queues that the run declared

	AutoAck          bool
	Persistent       bool
	ProducerMessages uint64 // per producer; 0 is no limit
	ConsumerMessages uint64 // per consumer; 0 is no limit

	// Progress, when set, is called about once a second.
	Progress func(Interval)
	// Notice, when set, gets remarks for the user.
	Notice func(text string)
}

// Interval is what happened in about one second.
type Interval struct {
	Phase     string // warm-up, measure, drain
	At        time.Duration
	Published float64 // per second, as all rates
	Confirmed float64
	Consumed  float64
	P50Nanos  int64
	P99Nanos  int64
}

// Validate returns what is wrong with a configuration, for the user.
func (c *Config) Validate() error {
	switch {
	case c.Producers < 0 || c.Producers > workersMax || c.Consumers < 0 || c.Consumers > workersMax:
		return fmt.Errorf("producers and consumers must be 0 to %d", workersMax)
	case c.Producers == 0 && c.Consumers == 0:
		return fmt.Errorf("nothing to do without producers and consumers")
	case c.BodyBytes < stampBytes || c.BodyBytes > bodyBytesMax:
		return fmt.Errorf("the size must be %d (room for number and time) to %d bytes", stampBytes, bodyBytesMax)
	case c.Prefetch < 0 || c.Prefetch > math.MaxUint16:
		return fmt.Errorf("the prefetch must be 0 (no limit) to %d", math.MaxUint16)
	case c.Window < 0 || c.Window > windowMax:
		return fmt.Errorf("the confirm window must be 0 (no confirms) to %d", windowMax)
	case c.AckEvery < 1:
		return fmt.Errorf("one acknowledgement must be for at least one message")
	case c.Prefetch > 0 && c.AckEvery > c.Prefetch && !c.AutoAck:
		return fmt.Errorf("one acknowledgement for %d messages never comes with a prefetch of %d", c.AckEvery, c.Prefetch)
	case c.Rate < 0 || math.IsNaN(c.Rate) || math.IsInf(c.Rate, 0):
		return fmt.Errorf("the rate must be 0 (no limit) or more")
	case c.Warmup < 0 || c.Duration < 0:
		return fmt.Errorf("times must not be negative")
	case c.QueueCount < 1 || c.QueueCount > queuesMax:
		return fmt.Errorf("the number of queues must be 1 to %d", queuesMax)
	case c.Duration == 0 && (c.Producers == 0 || c.ProducerMessages == 0) && (c.Consumers == 0 || c.ConsumerMessages == 0):
		return fmt.Errorf("a run without a duration needs a number of messages")
	case c.Producers > 0 && c.Consumers > 0 && c.Consumers < min(c.Producers, c.QueueCount):
		return fmt.Errorf("%d consumers cannot empty %d queues", c.Consumers, min(c.Producers, c.QueueCount))
	case c.Producers == 0 && c.Queue == "":
		return fmt.Errorf("consumers alone need the name of a queue")
	}
	return nil
}

// queueName returns the name of queue i.
func (c *Config) queueName(i int) string {
	if c.QueueCount == 1 {
		return c.Queue
	}
	return fmt.Sprintf("%s-%d", c.Queue, i%c.QueueCount+1)
}
