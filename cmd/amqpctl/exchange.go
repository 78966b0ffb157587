package main

import (
	"fmt"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/typed"

	"github.com/urfave/cli/v2"
)

// defaultExchange is the name under which the API has the exchange whose name is empty.
const defaultExchange = "amq.default"

// argAlternate is the argument that --alternate sets.
const argAlternate = "alternate-exchange"

// exchangeName is the name of an exchange as tables show it and commands take it.
func exchangeName(name string) string {
	if name == "" {
		return defaultExchange
	}
	return name
}

func exchangeCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "exchange", Aliases: []string{"exchanges"}, Usage: "list, declare and delete exchanges",
		Subcommands: []*cli.Command{
			listCommand(std, exchangeListing()), exchangeDeclareCommand(std),
			deleteCommand(std, exchangeNoun, "delete", "delete exchanges with their bindings", examples("exchange delete events --if-unused"), [2]string{"if-unused", "only without bindings"}),
		},
	}
}

// exchangeColumn shows the name of an exchange that stands under a key.
func exchangeColumn(head, key string) column {
	return column{head: head, keys: []string{key}, show: func(o httpapi.Object) string { return exchangeName(o.Text(key)) }}
}

func exchangeListing() listing {
	return listing{
		plural: "exchanges", example: "exchange ls --filter type=topic\nexchange ls --sort -message_stats.publish_in --watch",
		path: func(_ *cli.Context, vhost string) string { return vhostPath("exchanges", vhost) },
		columns: []column{
			vhostColumn, exchangeColumn("NAME", "name"), textColumn("TYPE", "type"),
			flagsColumn("FLAGS", [2]string{"durable", "D"}, [2]string{"auto_delete", "AD"}, [2]string{"internal", "I"}),
			rateColumn("IN/S", "publish_in"), rateColumn("OUT/S", "publish_out"), textColumn("ALTERNATE", "arguments."+argAlternate),
			wide(textColumn("POLICY", "policy")), wide(textColumn("ARGUMENTS", "arguments")),
		},
	}
}

func exchangeDeclareCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "declare", Aliases: []string{"create", "add"}, Usage: "declare exchanges; one that exists with the same properties is left as it is", ArgsUsage: "NAME...",
		Description: typed.Help + "\n\n" + examples("exchange declare events --type topic", "exchange declare orders --type direct --alternate unrouted"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "type", Value: "direct", Usage: "`TYPE` direct, fanout, topic, headers, x-consistent-hash, x-random, x-local-random..."},
			&cli.BoolFlag{Name: "durable", Value: true, Usage: "survives a restart of the broker (--durable=false: does not)"},
			&cli.BoolFlag{Name: "auto-delete", Usage: "goes when its last binding goes"},
			&cli.BoolFlag{Name: "internal", Usage: "takes messages from exchanges only, not from clients"},
			&cli.StringFlag{Name: "alternate", Usage: "`EXCHANGE` that gets what no binding takes"},
			&cli.StringSliceFlag{Name: "arg", Usage: "argument `K=V`, repeatable"},
		},
		Action: func(c *cli.Context) error {
			s, names, err := namesOf(c, std, exchangeNoun)
			if err != nil {
				return err
			}
			arguments, err := typed.Pairs(c.StringSlice("arg"))
			if err != nil {
				return usagef(c, "%s", err)
			}
			if alternate := c.String("alternate"); alternate != "" {
				if given, ok := arguments[argAlternate]; ok && given != alternate {
					return usagef(c, "--alternate %s contradicts --arg %s=%v", alternate, argAlternate, given)
				}
				arguments[argAlternate] = alternate
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			body := map[string]any{
				"type": c.String("type"), "durable": c.Bool("durable"), "auto_delete": c.Bool("auto-delete"), "internal": c.Bool("internal"), "arguments": arguments,
			}
			return s.declare(c, api, exchangeNoun, names, body)
		},
	}
}

// declare makes objects of the same properties.
func (s *settings) declare(c *cli.Context, api *httpapi.Client, n noun, names []string, body any) error {
	return s.each(names, func(name string) error {
		created, err := api.Put(c.Context, s.at(n, name), body)
		switch {
		case err != nil:
			return exit.Wrap(err, "%s", s.named(n, name))
		case created:
			s.notice("declared %s", s.named(n, name))
		default:
			s.notice("%s exists already", s.named(n, name))
		}
		return nil
	})
}

// bindingPath is the path of the bindings between two ends, and of one of them if more names it.
func bindingPath(vhost, source, kind, destination string, more ...string) string {
	return httpapi.Path(append([]string{"bindings", vhost, "e", exchangeName(source), kind[:1], exchangeName(destination)}, more...)...)
}

func bindingName(source, kind, destination, key string) string {
	return fmt.Sprintf("binding from %q to %s %q with key %q", source, kind, destination, key)
}
