package management

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// Messages that are to be ready later, of a queue or of an x-delayed-message exchange: a list in the order in which they are due, one of them, and what cancels them or makes them ready now. A message is named by
// when it is due and its seq, MILLIS-SEQ. A list goes on behind the name that its answer calls next, so that no message is missed or shown twice that is there all the while.

// delayedName names a delayed message.
func delayedName(x broker.DelayedID) string { return fmt.Sprintf("%d-%d", x.UntilMillis, x.Seq) }

func parseDelayedName(text string) (x broker.DelayedID, err error) {
	until, seq, _ := strings.Cut(text, "-")
	millis, err := strconv.ParseUint(until, 10, 62)
	if err == nil {
		var n uint64
		n, err = strconv.ParseUint(seq, 10, 62)
		x = broker.DelayedID{UntilMillis: int64(millis), Seq: queue.Seq(n)}
	}
	if err != nil {
		return x, badRequestf("%s is no name of a delayed message", text)
	}
	return x, nil
}

// delayedOf finds the queue of the path in which messages wait: the one that is named, or that of the exchange that is.
// Who cancels messages or has them delivered, changes, must be allowed to do what purges, or what publishes to the exchange.
func (c *call) delayedOf(ofExchange, changes bool) (*meta.Queue, error) {
	vhost, name := c.params[0], c.params[1]
	if err := c.changeVHost(vhost); err != nil {
		return nil, err
	}
	what, q, access := queueResource(vhost, name), c.view.Queue(vhost, name), meta.Read
	if ofExchange {
		what, q = exchangeResource(vhost, name), c.view.Relay(vhost, name)
		if changes {
			access = meta.Write
		}
	}
	if q == nil {
		return nil, objectNotFound()
	}
	if q.Exclusive && changes {
		return nil, locked(what)
	}
	return q, c.may(access, what)
}

// listDelayed is GET .../delayed.
func listDelayed(ofExchange bool) handler {
	return func(c *call) error {
		q, err := c.delayedOf(ofExchange, false)
		if err != nil {
			return err
		}
		l := look{delayed: true, count: peekCountDefault}
		if text := c.query.Get("count"); text != "" {
			if l.count, err = strconv.Atoi(text); err != nil || l.count < 1 || l.count > limits.PeekMessagesMax {
				return badRequestf("count must be from 1 to %d", limits.PeekMessagesMax)
			}
		}
		if text := c.query.Get("after"); text != "" {
			if l.from, err = parseDelayedName(text); err != nil {
				return err
			}
			l.from.Seq++
		}
		seen, err := c.peekAnywhere(q, &l)
		if err != nil {
			return err
		}
		return c.object(http.StatusOK, func(w *writer) {
			if w.Array("items") {
				for i := range seen.messages {
					w.Object("")
					writeDelayed(w, &seen.messages[i])
					w.End()
				}
				w.EndArray()
			}
			w.Uint("total", seen.total)
			if n := len(seen.messages); n > 0 {
				w.Str("next", delayedName(seen.messages[n-1].delayed))
			} else {
				w.Null("next")
			}
			w.Uint("applied", seen.applied)
		})
	}
}

// getDelayed is GET .../delayed/ID: a message with its payload.
func getDelayed(ofExchange bool) handler {
	return func(c *call) error {
		q, err := c.delayedOf(ofExchange, false)
		if err != nil {
			return err
		}
		l := look{delayed: true, count: 1, truncate: peekTruncateDefault, auto: c.query.Get("encoding") != "base64"}
		if l.from, err = parseDelayedName(c.params[2]); err != nil {
			return err
		}
		if text := c.query.Get("truncate"); text != "" {
			if l.truncate, err = strconv.Atoi(text); err != nil || l.truncate < 0 || l.truncate > limits.PeekBytesMax {
				return badRequestf("truncate must be from 0 to %d", limits.PeekBytesMax)
			}
		}
		seen, err := c.peekAnywhere(q, &l)
		switch {
		case err != nil:
			return err
		case len(seen.messages) == 0 || seen.messages[0].delayed != l.from:
			return objectNotFound()
		}
		return c.object(http.StatusOK, func(w *writer) {
			m := &seen.messages[0]
			writeDelayed(w, m)
			writeProperties(w, m.properties)
			payload := m.payload
			cut := uint64(len(payload)) < m.bodyBytes
			if cut && l.auto {
				payload = wholeRunes(payload)
			}
			writePayload(w, payload, l.auto)
			w.Bool("truncated", cut)
		})
	}
}

func writeDelayed(w *writer, m *sighting) {
	w.Str("id", delayedName(m.delayed))
	w.Uint("due", uint64(m.delayed.UntilMillis))
	w.Uint("seconds_left", uint64(max(0, m.delayed.UntilMillis-time.Now().UnixMilli())/1000))
	w.Str("exchange", m.exchange)
	w.Str("routing_key", m.key)
	if m.messageID == "" {
		w.Null("message_id")
	} else {
		w.Str("message_id", m.messageID)
	}
	w.Uint("payload_bytes", m.bodyBytes)
	w.Uint("delivery_count", m.deliveryCount)
}

// deleteDelayed is DELETE .../delayed/ID.
func deleteDelayed(ofExchange bool) handler {
	return func(c *call) error {
		q, err := c.delayedOf(ofExchange, true)
		if err != nil {
			return err
		}
		id, err := parseDelayedName(c.params[2])
		if err != nil {
			return err
		}
		n, err := c.s.opt.Broker.PickDelayed(c.r.Context(), q, broker.Pick{IDs: []broker.DelayedID{id}})
		switch {
		case err != nil:
			return amqpFailure(err, queueResource(q.VHost, q.Name))
		case n == 0:
			return objectNotFound()
		}
		return c.empty(http.StatusNoContent)
	}
}

// pickDelayed is POST .../delayed/cancel and .../delayed/deliver: of the messages that the body names, or of all that are delayed now. Those that are not delayed any more are passed over.
func pickDelayed(ofExchange, deliver bool) handler {
	return func(c *call) error {
		q, err := c.delayedOf(ofExchange, true)
		if err != nil {
			return err
		}
		b, err := c.readBody()
		if err != nil {
			return err
		}
		all, err := b.bool("all", false)
		if err != nil {
			return err
		}
		var names []string
		if b.has("ids") && json.Unmarshal(b["ids"], &names) != nil {
			return badRequest("ids must be a list of strings")
		}
		if all == (len(names) > 0) || len(names) > limits.PeekMessagesMax {
			return badRequestf("Either ids, at most %d, or all must be given.", limits.PeekMessagesMax)
		}
		p := broker.Pick{Deliver: deliver, All: all}
		for _, name := range names {
			id, err := parseDelayedName(name)
			if err != nil {
				return err
			}
			p.IDs = append(p.IDs, id)
		}
		n, err := c.s.opt.Broker.PickDelayed(c.r.Context(), q, p)
		if err != nil {
			return amqpFailure(err, queueResource(q.VHost, q.Name))
		}
		return c.object(http.StatusOK, func(w *writer) { w.Uint("messages", n) })
	}
}
