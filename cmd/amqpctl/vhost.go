package main

import (
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"

	"github.com/urfave/cli/v2"
)

func vhostCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "vhost", Aliases: []string{"vhosts"}, Usage: "list, add and remove virtual hosts, change their limits",
		Subcommands: []*cli.Command{
			listCommand(std, vhostListing()), vhostAddCommand(std), vhostTraceCommand(std),
			deleteCommand(std, vhostNoun, "rm", "delete virtual hosts with all their queues, exchanges and messages", examples("vhost rm staging")),
			limitCommand(std, vhostNoun),
		},
	}
}

func vhostListing() listing {
	return listing{
		plural: "virtual hosts", reach: ofCluster, example: "vhost ls --sort -messages",
		path: func(*cli.Context, string) string { return httpapi.Path("vhosts") },
		columns: []column{
			textColumn("NAME", "name"), textColumn("DESCRIPTION", "description"), textColumn("DEFAULT TYPE", "default_queue_type"), countColumn("READY", "messages_ready"),
			countColumn("UNACKED", "messages_unacknowledged"), countColumn("TOTAL", "messages"), rateColumn("IN/S", "publish"), rateColumn("OUT/S", "deliver_get"),
			wide(textColumn("TAGS", "tags")), wide(textColumn("TRACING", "tracing")), wide(speedColumn("FROM/S", "recv_oct")), wide(speedColumn("TO/S", "send_oct")),
		},
	}
}

func vhostAddCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "add", Aliases: []string{"declare", "create"}, Usage: "add virtual hosts; one that exists is changed where flags say so", ArgsUsage: "NAME...",
		Description: "The user of --url gets all permissions in a new one.\n\n" + examples("vhost add staging --description 'tests of the shop' --default-queue-type quorum"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "description", Usage: "`TEXT` for people"},
			&cli.StringSliceFlag{Name: "tag", Usage: "`TAG` of the virtual host, repeatable"},
			&cli.StringFlag{Name: "default-queue-type", Usage: "`TYPE` classic or quorum: that of queues declared without one"},
		},
		Action: func(c *cli.Context) error {
			s, names, err := namesOf(c, std, vhostNoun)
			if err != nil {
				return err
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			body := map[string]any{}
			for flag, key := range map[string]string{"description": "description", "default-queue-type": "default_queue_type"} {
				if c.IsSet(flag) {
					body[key] = c.String(flag)
				}
			}
			if c.IsSet("tag") {
				body["tags"] = c.StringSlice("tag")
			}
			return s.each(names, func(name string) error { return s.put(c, api, s.named(vhostNoun, name), s.at(vhostNoun, name), body) })
		},
	}
}

func vhostTraceCommand(std streams) *cli.Command {
	trace := func(word, usage string, tracing bool) *cli.Command {
		return &cli.Command{
			Name: word, Usage: usage, ArgsUsage: "VHOST...", Description: examples("vhost trace " + word + " /"),
			Action: func(c *cli.Context) error {
				s, names, err := namesOf(c, std, vhostNoun)
				if err != nil {
					return err
				}
				api, err := s.api()
				if err != nil {
					return err
				}
				return s.each(names, func(name string) error {
					if _, err := api.Get(c.Context, s.at(vhostNoun, name), nil); err != nil { // PUT would make it
						return exit.Wrap(err, "%s", s.named(vhostNoun, name))
					}
					return s.put(c, api, s.named(vhostNoun, name), s.at(vhostNoun, name), map[string]any{"tracing": tracing})
				})
			},
		}
	}
	return &cli.Command{
		Name: "trace", Usage: "copy every message of virtual hosts to the exchange amq.rabbitmq.trace, or stop that",
		Description: "Bind a queue to amq.rabbitmq.trace: keys are publish.EXCHANGE and deliver.QUEUE, headers tell the rest. It costs nothing while no queue is bound.",
		Subcommands: []*cli.Command{
			trace("on", "start to trace", true), trace("off", "stop tracing", false),
		},
	}
}
