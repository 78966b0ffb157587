package main

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/typed"

	"github.com/urfave/cli/v2"
)

// The kinds of destinations; their first letters stand in paths of the API.
const (
	toQueue    = "queue"
	toExchange = "exchange"
)

func bindingCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "binding", Aliases: []string{"bindings"}, Usage: "list, add and remove bindings",
		Subcommands: []*cli.Command{listCommand(std, bindingListing()), bindingAddCommand(std), bindingRemoveCommand(std)},
	}
}

func bindingListing() listing {
	return listing{
		plural: "bindings", example: "binding ls --source events\nbinding ls --queue orders -o json", id: "destination",
		path: func(c *cli.Context, vhost string) string {
			source, queue, exchange := c.String("source"), c.String("queue"), c.String("exchange")
			switch {
			case vhost == "":
				return vhostPath("bindings", "")
			case queue != "" && source != "":
				return bindingPath(vhost, source, toQueue, queue)
			case exchange != "" && source != "":
				return bindingPath(vhost, source, toExchange, exchange)
			case queue != "":
				return httpapi.Path("queues", vhost, queue, "bindings")
			case exchange != "":
				return httpapi.Path("exchanges", vhost, exchange, "bindings", "destination")
			case source != "":
				return httpapi.Path("exchanges", vhost, source, "bindings", "source")
			}
			return vhostPath("bindings", vhost)
		},
		flags: []cli.Flag{
			&cli.StringFlag{Name: "source", Usage: "only those of an `EXCHANGE`"},
			&cli.StringFlag{Name: "queue", Usage: "only those that lead to a `QUEUE`"},
			&cli.StringFlag{Name: "exchange", Usage: "only those that lead to an `EXCHANGE`"},
		},
		check: func(c *cli.Context) error {
			if c.String("queue") != "" && c.String("exchange") != "" {
				return usagef(c, "--queue and --exchange exclude each other")
			}
			if c.Bool("all-vhosts") && (c.String("source") != "" || c.String("queue") != "" || c.String("exchange") != "") {
				return usagef(c, "--source, --queue and --exchange name things of one virtual host, not of --all-vhosts")
			}
			return nil
		},
		columns: []column{
			vhostColumn, exchangeColumn("SOURCE", "source"), textColumn("TO", "destination_type"), textColumn("DESTINATION", "destination"), textColumn("KEY", "routing_key"),
			textColumn("ARGUMENTS", "arguments"), wide(textColumn("PROPERTIES KEY", "properties_key")),
		},
	}
}

// ends are the two ends of a binding with what it asks for, as the command line has them.
type ends struct {
	source, kind, destination, key string
	arguments                      map[string]any
}

func bindingFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "key", Usage: "routing `KEY`"},
		&cli.StringFlag{Name: "to", Value: toQueue, Usage: "`KIND` queue or exchange: what the destination is"},
		&cli.StringSliceFlag{Name: "arg", Usage: "argument `K=V`, repeatable"},
	}, more...)
}

func endsOf(c *cli.Context, std streams) (*settings, *ends, error) {
	s, source, rest, err := nameOf(c, std, exchangeNoun)
	if err != nil {
		return nil, nil, err
	}
	e := &ends{source: source, kind: c.String("to"), key: c.String("key")}
	switch {
	case len(rest) == 0:
		return nil, nil, usagef(c, "the destination is missing")
	case len(rest) > 1:
		return nil, nil, usagef(c, "unexpected argument %q", rest[1])
	case e.kind != toQueue && e.kind != toExchange:
		return nil, nil, usagef(c, "unknown --to %q, want queue or exchange", e.kind)
	}
	e.destination = rest[0]
	if e.arguments, err = typed.Pairs(c.StringSlice("arg")); err != nil {
		return nil, nil, usagef(c, "%s", err)
	}
	return s, e, nil
}

func (e *ends) String() string { return bindingName(e.source, e.kind, e.destination, e.key) }

func bindingAddCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "add", Aliases: []string{"declare", "create"}, Usage: "bind a queue or an exchange to an exchange", ArgsUsage: "EXCHANGE DESTINATION",
		Description: typed.Help + "\n\n" + examples("binding add events orders --key 'order.#'", "binding add events archive --to exchange --key '#'",
			"binding add amq.headers audit --arg x-match=any --arg level=5"),
		Flags: bindingFlags(),
		Action: func(c *cli.Context) error {
			s, e, err := endsOf(c, std)
			if err != nil {
				return err
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			body := map[string]any{"routing_key": e.key, "arguments": e.arguments}
			if err := api.Post(c.Context, bindingPath(s.vhost, e.source, e.kind, e.destination), body); err != nil {
				return exit.Wrap(err, "%s", e)
			}
			s.notice("added %s", e)
			return nil
		},
	}
}

func bindingRemoveCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "rm", Aliases: []string{"delete", "remove"}, Usage: "remove a binding: that with the key and the arguments given, or all between two ends", ArgsUsage: "EXCHANGE DESTINATION",
		Description: examples("binding rm events orders --key 'order.#'", "binding rm events orders --all --dry-run"),
		Flags:       bindingFlags(&cli.BoolFlag{Name: "all", Usage: "all bindings between the two"}, dryRunFlag()),
		Action: func(c *cli.Context) error {
			s, e, err := endsOf(c, std)
			if err != nil {
				return err
			}
			if c.Bool("all") && (c.IsSet("key") || c.IsSet("arg")) {
				return usagef(c, "--all excludes --key and --arg")
			}
			return s.unbind(c, e)
		},
	}
}

func (s *settings) unbind(c *cli.Context, e *ends) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	body, err := api.Get(c.Context, bindingPath(s.vhost, e.source, e.kind, e.destination), nil)
	if err != nil {
		return exit.Wrap(err, "%s", e)
	}
	all, err := httpapi.DecodeList(body)
	if err != nil {
		return err
	}
	wanted, err := sameForm(e.arguments)
	if err != nil {
		return err
	}
	found := map[string]string{}
	var keys []string
	for _, b := range all {
		arguments, err := sameForm(b["arguments"])
		if err != nil {
			return err
		}
		if c.Bool("all") || b.Text("routing_key") == e.key && reflect.DeepEqual(arguments, wanted) {
			keys = append(keys, b.Text("properties_key"))
			found[b.Text("properties_key")] = bindingName(e.source, e.kind, e.destination, b.Text("routing_key"))
		}
	}
	if len(keys) == 0 {
		return exit.Errorf(exit.Data, "%s: there is none", e)
	}
	if !c.Bool("dry-run") {
		if err := s.confirm(fmt.Sprintf("Remove %d bindings from %q to %s %q?", len(keys), e.source, e.kind, e.destination)); err != nil {
			return err
		}
	}
	return s.each(keys, func(key string) error {
		return s.remove(c, api, found[key], bindingPath(s.vhost, e.source, e.kind, e.destination, key), nil)
	})
}

// sameForm brings arguments of the command line and of the API into one form, to be compared.
func sameForm(arguments any) (map[string]any, error) {
	encoded, err := json.Marshal(arguments)
	if err != nil {
		return nil, err
	}
	form := map[string]any{}
	if string(encoded) == "[]" { // an empty object, for some brokers
		return form, nil
	}
	return form, json.Unmarshal(encoded, &form)
}
