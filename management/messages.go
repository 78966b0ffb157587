package management

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"unicode/utf8"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/broker"
)

// getCountMax bounds how many messages one request gets; a larger count is cut to it. The broker bounds their bytes.
const getCountMax = 10_000

// publish is POST /exchanges/VHOST/NAME/publish.
func publish(c *call) error {
	vhost, name := c.params[0], exchangeName(c.params[1])
	if err := c.changeVHost(vhost); err != nil {
		return err
	}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	if err := b.require("routing_key", "properties", "payload", "payload_encoding"); err != nil {
		return err
	}
	key, err := b.text("routing_key", "")
	if err != nil {
		return err
	}
	if len(key) > amqp.ShortstrBytesMax {
		return badRequestf("routing_key is longer than %d bytes", amqp.ShortstrBytesMax)
	}
	payload, err := b.payload()
	if err != nil {
		return err
	}
	properties, err := b.properties(c)
	if err != nil {
		return err
	}
	routed, err := c.s.opt.Broker.Publish(c.r.Context(), c.user.Name, vhost, name, key, properties.Append(nil), payload)
	if err != nil {
		return publishFailure(err, exchangeResource(vhost, name))
	}
	return c.object(http.StatusOK, func(w *writer) { w.Bool("routed", routed) })
}

// payload reads the payload in its encoding.
func (b body) payload() ([]byte, error) {
	encoding, err := b.text("payload_encoding", "")
	if err != nil {
		return nil, err
	}
	var text string
	if json.Unmarshal(b["payload"], &text) != nil {
		return nil, badRequest("payload_not_string")
	}
	switch encoding {
	case "string":
		return []byte(text), nil
	case "base64":
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, badRequestWords("not_base64", plainJSON(b["payload"]))
		}
		return data, nil
	}
	return nil, badRequestWords("unsupported_encoding", plainJSON(b["payload_encoding"]))
}

// properties reads the properties of a message. Unknown ones are ignored.
func (b body) properties(c *call) (*amqp.Properties, error) {
	var in body
	if raw := b["properties"]; string(raw) != "[]" && json.Unmarshal(raw, &in) != nil {
		return nil, badRequest("properties must be an object")
	}
	p := new(amqp.Properties)
	for _, f := range [...]struct {
		key string
		set func(string)
	}{
		{"content_type", p.SetContentType}, {"content_encoding", p.SetContentEncoding}, {"correlation_id", p.SetCorrelationID}, {"reply_to", p.SetReplyTo},
		{"expiration", p.SetExpiration}, {"message_id", p.SetMessageID}, {"type", p.SetType}, {"user_id", p.SetUserID}, {"app_id", p.SetAppID},
		{"cluster_id", p.SetClusterID},
	} {
		if !in.has(f.key) {
			continue
		}
		text, err := in.text(f.key, "")
		if err != nil {
			return nil, err
		}
		if len(text) > amqp.ShortstrBytesMax {
			return nil, badRequestf("property %s is longer than %d bytes", f.key, amqp.ShortstrBytesMax)
		}
		f.set(text)
	}
	if user, err := in.text("user_id", ""); err == nil && in.has("user_id") && user != c.user.Name && !c.user.HasTag("impersonator") {
		return nil, badRequestf("406 PRECONDITION_FAILED - user_id property set to '%s' but authenticated user was '%s'", user, c.user.Name)
	}
	return p, in.numbers(p)
}

// numbers reads the properties that are no strings.
func (b body) numbers(p *amqp.Properties) error {
	mode, err := b.property("delivery_mode", math.MaxUint8)
	if err != nil {
		return err
	}
	if b.has("delivery_mode") {
		p.SetDeliveryMode(uint8(mode))
	}
	priority, err := b.property("priority", math.MaxUint8)
	if err != nil {
		return err
	}
	if b.has("priority") {
		p.SetPriority(uint8(priority))
	}
	timestamp, err := b.property("timestamp", math.MaxInt64)
	if err != nil {
		return err
	}
	if b.has("timestamp") {
		p.SetTimestamp(timestamp)
	}
	headers, err := b.table("headers")
	if err != nil {
		return err
	}
	if b.has("headers") {
		p.SetHeaders(headers)
	}
	return nil
}

// property reads a whole number of at most most; 0 if there is none.
func (b body) property(key string, most uint64) (uint64, error) {
	if !b.has(key) {
		return 0, nil
	}
	var n uint64
	if json.Unmarshal(b[key], &n) != nil {
		return 0, badRequestWords("not_int", key)
	}
	if n > most {
		return 0, badRequestf("property %s must be at most %d", key, most)
	}
	return n, nil
}

// settlements are the values of ackmode.
var settlements = map[string]broker.Settlement{
	"ack_requeue_true": broker.Requeue, "ack_requeue_false": broker.Remove, "reject_requeue_true": broker.RejectRequeue, "reject_requeue_false": broker.RejectRemove,
}

// getMessages is POST /queues/VHOST/NAME/get.
func getMessages(c *call) error {
	vhost, name := c.params[0], c.params[1]
	if err := c.changeVHost(vhost); err != nil {
		return err
	}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	if err := b.require("ackmode", "count", "encoding"); err != nil {
		return err
	}
	mode, err := b.text("ackmode", "")
	if err != nil {
		return err
	}
	settlement, ok := settlements[mode]
	if !ok {
		return badRequestWords("unsupported_ackmode", plainJSON(b["ackmode"]))
	}
	count, err := b.int("count", 0, getCountMax)
	if err != nil {
		return err
	}
	encoding, err := b.text("encoding", "")
	if err != nil || encoding != "auto" && encoding != "base64" {
		return badRequest("Unsupported encoding. Please use auto or base64.")
	}
	truncate := math.MaxInt
	if b.has("truncate") {
		if truncate, err = b.int("truncate", 0, math.MaxInt); err != nil {
			return err
		}
	}
	var messages []broker.Message
	if count > 0 {
		if messages, err = c.s.opt.Broker.Get(c.r.Context(), c.user.Name, vhost, name, count, settlement); err != nil {
			return amqpFailure(err, queueResource(vhost, name))
		}
	}
	w := c.answer(http.StatusOK)
	w.Array("")
	for i := range messages {
		w.Object("")
		writeMessage(w, &messages[i], truncate, encoding == "auto")
		w.End()
	}
	w.EndArray()
	w.finish()
	return nil
}

func writeMessage(w *writer, m *broker.Message, truncate int, auto bool) {
	w.Int("payload_bytes", int64(len(m.Body)))
	w.Bool("redelivered", m.Redelivered)
	w.Str("exchange", string(m.Exchange))
	w.Str("routing_key", string(m.RoutingKey))
	w.Uint("message_count", m.Left)
	writeProperties(w, m.Properties)
	writePayload(w, m.Body[:min(len(m.Body), truncate)], auto)
}

// writePayload writes a payload in its encoding: with auto as a string if it is UTF-8.
func writePayload(w *writer, payload []byte, auto bool) {
	if auto && utf8.Valid(payload) {
		w.Bytes("payload", payload)
		w.Str("payload_encoding", "string")
		return
	}
	w.Str("payload", base64.StdEncoding.EncodeToString(payload))
	w.Str("payload_encoding", "base64")
}

// writeProperties writes those properties that the message has.
func writeProperties(w *writer, raw []byte) {
	if !w.Object("properties") {
		return
	}
	defer w.End()
	v, err := amqp.ScanProperties(raw)
	if err != nil {
		return
	}
	for _, f := range [...]struct {
		key string
		get func() ([]byte, bool)
	}{
		{"content_type", v.ContentType}, {"content_encoding", v.ContentEncoding}, {"correlation_id", v.CorrelationID}, {"reply_to", v.ReplyTo},
		{"expiration", v.Expiration}, {"message_id", v.MessageID}, {"type", v.Type}, {"user_id", v.UserID}, {"app_id", v.AppID}, {"cluster_id", v.ClusterID},
	} {
		if text, ok := f.get(); ok {
			w.Bytes(f.key, text)
		}
	}
	if mode, ok := v.DeliveryMode(); ok {
		w.Uint("delivery_mode", uint64(mode))
	}
	if priority, ok := v.Priority(); ok {
		w.Uint("priority", uint64(priority))
	}
	if at, ok := v.Timestamp(); ok {
		w.Uint("timestamp", at)
	}
	if headers, ok := v.Headers(); ok {
		w.Table("headers", headers.Table())
	}
}

// purge is DELETE /queues/VHOST/NAME/contents.
func purge(c *call) error {
	vhost, name := c.params[0], c.params[1]
	if err := c.changeVHost(vhost); err != nil {
		return err
	}
	what := queueResource(vhost, name)
	q := c.view.Queue(vhost, name)
	if q == nil {
		return objectNotFound()
	}
	if q.Exclusive {
		return locked(what)
	}
	if _, err := c.s.opt.Broker.Purge(c.r.Context(), c.user.Name, vhost, name); err != nil {
		return amqpFailure(err, what)
	}
	return c.empty(http.StatusNoContent)
}
