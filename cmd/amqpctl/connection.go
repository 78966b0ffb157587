package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/table"

	"github.com/urfave/cli/v2"
)

func connectionCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "connection", Aliases: []string{"connections"}, Usage: "list and close connections",
		Subcommands: []*cli.Command{listCommand(std, connectionListing()), connectionCloseCommand(std)},
	}
}

func channelCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "channel", Aliases: []string{"channels"}, Usage: "list channels", Subcommands: []*cli.Command{listCommand(std, channelListing())},
	}
}

func consumerCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "consumer", Aliases: []string{"consumers"}, Usage: "list consumers", Subcommands: []*cli.Command{listCommand(std, consumerListing())},
	}
}

// ofVhostPath is the path of a list that the API has below /vhosts for one virtual host.
func ofVhostPath(kind, vhost string) string {
	if vhost == "" {
		return httpapi.Path(kind)
	}
	return httpapi.Path("vhosts", vhost, kind)
}

func connectionListing() listing {
	return listing{
		plural: "connections", reach: ofAll, example: "connection ls --filter user=shop --watch\nconnection ls --sort -recv_oct_details.rate --limit 10\nconnection ls --filter 'channels=0' -o name",
		path: func(_ *cli.Context, vhost string) string { return ofVhostPath("connections", vhost) },
		columns: []column{
			textColumn("NAME", "name"), textColumn("USER", "user"), vhostColumn, textColumn("STATE", "state"), countColumn("CHANNELS", "channels"),
			speedColumn("FROM/S", "recv_oct"), speedColumn("TO/S", "send_oct"),
			column{head: "CLIENT", keys: []string{"client_properties.connection_name", "client_properties.product", "client_properties.version"}, show: clientName},
			wide(textColumn("NODE", "node")), wide(textColumn("TLS", "ssl_protocol")), wide(textColumn("LOGIN", "auth_mechanism")), wide(countColumn("HEARTBEAT", "timeout")),
			wide(countColumn("FRAME MAX", "frame_max")), wide(column{head: "OPEN FOR", keys: []string{"connected_at"}, number: true, show: openFor}),
		},
	}
}

// clientName is what a client calls itself, else the name of its library.
func clientName(o httpapi.Object) string {
	if name := o.Text("client_properties.connection_name"); name != "" {
		return name
	}
	return strings.TrimSpace(o.Text("client_properties.product") + " " + o.Text("client_properties.version"))
}

func openFor(o httpapi.Object) string {
	millis := o.Int("connected_at")
	if millis == 0 {
		return unknown
	}
	return table.Age(max(0, time.Since(time.UnixMilli(millis))))
}

func channelListing() listing {
	return listing{
		plural: "channels", reach: ofAll, example: "channel ls --filter 'messages_unacknowledged>100'\nchannel ls --sort -messages_unconfirmed --watch",
		path: func(_ *cli.Context, vhost string) string { return ofVhostPath("channels", vhost) },
		columns: []column{
			textColumn("NAME", "name"), textColumn("USER", "user"), vhostColumn, textColumn("STATE", "state"),
			flagsColumn("MODE", [2]string{"confirm", "C"}, [2]string{"transactional", "T"}), countColumn("PREFETCH", "prefetch_count"), countColumn("CONSUMERS", "consumer_count"),
			countColumn("UNACKED", "messages_unacknowledged"), countColumn("UNCONFIRMED", "messages_unconfirmed"), rateColumn("IN/S", "publish"), rateColumn("OUT/S", "deliver_get"),
			rateColumn("ACK/S", "ack"), wide(textColumn("NODE", "node")), wide(countColumn("GLOBAL PREFETCH", "global_prefetch_count")), wide(rateColumn("CONFIRM/S", "confirm")),
			wide(rateColumn("REDELIVER/S", "redeliver")),
		},
	}
}

func consumerListing() listing {
	return listing{
		plural: "consumers", id: "consumer_tag", example: "consumer ls --filter queue.name=orders\nconsumer ls -A --filter active=false",
		path: func(_ *cli.Context, vhost string) string { return vhostPath("consumers", vhost) },
		columns: []column{
			{head: "VHOST", keys: []string{"queue.vhost"}, vhost: true}, textColumn("QUEUE", "queue.name"), textColumn("TAG", "consumer_tag"), textColumn("CHANNEL", "channel_details.name"),
			{head: "ACK", keys: []string{"ack_required"}, show: func(o httpapi.Object) string {
				if o.Bool("ack_required") {
					return "manual"
				}
				return "auto"
			}},
			flagsColumn("FLAGS", [2]string{"exclusive", "excl"}), countColumn("PREFETCH", "prefetch_count"), textColumn("ACTIVE", "active"),
			wide(textColumn("USER", "channel_details.user")), wide(textColumn("ARGUMENTS", "arguments")),
		},
	}
}

func connectionCloseCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "close", Aliases: []string{"rm"}, Usage: "close connections: those named, or all of a user, of a virtual host, or there are", ArgsUsage: "[CONNECTION...]",
		Description: "Their clients get 320 CONNECTION_FORCED with the reason, and most connect again.\n\n" +
			examples("connection close '10.0.0.7:51234 -> 10.0.0.1:5672'", "connection close --user shop --reason 'password changed'", "connection close --all --vhost staging --dry-run"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "user", Usage: "those of a `USER`"},
			&cli.BoolFlag{Name: "all", Usage: "all there are, or with --vhost all of that"},
			&cli.StringFlag{Name: "reason", Value: "Closed via amqpctl", Usage: "`TEXT` that the clients get"},
			dryRunFlag(),
		},
		Action: func(c *cli.Context) error {
			s, err := settingsOf(c, std)
			if err != nil {
				return err
			}
			ways := 0
			for _, given := range []bool{c.NArg() > 0, c.IsSet("user"), c.Bool("all")} {
				if given {
					ways++
				}
			}
			switch {
			case ways == 0:
				return usagef(c, "the name of a connection, --user or --all is missing")
			case ways > 1:
				return usagef(c, "names, --user and --all exclude each other")
			}
			return s.closeConnections(c)
		},
	}
}

func (s *settings) closeConnections(c *cli.Context) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	names := c.Args().Slice()
	if len(names) == 0 {
		path := httpapi.Path("connections")
		if c.Bool("all") && c.IsSet("vhost") {
			path = ofVhostPath("connections", s.vhost)
		} else if c.IsSet("user") {
			path = httpapi.Path("connections", "username", c.String("user"))
		}
		err := api.List(c.Context, path, url.Values{"columns": {"name"}}, func(items []json.RawMessage) error {
			for _, item := range items {
				o, err := httpapi.Decode(item)
				if err != nil {
					return err
				}
				names = append(names, o.Text("name"))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(names) == 0 {
			s.notice("there is no such connection")
			return nil
		}
	}
	if c.Bool("dry-run") {
		return s.each(names, func(name string) error {
			if _, err := api.Get(c.Context, httpapi.Path("connections", name), nil); err != nil {
				return exit.Wrap(err, "connection %q", name)
			}
			_, err := fmt.Fprintf(s.out, "would close connection %q\n", name)
			return err
		})
	}
	question := fmt.Sprintf("Close %d connections?", len(names))
	if len(names) == 1 {
		question = fmt.Sprintf("Close connection %q?", names[0])
	}
	if err := s.confirm(question); err != nil {
		return err
	}
	return s.each(names, func(name string) error {
		if err := api.DeleteFor(c.Context, httpapi.Path("connections", name), c.String("reason")); err != nil {
			return exit.Wrap(err, "connection %q", name)
		}
		s.notice("closed connection %q", name)
		return nil
	})
}
