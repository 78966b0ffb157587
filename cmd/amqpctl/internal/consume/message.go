package consume

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"unicode/utf8"

	"github.com/warrenmq/warren/amqp"
)

// Message is one delivery.
type Message struct {
	Exchange    string
	RoutingKey  string
	Redelivered bool
	Properties  []byte // as on the wire
	Body        []byte
	tag         uint64
}

// Format writes a message.
type Format func(w io.Writer, m *Message) error

// Formats are the values of --format.
var Formats = map[string]Format{"body": writeBody, "raw": writeRaw, "json": writeJSON}

// writeBody writes the body and a newline.
func writeBody(w io.Writer, m *Message) error {
	if _, err := w.Write(m.Body); err != nil {
		return err
	}
	_, err := w.Write([]byte{'\n'})
	return err
}

// writeRaw writes the body and nothing else.
func writeRaw(w io.Writer, m *Message) error {
	_, err := w.Write(m.Body)
	return err
}

// object has the keys of the message objects of the HTTP API (POST /api/queues/VHOST/QUEUE/get).
type object struct {
	PayloadBytes    int            `json:"payload_bytes"`
	Redelivered     bool           `json:"redelivered"`
	Exchange        string         `json:"exchange"`
	RoutingKey      string         `json:"routing_key"`
	Properties      map[string]any `json:"properties"`
	Payload         string         `json:"payload"`
	PayloadEncoding string         `json:"payload_encoding"`
}

// writeJSON writes one object on one line. A body that is not text is base64.
func writeJSON(w io.Writer, m *Message) error {
	properties, err := amqp.DecodeProperties(m.Properties)
	if err != nil {
		return err
	}
	o := object{
		PayloadBytes: len(m.Body), Redelivered: m.Redelivered, Exchange: m.Exchange, RoutingKey: m.RoutingKey,
		Properties: propertyMap(&properties), Payload: string(m.Body), PayloadEncoding: "string",
	}
	if !utf8.Valid(m.Body) {
		o.Payload, o.PayloadEncoding = base64.StdEncoding.EncodeToString(m.Body), "base64"
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(o)
}

// propertyMap names the properties that are set as the HTTP API does.
func propertyMap(p *amqp.Properties) map[string]any {
	out := map[string]any{}
	put := func(flag amqp.PropertyFlags, name string, value any) {
		if p.Flags.Has(flag) {
			out[name] = value
		}
	}
	put(amqp.FlagContentType, "content_type", p.ContentType)
	put(amqp.FlagContentEncoding, "content_encoding", p.ContentEncoding)
	put(amqp.FlagHeaders, "headers", p.Headers.ToMap())
	put(amqp.FlagDeliveryMode, "delivery_mode", p.DeliveryMode)
	put(amqp.FlagPriority, "priority", p.Priority)
	put(amqp.FlagCorrelationID, "correlation_id", p.CorrelationID)
	put(amqp.FlagReplyTo, "reply_to", p.ReplyTo)
	put(amqp.FlagExpiration, "expiration", p.Expiration)
	put(amqp.FlagMessageID, "message_id", p.MessageID)
	put(amqp.FlagTimestamp, "timestamp", p.Timestamp)
	put(amqp.FlagType, "type", p.Type)
	put(amqp.FlagUserID, "user_id", p.UserID)
	put(amqp.FlagAppID, "app_id", p.AppID)
	put(amqp.FlagClusterID, "cluster_id", p.ClusterID)
	return out
}
