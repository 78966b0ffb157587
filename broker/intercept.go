package broker

import (
	"time"

	"github.com/warrenmq/warren/amqp"
)

// The headers that an interceptor sets, as RabbitMQ's.
const (
	headerTimestamp = "timestamp_in_ms"
	headerRoutedBy  = "x-routed-by"
)

// Stamps make Options.Intercept of the settings message_interceptors.incoming: what is set where it is missing, and where it is not.
type Stamps struct {
	// Time sets the header timestamp_in_ms and the property timestamp, Node the header x-routed-by to that name unless it is empty.
	Time bool
	Node string
	// OverTime and OverNode replace what is there.
	OverTime, OverNode bool
}

// Intercept is for Options.Intercept; nil if there is nothing to set. now is the time in milliseconds.
func (s Stamps) Intercept(now func() int64) func([]byte) []byte {
	if !s.Time && s.Node == "" {
		return nil
	}
	return func(properties []byte) []byte {
		p, err := amqp.DecodeProperties(properties)
		if err != nil {
			return properties // publishing it says what is wrong
		}
		headers := p.Headers
		set := func(name string, over bool, v amqp.Value) {
			if _, has := headers.Get(name); !has || over {
				headers = headers.Set(name, v)
			}
		}
		if s.Time {
			millis := now()
			set(headerTimestamp, s.OverTime, amqp.Int64(millis))
			if p.Flags&amqp.FlagTimestamp == 0 || s.OverTime {
				p.SetTimestamp(uint64(millis / 1000))
			}
		}
		if s.Node != "" {
			set(headerRoutedBy, s.OverNode, amqp.Longstr(s.Node))
		}
		p.SetHeaders(headers)
		return p.Append(nil)
	}
}

// WallMillis is the time for Stamps.
func WallMillis() int64 { return time.Now().UnixMilli() }
