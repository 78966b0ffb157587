package main

import (
	"fmt"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"

	"github.com/urfave/cli/v2"
)

// topicNoun are the topic permissions of a user in a virtual host.
var topicNoun = noun{"a", "user", "users", "topic-permissions", true, "topic permissions of "}

func topicCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "topic", Aliases: []string{"topics"}, Usage: "list, set and remove what routing keys users may use with topic exchanges",
		Subcommands: []*cli.Command{listCommand(std, topicListing()), topicSetCommand(std), topicRemoveCommand(std)},
	}
}

func topicListing() listing {
	return listing{
		plural: "topic permissions", id: "user", example: "permission topic ls -A --filter user=shop",
		path:    func(_ *cli.Context, vhost string) string { return ofVhostPath("topic-permissions", vhost) },
		columns: []column{vhostColumn, textColumn("USER", "user"), textColumn("EXCHANGE", "exchange"), patternColumn("WRITE"), patternColumn("READ")},
	}
}

func topicSetCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "set", Usage: "set what routing keys a user may use with a topic exchange", ArgsUsage: "USER EXCHANGE WRITE READ",
		Description: "WRITE is a regular expression for the keys that the user may publish with, READ for those to bind with, not anchored; '' permits nothing. {username} and {vhost} stand for the names. " +
			"Where nothing is set every key is permitted.\n\n" + examples(`permission topic set shop events '^{username}\.' '.*' --vhost staging`),
		Action: func(c *cli.Context) error {
			s, name, rest, err := nameOf(c, std, userNoun)
			if err != nil {
				return err
			}
			if len(rest) != 3 {
				return usagef(c, "want an exchange and two patterns behind the user, EXCHANGE WRITE READ, not %d words", len(rest))
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			body := map[string]string{"exchange": rest[0], "write": rest[1], "read": rest[2]}
			return s.put(c, api, s.named(topicNoun, name), s.at(topicNoun, name), body)
		},
	}
}

func topicRemoveCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "rm", Aliases: []string{"delete", "remove"}, Usage: "remove the topic permissions of a user in a virtual host, all or those for some exchanges", ArgsUsage: "USER [EXCHANGE...]",
		Description: examples("permission topic rm shop --vhost staging", "permission topic rm shop events"), Flags: []cli.Flag{dryRunFlag()},
		Action: func(c *cli.Context) error {
			s, name, exchanges, err := nameOf(c, std, userNoun)
			if err != nil {
				return err
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			if len(exchanges) == 0 {
				if err := s.confirmUnlessDry(c, "Delete "+s.named(topicNoun, name)+"?"); err != nil {
					return err
				}
				return s.remove(c, api, s.named(topicNoun, name), s.at(topicNoun, name), nil)
			}
			if err := s.confirmUnlessDry(c, fmt.Sprintf("Delete %s for %s?", s.named(topicNoun, name), s.described(exchangeNoun, exchanges))); err != nil {
				return err
			}
			return s.each(exchanges, func(exchange string) error {
				return s.remove(c, api, fmt.Sprintf("%s for exchange %q", s.named(topicNoun, name), exchange), httpapi.Path("topic-permissions", s.vhost, name, exchange), nil)
			})
		},
	}
}

// confirmUnlessDry asks before something is destroyed, unless nothing will be.
func (s *settings) confirmUnlessDry(c *cli.Context, question string) error {
	if c.Bool("dry-run") {
		return nil
	}
	return s.confirm(question)
}
