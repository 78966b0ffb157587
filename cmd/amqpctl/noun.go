package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"

	"github.com/urfave/cli/v2"
)

// noun is a kind of object that commands are about: how messages name it and where the API has it.
type noun struct {
	article, word, plural string // "an", "exchange", "exchanges"
	// path is the first segment of its path in the API.
	path string
	// inVhost objects belong to a virtual host.
	inVhost bool
	// of stands before the word where the object is something of what the word says.
	of string
}

var (
	queueNoun    = noun{"a", "queue", "queues", "queues", true, ""}
	exchangeNoun = noun{"an", "exchange", "exchanges", "exchanges", true, ""}
	vhostNoun    = noun{"a", "vhost", "vhosts", "vhosts", false, ""}
	userNoun     = noun{"a", "user", "users", "users", false, ""}
	grantNoun    = noun{"a", "user", "users", "permissions", true, "permissions of "}
)

// named names an object in messages.
func (s *settings) named(n noun, name string) string {
	if n.inVhost {
		return fmt.Sprintf("%s%s %q in vhost %q", n.of, n.word, name, s.vhost)
	}
	return fmt.Sprintf("%s%s %q", n.of, n.word, name)
}

// queueName names a queue in messages.
func (s *settings) queueName(name string) string { return s.named(queueNoun, name) }

// described names what a question is about.
func (s *settings) described(n noun, names []string) string {
	if len(names) == 1 {
		return s.named(n, names[0])
	}
	where := ""
	if n.inVhost {
		where = fmt.Sprintf(" in vhost %q", s.vhost)
	}
	return fmt.Sprintf("%s%d %s%s (%s)", n.of, len(names), n.plural, where, strings.Join(names, ", "))
}

// at is the path of an object.
func (s *settings) at(n noun, name string) string {
	if n.inVhost {
		return httpapi.Path(n.path, s.vhost, name)
	}
	return httpapi.Path(n.path, name)
}

// checkName refuses a name that no object can have.
func checkName(c *cli.Context, n noun, name string) error {
	if name == "" || len(name) > amqp.ShortstrBytesMax {
		return usagef(c, "the name of %s %s is 1 to %d bytes long, not %d", n.article, n.word, amqp.ShortstrBytesMax, len(name))
	}
	return nil
}

// namesOf checks the settings and that at least one name was given.
func namesOf(c *cli.Context, std streams, n noun) (*settings, []string, error) {
	s, first, rest, err := nameOf(c, std, n)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range rest {
		if err := checkName(c, n, name); err != nil {
			return nil, nil, err
		}
	}
	return s, append([]string{first}, rest...), nil
}

// nameOf checks the settings and takes a name off the arguments.
func nameOf(c *cli.Context, std streams, n noun) (s *settings, name string, rest []string, err error) {
	if s, err = settingsOf(c, std); err != nil {
		return nil, "", nil, err
	}
	words := c.Args().Slice()
	if len(words) == 0 {
		return nil, "", nil, usagef(c, "the name of %s %s is missing", n.article, n.word)
	}
	return s, words[0], words[1:], checkName(c, n, words[0])
}

// oneName is nameOf for commands with no further argument.
func oneName(c *cli.Context, std streams, n noun) (*settings, string, error) {
	s, name, rest, err := nameOf(c, std, n)
	if err == nil && len(rest) > 0 {
		err = usagef(c, "unexpected argument %q", rest[0])
	}
	return s, name, err
}

// put creates or changes an object and says which.
func (s *settings) put(c *cli.Context, api *httpapi.Client, what, path string, body any) error {
	created, err := api.Put(c.Context, path, body)
	switch {
	case err != nil:
		return exit.Wrap(err, "%s", what)
	case created:
		s.notice("created %s", what)
	default:
		s.notice("changed %s", what)
	}
	return nil
}

// dryRunFlag belongs to every command that destroys something.
func dryRunFlag() cli.Flag {
	return &cli.BoolFlag{Name: "dry-run", Usage: "say what would be done, and do nothing"}
}

// deleteCommand is verb, `delete` or `rm`, for objects by name. Conditions are flags that the API knows, with what they mean.
func deleteCommand(std streams, n noun, verb, usage, description string, conditions ...[2]string) *cli.Command {
	flags := []cli.Flag{dryRunFlag()}
	for _, condition := range conditions {
		flags = append(flags, &cli.BoolFlag{Name: condition[0], Usage: condition[1]})
	}
	return &cli.Command{
		Name: verb, Aliases: slices.DeleteFunc([]string{"delete", "rm", "remove"}, func(name string) bool { return name == verb }),
		Usage: usage, Description: description, ArgsUsage: strings.ToUpper(n.word) + "...", Flags: flags,
		Action: func(c *cli.Context) error {
			s, names, err := namesOf(c, std, n)
			if err != nil {
				return err
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			if !c.Bool("dry-run") {
				if err := s.confirm("Delete " + s.described(n, names) + "?"); err != nil {
					return err
				}
			}
			query := url.Values{}
			for _, condition := range conditions {
				if c.Bool(condition[0]) {
					query.Set(condition[0], "true")
				}
			}
			return s.each(names, func(name string) error {
				return s.remove(c, api, s.named(n, name), s.at(n, name), query)
			})
		},
	}
}

// remove deletes one object. A dry run looks whether it is there.
func (s *settings) remove(c *cli.Context, api *httpapi.Client, what, path string, query url.Values) error {
	if c.Bool("dry-run") {
		if _, err := api.Get(c.Context, path, nil); err != nil {
			return exit.Wrap(err, "%s", what)
		}
		_, err := fmt.Fprintf(s.out, "would delete %s\n", what)
		return err
	}
	if err := api.Delete(c.Context, path, query); err != nil {
		return exit.Wrap(err, "%s", what)
	}
	s.notice("deleted %s", what)
	return nil
}

// examples is the end of a help text.
func examples(lines ...string) string {
	var b strings.Builder
	b.WriteString("Example:")
	for _, line := range lines {
		b.WriteString("\n   " + program + " " + line)
	}
	return b.String()
}
