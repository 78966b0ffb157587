package main

import (
	"encoding/json"
	"strings"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"

	"github.com/urfave/cli/v2"
)

var (
	parameterNoun       = noun{"a", "parameter", "parameters", "parameters", true, ""}
	globalParameterNoun = noun{"a", "global-parameter", "global parameters", "global-parameters", false, ""}
)

// parameterKind is what parameters of virtual hosts and global ones differ in.
type parameterKind struct {
	noun
	// args are the words that name one.
	args []string
	// name is what an example is about.
	name string
}

var parameterKinds = [...]parameterKind{
	{parameterNoun, []string{"COMPONENT", "NAME"}, "federation-upstream east"},
	{globalParameterNoun, []string{"NAME"}, "cluster_tags"},
}

// parameterCommands are `parameter` and `global-parameter`.
func parameterCommands(std streams) (list []*cli.Command) {
	for _, k := range parameterKinds {
		list = append(list, &cli.Command{
			Name: k.word, Aliases: []string{k.path}, Usage: "list, set and remove " + k.plural + ": settings that the cluster keeps for components",
			Subcommands: []*cli.Command{listCommand(std, k.listing()), k.setCommand(std), k.removeCommand(std)},
		})
	}
	return list
}

func (k parameterKind) listing() listing {
	l := listing{
		plural: k.plural, reach: ofCluster, example: k.word + " ls",
		path:    func(*cli.Context, string) string { return httpapi.Path(k.path) },
		columns: []column{textColumn("NAME", "name"), {head: "VALUE", keys: []string{"value"}, show: func(o httpapi.Object) string { return o.Text("value") }}},
	}
	if !k.inVhost {
		return l
	}
	l.columns = append([]column{vhostColumn, textColumn("COMPONENT", "component")}, l.columns...)
	l.columns = append(l.columns, textColumn("STATE", "state"), wide(textColumn("REASON", "reason")))
	return l
}

// at is the path of a parameter, what its name in messages.
func (k parameterKind) at(s *settings, words []string) (path, what string) {
	if k.inVhost {
		return httpapi.Path(k.path, words[0], s.vhost, words[1]), s.named(k.noun, words[0]+" "+words[1])
	}
	return httpapi.Path(k.path, words[0]), s.named(k.noun, words[0])
}

// words reads what names a parameter, and what stands behind it.
func (k parameterKind) words(c *cli.Context, std streams, behind ...string) (s *settings, words []string, err error) {
	if s, err = settingsOf(c, std); err != nil {
		return nil, nil, err
	}
	want := append(append([]string(nil), k.args...), behind...)
	if words = c.Args().Slice(); len(words) != len(want) {
		return nil, nil, usagef(c, "want %s, not %d words", strings.Join(want, " "), len(words))
	}
	return s, words, nil
}

func (k parameterKind) setCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "set", Aliases: []string{"declare"}, Usage: "set " + k.article + " " + k.word, ArgsUsage: strings.Join(k.args, " ") + " JSON",
		Description: "JSON is the value; what is not JSON is taken as a text.\n\n" + examples(k.word+" set "+k.name+` '{"uri":"amqp://east"}'`),
		Action: func(c *cli.Context) error {
			s, words, err := k.words(c, std, "JSON")
			if err != nil {
				return err
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			last := len(words) - 1
			var value any = words[last]
			if json.Valid([]byte(words[last])) {
				value = json.RawMessage(words[last])
			}
			path, what := k.at(s, words)
			return s.put(c, api, what, path, map[string]any{"value": value})
		},
	}
}

func (k parameterKind) removeCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "rm", Aliases: []string{"delete", "remove", "clear"}, Usage: "remove " + k.article + " " + k.word, ArgsUsage: strings.Join(k.args, " "),
		Description: examples(k.word + " rm " + k.name),
		Action: func(c *cli.Context) error {
			s, words, err := k.words(c, std)
			if err != nil {
				return err
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			path, what := k.at(s, words)
			if err := api.Delete(c.Context, path, nil); err != nil {
				return exit.Wrap(err, "%s", what)
			}
			s.notice("removed %s", what)
			return nil
		},
	}
}
