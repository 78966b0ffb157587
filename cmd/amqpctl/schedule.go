package main

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/table"

	"github.com/urfave/cli/v2"
)

func scheduleCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "schedule", Usage: "list, show, cancel and deliver messages that are to be ready later",
		Description: "Messages wait in a queue if they were published to it with the header x-delay or x-opt-delivery-time, or to be tried again later, and in an exchange of type\n" +
			"x-delayed-message. NAME is that of a queue, with --exchange that of an exchange. ID is what `schedule list` shows.",
		Subcommands: []*cli.Command{scheduleListCommand(std), scheduleShowCommand(std), schedulePickCommand(std, "cancel", "drop messages"), schedulePickCommand(std, "deliver", "make messages ready now")},
	}
}

func exchangeFlag() cli.Flag {
	return &cli.BoolFlag{Name: "exchange", Aliases: []string{"x"}, Usage: "NAME is an exchange of type x-delayed-message"}
}

// scheduleOf is the path to the delayed messages of what is named, and what that is called.
func (s *settings) scheduleOf(c *cli.Context, name string, rest ...string) (path, what string) {
	kind, what := "queues", s.queueName(name)
	if c.Bool("exchange") {
		kind, what = "exchanges", strings.Replace(what, "queue", "exchange", 1)
	}
	return httpapi.Path(append([]string{kind, s.vhost, name, "delayed"}, rest...)...), what
}

func scheduleListCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "list", Aliases: []string{"ls"}, Usage: "list messages in the order in which they are due", ArgsUsage: "NAME",
		Description: examples("schedule list orders", "schedule list -x later --count 100", "schedule list orders --after 1767225600000-17"),
		Flags: []cli.Flag{
			exchangeFlag(), &cli.IntFlag{Name: "count", Aliases: []string{"n"}, Value: 20, Usage: "show up to `N` messages"}, &cli.StringFlag{Name: "after", Usage: "go on behind `ID`"},
		},
		Action: func(c *cli.Context) error {
			s, name, err := oneName(c, std, queueNoun)
			if err != nil {
				return err
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			path, what := s.scheduleOf(c, name)
			query := map[string][]string{"count": {c.String("count")}}
			if after := c.String("after"); after != "" {
				query["after"] = []string{after}
			}
			answer, err := api.Get(c.Context, path, query)
			if err != nil {
				return exit.Wrap(err, "%s", what)
			}
			if s.json {
				return writeJSON(s.out, answer)
			}
			seen, err := httpapi.Decode(answer)
			if err != nil {
				return err
			}
			t := &table.Table{Columns: []table.Column{
				{Head: "ID"}, {Head: "DUE"}, {Head: "SECONDS LEFT", Number: true}, {Head: "EXCHANGE"}, {Head: "KEY"}, {Head: "MESSAGE ID"}, {Head: "BYTES", Number: true},
			}}
			messages := seen.List("items")
			for _, m := range messages {
				t.Rows = append(t.Rows, []string{
					m.Text("id"), dueTime(m), m.Text("seconds_left"), exchangeName(m.Text("exchange")), m.Text("routing_key"), m.Text("message_id"), m.Text("payload_bytes"),
				})
			}
			if err := t.Write(s.out, s.tableOptions()); err != nil {
				return err
			}
			s.notice("%d of %s delayed messages of %s", len(messages), count(seen, "total"), what)
			return nil
		},
	}
}

func dueTime(m httpapi.Object) string {
	return time.UnixMilli(m.Int("due")).UTC().Format("2006-01-02T15:04:05.000Z")
}

func scheduleShowCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "show a message with its payload", ArgsUsage: "NAME ID",
		Description: examples("schedule show orders 1767225600000-17"),
		Flags:       []cli.Flag{exchangeFlag()},
		Action: func(c *cli.Context) error {
			s, name, ids, err := nameOf(c, std, queueNoun)
			if err != nil {
				return err
			}
			if len(ids) != 1 {
				return usagef(c, "want NAME and one ID")
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			path, what := s.scheduleOf(c, name, ids[0])
			answer, err := api.Get(c.Context, path, nil)
			if err != nil {
				return exit.Wrap(err, "message %s of %s", ids[0], what)
			}
			if s.json {
				return writeJSON(s.out, answer)
			}
			m, err := httpapi.Decode(answer)
			if err != nil {
				return err
			}
			return table.WritePairs(s.out, append([]table.Pair{{Name: "ID", Value: m.Text("id")}, {Name: "Due", Value: dueTime(m)}}, messagePairs(m)[1:]...))
		},
	}
}

// schedulePickCommand is cancel or deliver.
func schedulePickCommand(std streams, verb, usage string) *cli.Command {
	return &cli.Command{
		Name: verb, Usage: usage, ArgsUsage: "NAME ID...",
		Description: "Those that are not delayed any more are passed over; how many were is printed.\n\n" + examples("schedule "+verb+" orders 1767225600000-17", "schedule "+verb+" -x later --all"),
		Flags:       []cli.Flag{exchangeFlag(), &cli.BoolFlag{Name: "all", Usage: "all that are delayed"}},
		Action: func(c *cli.Context) error {
			s, name, ids, err := nameOf(c, std, queueNoun)
			if err != nil {
				return err
			}
			if c.Bool("all") == (len(ids) > 0) {
				return usagef(c, "want either IDs or --all")
			}
			path, what := s.scheduleOf(c, name, verb)
			body := map[string]any{"ids": ids}
			if c.Bool("all") {
				body = map[string]any{"all": true}
				if err := s.confirm(strings.ToUpper(verb[:1]) + verb[1:] + " all delayed messages of " + what + "?"); err != nil {
					return err
				}
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			answer, err := api.Ask(c.Context, path, body)
			if err != nil {
				return exit.Wrap(err, "%s", what)
			}
			return s.writePicked(answer)
		},
	}
}

// writePicked prints how many messages were cancelled or delivered.
func (s *settings) writePicked(answer json.RawMessage) error {
	if s.json {
		return writeJSON(s.out, answer)
	}
	picked, err := httpapi.Decode(answer)
	if err == nil {
		_, err = s.out.Write([]byte(picked.Text("messages") + "\n"))
	}
	return err
}
