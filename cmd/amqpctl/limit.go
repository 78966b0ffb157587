package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"

	"github.com/urfave/cli/v2"
)

// limitsOf are the limits that a kind of object may have, by its word.
var limitsOf = map[string][]string{"vhost": {"max-connections", "max-queues"}, "user": {"max-connections", "max-channels"}}

// limitCommand is `limit` of virtual hosts or users.
func limitCommand(std streams, n noun) *cli.Command {
	known := strings.Join(limitsOf[n.word], " and ")
	return &cli.Command{
		Name: "limit", Aliases: []string{"limits"}, Usage: "list, set and remove limits of " + n.plural + ": " + known,
		Subcommands: []*cli.Command{listCommand(std, limitListing(n)), limitSetCommand(std, n), limitRemoveCommand(std, n)},
	}
}

func limitListing(n noun) listing {
	return listing{
		plural: "limits of " + n.plural, reach: ofCluster, id: n.word, example: n.word + " limit ls",
		path: func(*cli.Context, string) string { return httpapi.Path(n.word + "-limits") },
		columns: []column{textColumn(strings.ToUpper(n.word), n.word), {head: "LIMITS", keys: []string{"value"}, show: func(o httpapi.Object) string {
			values, _ := o["value"].(map[string]any) // none are an empty array in old brokers
			var out []string
			for name, value := range values {
				out = append(out, fmt.Sprintf("%s=%v", name, value))
			}
			slices.Sort(out)
			return strings.Join(out, " ")
		}}},
	}
}

// limitName checks the name of a limit.
func limitName(c *cli.Context, n noun, name string) error {
	if !slices.Contains(limitsOf[n.word], name) {
		return usagef(c, "the limits of %s %s are %s, not %q", n.article, n.word, strings.Join(limitsOf[n.word], " and "), name)
	}
	return nil
}

func limitSetCommand(std streams, n noun) *cli.Command {
	return &cli.Command{
		Name: "set", Usage: "set a limit of " + n.article + " " + n.word, ArgsUsage: strings.ToUpper(n.word) + " LIMIT VALUE",
		Description: "LIMIT is one of " + strings.Join(limitsOf[n.word], ", ") + ". What exceeds a new limit stays as it is; 0 permits none.\n\n" + examples(n.word+" limit set shop max-connections 100"),
		Action: func(c *cli.Context) error {
			s, name, rest, err := nameOf(c, std, n)
			if err != nil {
				return err
			}
			if len(rest) != 2 {
				return usagef(c, "want a limit and its value behind the %s, not %d words", n.word, len(rest))
			}
			value, err := strconv.ParseUint(rest[1], 10, 63)
			if err != nil {
				return usagef(c, "the value of a limit is a whole number from 0 on, not %q; `%s %s limit rm` removes one", rest[1], program, n.word)
			}
			if err := limitName(c, n, rest[0]); err != nil {
				return err
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			what := fmt.Sprintf("limit %s of %s", rest[0], s.named(n, name))
			if _, err := api.Put(c.Context, httpapi.Path(n.word+"-limits", name, rest[0]), map[string]uint64{"value": value}); err != nil {
				return exit.Wrap(err, "%s", what)
			}
			s.notice("set %s to %d", what, value)
			return nil
		},
	}
}

func limitRemoveCommand(std streams, n noun) *cli.Command {
	return &cli.Command{
		Name: "rm", Aliases: []string{"delete", "remove", "clear"}, Usage: "remove limits of " + n.article + " " + n.word, ArgsUsage: strings.ToUpper(n.word) + " LIMIT...",
		Description: examples(n.word + " limit rm shop max-connections"),
		Action: func(c *cli.Context) error {
			s, name, limits, err := nameOf(c, std, n)
			if err != nil {
				return err
			}
			if len(limits) == 0 {
				return usagef(c, "the name of a limit is missing")
			}
			for _, limit := range limits {
				if err := limitName(c, n, limit); err != nil {
					return err
				}
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			return s.each(limits, func(limit string) error {
				what := fmt.Sprintf("limit %s of %s", limit, s.named(n, name))
				if err := api.Delete(c.Context, httpapi.Path(n.word+"-limits", name, limit), nil); err != nil {
					return exit.Wrap(err, "%s", what)
				}
				s.notice("removed %s", what)
				return nil
			})
		},
	}
}
