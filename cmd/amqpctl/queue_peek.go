package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/table"

	"github.com/urfave/cli/v2"
)

// States of messages that peek shows.
const (
	stateReady   = "ready"
	stateUnacked = "unacked"
)

// peekBytes is how much of a payload a table asks for: more does not fit on a line.
const peekBytes = 200

func queuePeekCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "peek", Usage: "look at messages of a queue without taking them", ArgsUsage: "QUEUE",
		Description: "Consumers notice nothing: order, redelivered flags and counts stay as they are. POS counts from the head of the queue, from 0. With -o json the answer of\n" +
			"POST /api/queues/VHOST/QUEUE/peek. Only Warren and LavinMQ have it.\n\n" +
			examples("queue peek orders", "queue peek orders --offset 1000 --count 1 --long", "queue peek orders --state unacked"),
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "offset", Usage: "skip `N` messages at the head"},
			&cli.IntFlag{Name: "count", Aliases: []string{"n"}, Value: 20, Usage: "show up to `N` messages"},
			&cli.StringFlag{Name: "state", Value: stateReady, Usage: "`STATE` ready or unacked (delivered, not yet acknowledged)"},
			&cli.IntFlag{Name: "truncate", Usage: "cut payloads to `BYTES`", DefaultText: "200 in a table, else 50000"},
			&cli.BoolFlag{Name: "long", Aliases: []string{"l"}, Usage: "all properties and payloads, message by message"},
		},
		Action: func(c *cli.Context) error {
			s, name, err := oneName(c, std, queueNoun)
			if err != nil {
				return err
			}
			body := map[string]any{"offset": c.Int("offset"), "count": c.Int("count"), "state": c.String("state"), "encoding": "auto"}
			switch state := c.String("state"); {
			case state != stateReady && state != stateUnacked:
				return usagef(c, "unknown --state %q, want ready or unacked", state)
			case c.Int("offset") < 0 || c.Int("count") < 1 || c.Int("truncate") < 0:
				return usagef(c, "--offset and --truncate must not be negative, --count be at least 1")
			case c.IsSet("truncate"):
				body["truncate"] = c.Int("truncate")
			case !s.json && !c.Bool("long"):
				body["truncate"] = peekBytes
			}
			return s.peek(c, name, body)
		},
	}
}

func (s *settings) peek(c *cli.Context, name string, body map[string]any) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	answer, err := api.Ask(c.Context, httpapi.Path("queues", s.vhost, name, "peek"), body)
	if err != nil {
		return exit.Wrap(err, "%s", s.queueName(name))
	}
	if s.json {
		return writeJSON(s.out, answer)
	}
	seen, err := httpapi.Decode(answer)
	if err != nil {
		return err
	}
	messages := seen.List("items")
	if c.Bool("long") {
		for i, m := range messages {
			if i > 0 {
				fmt.Fprintln(s.out)
			}
			if err := table.WritePairs(s.out, messagePairs(m)); err != nil {
				return err
			}
		}
	} else if err := messageTable(messages, c.String("state") == stateUnacked).Write(s.out, s.tableOptions()); err != nil {
		return err
	}
	s.notice("%d of %s %s messages of %s", len(messages), count(seen, "total"), c.String("state"), s.queueName(name))
	return nil
}

func messageTable(messages []httpapi.Object, unacked bool) *table.Table {
	t := &table.Table{Columns: []table.Column{{Head: "POS", Number: true}, {Head: "EXCHANGE"}, {Head: "KEY"}, {Head: "REDELIVERED"}, {Head: "BYTES", Number: true}}}
	if unacked {
		t.Columns = append(t.Columns, table.Column{Head: "CONSUMER"}, table.Column{Head: "CHANNEL"})
	}
	t.Columns = append(t.Columns, table.Column{Head: "PAYLOAD"})
	for _, m := range messages {
		row := []string{m.Text("position"), exchangeName(m.Text("exchange")), m.Text("routing_key"), m.Text("redelivered"), m.Text("payload_bytes")}
		if unacked {
			row = append(row, orUnknown(m.Text("consumer_tag")), orUnknown(m.Text("channel")))
		}
		t.Rows = append(t.Rows, append(row, shownPayload(m)))
	}
	return t
}

// shownPayload is the payload for a person: what is binary stays base64 and says so.
func shownPayload(m httpapi.Object) string {
	payload := m.Text("payload")
	if m.Text("payload_encoding") == "base64" {
		payload = "base64:" + payload
	}
	if m.Bool("truncated") {
		payload += "…"
	}
	return payload
}

// messagePairs are the lines of one message: all that is known.
func messagePairs(m httpapi.Object) []table.Pair {
	pairs := []table.Pair{{Name: "Position", Value: m.Text("position")}}
	add := func(name, value string) {
		if value != "" {
			pairs = append(pairs, table.Pair{Name: name, Value: value})
		}
	}
	add("Exchange", exchangeName(m.Text("exchange")))
	add("Routing key", m.Text("routing_key"))
	add("Redelivered", m.Text("redelivered"))
	add("Delivery count", m.Text("delivery_count"))
	if millis := m.Int("enqueued_at"); millis > 0 {
		add("Enqueued", time.UnixMilli(millis).UTC().Format(time.RFC3339Nano))
	}
	add("Consumer", m.Text("consumer_tag"))
	add("Channel", m.Text("channel"))
	properties, _ := m["properties"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if key == "headers" {
			continue
		}
		add(key, httpapi.Object(properties).Text(key))
	}
	headers, _ := properties["headers"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(headers)) {
		add("header "+key, plainJSON(headers[key]))
	}
	add("Bytes", m.Text("payload_bytes"))
	return append(pairs, table.Pair{Name: "Payload", Value: strings.TrimSuffix(shownPayload(m), "\n")})
}

// plainJSON prints a string as it is and everything else as JSON.
func plainJSON(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	encoded, err := json.Marshal(v)
	if err != nil {
		return unknown
	}
	return string(encoded)
}

func orUnknown(text string) string {
	if text == "" {
		return unknown
	}
	return text
}
