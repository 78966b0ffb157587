package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/lean"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/table"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/typed"

	"github.com/urfave/cli/v2"
)

// argQueueType is the argument that --type sets.
const argQueueType = "x-queue-type"

func queueCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "queue", Aliases: []string{"queues"}, Usage: "list, show, watch, declare, change, delete and purge queues, look at their messages and move them",
		Subcommands: []*cli.Command{
			listCommand(std, queueListing()), queueGetCommand(std), queueWatchCommand(std), queuePeekCommand(std), queueDeclareCommand(std), queueDeleteCommand(std),
			queueSetCommand(std), queuePurgeCommand(std), queueMoveCommand(std), queueDrainingCommand(std), queueDropCommand(std),
		},
	}
}

func queueGetCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "get", Aliases: []string{"show"}, Usage: "show one queue or several", ArgsUsage: "QUEUE...",
		Description: "With -o json the object of GET /api/queues/VHOST/QUEUE, or an array of them for several names.\n\n" + examples("queue get orders"),
		Action: func(c *cli.Context) error {
			s, names, err := namesOf(c, std, queueNoun)
			if err != nil {
				return err
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			list := listWriter{w: s.out}
			shown := 0
			err = s.each(names, func(name string) error {
				body, err := api.Get(c.Context, s.at(queueNoun, name), nil)
				if err != nil {
					return exit.Wrap(err, "%s", s.queueName(name))
				}
				switch {
				case s.json && len(names) == 1:
					return writeJSON(s.out, body)
				case s.json:
					return list.add([]json.RawMessage{body})
				}
				queue, err := httpapi.Decode(body)
				if err != nil {
					return err
				}
				if shown++; shown > 1 {
					fmt.Fprintln(s.out)
				}
				return table.WritePairs(s.out, queuePairs(queue))
			})
			if s.json && len(names) > 1 {
				if closeErr := list.close(); err == nil {
					err = closeErr
				}
			}
			return err
		},
	}
}

// queuePairs are the lines of one queue; what the broker does not have is left out.
func queuePairs(q httpapi.Object) []table.Pair {
	pairs := []table.Pair{{Name: "Name", Value: q.Text("name")}, {Name: "Vhost", Value: q.Text("vhost")}, {Name: "Type", Value: q.Text("type")}, {Name: "State", Value: queueState(q)}}
	add := func(name, value string) {
		if value != "" && value != "{}" && value != "[]" {
			pairs = append(pairs, table.Pair{Name: name, Value: value})
		}
	}
	add("Properties", queueProperties(q))
	add("Arguments", q.Text("arguments"))
	add("Changed arguments", q.Text("changed_arguments"))
	add("Policy", q.Text("policy"))
	add("Effective policy", q.Text("effective_policy_definition"))
	add("Node", q.Text("node"))
	add("Leader", q.Text("leader"))
	add("Members", strings.Join(q.Strings("members"), ", "))
	add("Online", strings.Join(q.Strings("online"), ", "))
	if _, ok := q.Float("messages"); ok {
		add("Messages", fmt.Sprintf("%s: %s ready, %s unacknowledged", table.Group(q.Int("messages")), table.Group(q.Int("messages_ready")), table.Group(q.Int("messages_unacknowledged"))))
	} else {
		add("Messages", "not known yet")
	}
	if bytes, ok := q.Float("message_bytes"); ok {
		add("Message bytes", table.Bytes(bytes))
	}
	add("Consumers", count(q, "consumers"))
	add("Active consumer", q.Text("single_active_consumer_tag"))
	per := func(name string) string { return rate(q, "message_stats."+name+"_details.rate") + "/s" }
	add("Rates", fmt.Sprintf("publish %s, deliver and get %s, ack %s, redeliver %s", per("publish"), per("deliver_get"), per("ack"), per("redeliver")))
	if memory, ok := q.Float("memory"); ok {
		add("Memory", table.Bytes(memory))
	}
	add("Idle since", q.Text("idle_since"))
	for _, consumer := range q.List("consumer_details") {
		ack := "manual ack"
		if !consumer.Bool("ack_required") {
			ack = "automatic ack"
		}
		add("Consumer", fmt.Sprintf("%s on %s, prefetch %s, %s", consumer.Text("consumer_tag"), consumer.Text("channel_details.name"), consumer.Text("prefetch_count"), ack))
	}
	return pairs
}

// queueState is the state; a broker that has not counted a queue yet sends none.
func queueState(q httpapi.Object) string {
	if state := q.Text("state"); state != "" {
		return state
	}
	return unknown
}

// queueProperties lists what a queue was declared with.
func queueProperties(q httpapi.Object) string {
	var parts []string
	if q.Bool("durable") {
		parts = append(parts, "durable")
	} else {
		parts = append(parts, "transient")
	}
	if q.Bool("auto_delete") {
		parts = append(parts, "auto-delete")
	}
	if q.Bool("exclusive") {
		parts = append(parts, "exclusive")
	}
	return strings.Join(parts, ", ")
}

func queueDeclareCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "declare", Aliases: []string{"create"}, Usage: "declare queues; one that exists with the same properties is left as it is", ArgsUsage: "NAME...",
		Description: typed.Help + "\n\n" + examples("queue declare orders --type quorum --arg x-max-length=100000"),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "durable", Value: true, Usage: "survives a restart of the broker (--durable=false: does not)"},
			&cli.StringFlag{Name: "type", Usage: "`TYPE` quorum or classic; default: the broker's"},
			&cli.BoolFlag{Name: "auto-delete", Usage: "goes when its last consumer goes"},
			&cli.StringSliceFlag{Name: "arg", Usage: "argument `K=V`, repeatable"},
		},
		Action: func(c *cli.Context) error {
			s, names, err := namesOf(c, std, queueNoun)
			if err != nil {
				return err
			}
			arguments, err := declareArguments(c, c.StringSlice("arg"), c.String("type"))
			if err != nil {
				return err
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			body := map[string]any{"durable": c.Bool("durable"), "auto_delete": c.Bool("auto-delete"), "arguments": arguments}
			return s.declare(c, api, queueNoun, names, body)
		},
	}
}

// declareArguments reads --arg and --type into the arguments of a queue.
func declareArguments(c *cli.Context, pairs []string, queueType string) (map[string]any, error) {
	arguments, err := typed.Pairs(pairs)
	if err != nil {
		return nil, usagef(c, "%s", err)
	}
	switch queueType {
	case "":
	case "quorum", "classic", "stream":
		if given, ok := arguments[argQueueType]; ok && given != queueType {
			return nil, usagef(c, "--type %s contradicts --arg %s=%v", queueType, argQueueType, given)
		}
		arguments[argQueueType] = queueType
	default:
		return nil, usagef(c, "unknown --type %q, want quorum or classic", queueType)
	}
	return arguments, nil
}

func queueDeleteCommand(std streams) *cli.Command {
	return deleteCommand(std, queueNoun, "delete", "delete queues with their messages", examples("queue delete orders --if-empty"),
		[2]string{"if-unused", "only without consumers"}, [2]string{"if-empty", "only without messages"})
}

func queuePurgeCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "purge", Usage: "drop the ready messages of queues and print how many there were", ArgsUsage: "QUEUE...",
		Description: "Goes over AMQP, because only queue.purge tells the number. With --quiet and one queue the number alone is printed.\n\n" + examples("queue purge orders --yes"),
		Flags:       []cli.Flag{dryRunFlag()},
		Action: func(c *cli.Context) error {
			s, names, err := namesOf(c, std, queueNoun)
			if err != nil {
				return err
			}
			if c.Bool("dry-run") {
				return s.wouldPurge(c, names)
			}
			if err := s.confirm("Purge " + s.described(queueNoun, names) + "?"); err != nil {
				return err
			}
			return s.purge(c, names)
		},
	}
}

func (s *settings) wouldPurge(c *cli.Context, names []string) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	return s.each(names, func(name string) error {
		body, err := api.Get(c.Context, s.at(queueNoun, name), nil)
		if err != nil {
			return exit.Wrap(err, "%s", s.queueName(name))
		}
		queue, err := httpapi.Decode(body)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.out, "would purge %s messages of %s\n", count(queue, "messages_ready"), s.queueName(name))
		return err
	})
}

// purged is one line of the result of purge.
type purged struct {
	Name     string `json:"name"`
	Vhost    string `json:"vhost"`
	Messages uint32 `json:"messages_purged"`
}

func (s *settings) purge(c *cli.Context, names []string) error {
	conn, err := lean.Dial(c.Context, s.target("queue purge"))
	if err != nil {
		return err
	}
	defer conn.Close()
	done := []purged{}
	broken := false
	err = s.each(names, func(name string) error {
		if broken { // the error before closed the channel
			if err := conn.Reopen(); err != nil {
				return exit.Wrap(err, "%s", s.queueName(name))
			}
			broken = false
		}
		var ok amqp.QueuePurgeOk
		if err := conn.Call(lean.Channel, &amqp.QueuePurge{Queue: name}, &ok); err != nil {
			broken = true
			return exit.Wrap(err, "%s", s.queueName(name))
		}
		done = append(done, purged{Name: name, Vhost: s.vhost, Messages: ok.MessageCount})
		return nil
	})
	if writeErr := s.writePurged(done); err == nil {
		err = writeErr
	}
	return err
}

func (s *settings) writePurged(done []purged) error {
	switch {
	case s.json:
		body, err := json.Marshal(done)
		if err != nil {
			return err
		}
		return writeJSON(s.out, body)
	case len(done) == 0:
		return nil
	case s.quiet && len(done) == 1:
		_, err := fmt.Fprintln(s.out, done[0].Messages)
		return err
	}
	t := table.Table{Columns: []table.Column{{Head: "NAME"}, {Head: "PURGED", Number: true}}}
	for _, p := range done {
		t.Rows = append(t.Rows, []string{p.Name, fmt.Sprint(p.Messages)})
	}
	return t.Write(s.out, s.tableOptions())
}
