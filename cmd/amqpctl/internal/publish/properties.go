package publish

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/warrenmq/warren/amqp"
)

// property sets one property from the text of the command line.
type property func(p *amqp.Properties, text string) error

// properties is the table of names that --prop knows.
var properties = map[string]property{
	"content-type":     text((*amqp.Properties).SetContentType),
	"content-encoding": text((*amqp.Properties).SetContentEncoding),
	"correlation-id":   text((*amqp.Properties).SetCorrelationID),
	"reply-to":         text((*amqp.Properties).SetReplyTo),
	"message-id":       text((*amqp.Properties).SetMessageID),
	"type":             text((*amqp.Properties).SetType),
	"user-id":          text((*amqp.Properties).SetUserID),
	"app-id":           text((*amqp.Properties).SetAppID),
	"expiration":       expiration,
	"priority":         priority,
	"timestamp":        timestamp,
	"delivery-mode":    deliveryMode,
}

// PropertyNames are the names that SetProperties knows, in an order for people.
const PropertyNames = "content-type, content-encoding, priority, expiration, message-id, correlation-id, reply-to, type, app-id, user-id, timestamp, delivery-mode"

// SetProperties reads NAME=VALUE words into p.
func SetProperties(p *amqp.Properties, words []string) error {
	seen := map[string]bool{}
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=VALUE", word)
		}
		set, known := properties[name]
		if !known {
			return fmt.Errorf("unknown property %q, there are %s", name, PropertyNames)
		}
		if seen[name] {
			return fmt.Errorf("property %s is given twice", name)
		}
		seen[name] = true
		if err := set(p, value); err != nil {
			return fmt.Errorf("property %s: %w", name, err)
		}
	}
	return nil
}

func text(set func(*amqp.Properties, string)) property {
	return func(p *amqp.Properties, value string) error {
		if len(value) > amqp.ShortstrBytesMax {
			return fmt.Errorf("longer than %d bytes", amqp.ShortstrBytesMax)
		}
		set(p, value)
		return nil
	}
}

// expiration is a number of milliseconds as text; a duration such as 30s is converted.
func expiration(p *amqp.Properties, value string) error {
	if _, err := strconv.ParseUint(value, 10, 32); err == nil {
		p.SetExpiration(value)
		return nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is neither milliseconds nor a time such as 30s", value)
	}
	p.SetExpiration(strconv.FormatInt(d.Milliseconds(), 10))
	return nil
}

func priority(p *amqp.Properties, value string) error {
	n, err := strconv.ParseUint(value, 10, 8)
	if err != nil {
		return fmt.Errorf("%q is not 0 to 255", value)
	}
	p.SetPriority(uint8(n))
	return nil
}

// timestamp is seconds since 1970 or an RFC 3339 time.
func timestamp(p *amqp.Properties, value string) error {
	if n, err := strconv.ParseUint(value, 10, 63); err == nil {
		p.SetTimestamp(n)
		return nil
	}
	t, err := time.Parse(time.RFC3339, value)
	if err != nil || t.Unix() < 0 {
		return fmt.Errorf("%q is neither seconds since 1970 nor a time such as 2006-01-02T15:04:05Z", value)
	}
	p.SetTimestamp(uint64(t.Unix()))
	return nil
}

func deliveryMode(p *amqp.Properties, value string) error {
	switch value {
	case "1", "transient":
		p.SetDeliveryMode(1)
	case "2", "persistent":
		p.SetDeliveryMode(2)
	default:
		return fmt.Errorf("%q is neither 1 (transient) nor 2 (persistent)", value)
	}
	return nil
}
