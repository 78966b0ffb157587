package main

import (
	"strings"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/typed"

	"github.com/urfave/cli/v2"
)

var (
	policyNoun         = noun{"a", "policy", "policies", "policies", true, ""}
	operatorPolicyNoun = noun{"an", "operator-policy", "operator policies", "operator-policies", true, ""}
)

func policyCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "policy", Aliases: []string{"policies"}, Usage: "list, set and remove policies: settings for all queues and exchanges whose names match",
		Subcommands: policyVerbs(std, policyNoun),
	}
}

func operatorPolicyCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "operator-policy", Aliases: []string{"operator-policies"}, Usage: "list, set and remove operator policies: bounds of what policies and arguments may give",
		Subcommands: policyVerbs(std, operatorPolicyNoun),
	}
}

func policyVerbs(std streams, n noun) []*cli.Command {
	return []*cli.Command{
		listCommand(std, policyListing(n)), policySetCommand(std, n),
		deleteCommand(std, n, "rm", "delete "+n.plural+"; what matched them follows the next one, or its arguments alone", examples(n.word+" rm limits")),
	}
}

func policyListing(n noun) listing {
	return listing{
		plural: n.plural, example: n.word + " ls -A",
		path: func(_ *cli.Context, vhost string) string { return vhostPath(n.path, vhost) },
		columns: []column{
			vhostColumn, textColumn("NAME", "name"), patternColumn("PATTERN"), textColumn("APPLIES TO", "apply-to"), {head: "PRIORITY", keys: []string{"priority"}, number: true},
			{head: "DEFINITION", keys: []string{"definition"}, show: func(o httpapi.Object) string { return o.Text("definition") }},
		},
	}
}

func policySetCommand(std streams, n noun) *cli.Command {
	return &cli.Command{
		Name: "set", Aliases: []string{"add", "declare"}, Usage: "make or replace " + n.article + " " + n.word, ArgsUsage: strings.ToUpper(n.word) + " PATTERN SETTING...",
		Description: "PATTERN is a regular expression for names, not anchored. SETTING is KEY=VALUE as max-length=1000. " + typed.Help + " Of several that match, the one of the highest priority counts, alone.\n\n" +
			examples(n.word+" set limits '^orders\\.' max-length=100000 overflow=reject-publish --apply-to queues --priority 5"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "apply-to", Value: "all", Usage: "`KIND` all, queues, classic_queues, quorum_queues, streams or exchanges"},
			&cli.Int64Flag{Name: "priority", Usage: "`NUMBER`: the highest counts"},
		},
		Action: func(c *cli.Context) error {
			s, name, rest, err := nameOf(c, std, n)
			if err != nil {
				return err
			}
			if len(rest) < 2 {
				return usagef(c, "want a pattern and settings behind the name, PATTERN KEY=VALUE...")
			}
			definition, err := typed.Pairs(rest[1:])
			if err != nil {
				return usagef(c, "%s", err)
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			body := map[string]any{"pattern": rest[0], "definition": definition, "apply-to": c.String("apply-to"), "priority": c.Int64("priority")}
			return s.put(c, api, s.named(n, name), s.at(n, name), body)
		},
	}
}
