package main

import (
	"strings"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"

	"github.com/urfave/cli/v2"
)

func userCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "user", Aliases: []string{"users"}, Usage: "list, add and remove users, change passwords, tags and limits",
		Subcommands: []*cli.Command{
			listCommand(std, userListing()), userAddCommand(std), userPasswordCommand(std), userTagsCommand(std),
			deleteCommand(std, userNoun, "rm", "delete users with their permissions", examples("user rm shop")),
			limitCommand(std, userNoun),
		},
	}
}

func userListing() listing {
	return listing{
		plural: "users", reach: ofCluster, example: "user ls --filter tags~administrator",
		path: func(*cli.Context, string) string { return httpapi.Path("users") },
		columns: []column{
			textColumn("NAME", "name"), {head: "TAGS", keys: []string{"tags"}, show: func(o httpapi.Object) string { return strings.Join(tagsOf(o), ", ") }},
			{head: "PASSWORD", keys: []string{"password_hash"}, show: func(o httpapi.Object) string {
				if o.Text("password_hash") == "" {
					return "none"
				}
				return "set"
			}},
			textColumn("LIMITS", "limits"), wide(textColumn("HASHING", "hashing_algorithm")),
		},
	}
}

// tagsOf reads the tags of a user: an array, in old brokers a text with commas.
func tagsOf(o httpapi.Object) []string {
	if text, ok := o["tags"].(string); ok {
		return splitColumns(text)
	}
	return o.Strings("tags")
}

// userTags are the tags that mean something to a broker.
var userTags = []string{"administrator", "monitoring", "policymaker", "management", "impersonator"}

func userAddCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "add", Aliases: []string{"create"}, Usage: "add a user", ArgsUsage: "NAME [PASSWORD]",
		Description: passwordHelp + "\n\n" + examples("user add shop --tags monitoring", "user add shop --password-stdin < secret", "user add shop --no-password"),
		Flags: append(passwordFlags(), &cli.StringFlag{Name: "tags", Usage: "comma-separated `TAGS`: " + strings.Join(userTags, ", ")},
			&cli.BoolFlag{Name: "no-password", Usage: "who cannot log in with a password"}),
		Action: func(c *cli.Context) error {
			s, name, rest, err := nameOf(c, std, userNoun)
			if err != nil {
				return err
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			if _, err := api.Get(c.Context, s.at(userNoun, name), nil); err == nil {
				return exit.Errorf(exit.Data, "%s exists already; `%s user passwd` and `%[2]s user tags` change it", s.named(userNoun, name), program)
			}
			body := map[string]any{"tags": strings.Join(splitColumns(c.String("tags")), ",")}
			if c.Bool("no-password") {
				if len(rest) > 0 || c.Bool(passwordStdin) {
					return usagef(c, "--no-password and a password exclude each other")
				}
				body["password_hash"] = ""
			} else if body["password"], err = s.password(c, rest); err != nil {
				return err
			}
			return s.put(c, api, s.named(userNoun, name), s.at(userNoun, name), body)
		},
	}
}

// ofUser fetches a user that is to be changed: the API knows only whole ones.
func (s *settings) ofUser(c *cli.Context, name string) (*httpapi.Client, httpapi.Object, error) {
	api, err := s.api()
	if err != nil {
		return nil, nil, err
	}
	body, err := api.Get(c.Context, s.at(userNoun, name), nil)
	if err != nil {
		return nil, nil, exit.Wrap(err, "%s", s.named(userNoun, name))
	}
	user, err := httpapi.Decode(body)
	return api, user, err
}

func userPasswordCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "passwd", Aliases: []string{"password"}, Usage: "change the password of a user", ArgsUsage: "USER [PASSWORD]",
		Description: passwordHelp + "\n\n" + examples("user passwd shop", "user passwd shop --password-stdin < secret"),
		Flags:       passwordFlags(),
		Action: func(c *cli.Context) error {
			s, name, rest, err := nameOf(c, std, userNoun)
			if err != nil {
				return err
			}
			api, user, err := s.ofUser(c, name)
			if err != nil {
				return err
			}
			password, err := s.password(c, rest)
			if err != nil {
				return err
			}
			body := map[string]any{"password": password, "tags": strings.Join(tagsOf(user), ",")}
			return s.put(c, api, s.named(userNoun, name), s.at(userNoun, name), body)
		},
	}
}

func userTagsCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "tags", Usage: "set the tags of a user, none if none is given", ArgsUsage: "USER [TAG...]",
		Description: examples("user tags shop monitoring policymaker", "user tags shop"),
		Action: func(c *cli.Context) error {
			s, name, tags, err := nameOf(c, std, userNoun)
			if err != nil {
				return err
			}
			api, user, err := s.ofUser(c, name)
			if err != nil {
				return err
			}
			body := map[string]any{"tags": strings.Join(tags, ","), "password_hash": user.Text("password_hash"), "hashing_algorithm": user.Text("hashing_algorithm")}
			return s.put(c, api, s.named(userNoun, name), s.at(userNoun, name), body)
		},
	}
}

func permissionCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "permission", Aliases: []string{"permissions"}, Usage: "list, set and remove what users may do in virtual hosts",
		Subcommands: []*cli.Command{
			listCommand(std, permissionListing()), permissionSetCommand(std),
			deleteCommand(std, grantNoun, "rm", "take from users every permission in a virtual host", examples("permission rm shop --vhost staging")),
			topicCommand(std),
		},
	}
}

func permissionListing() listing {
	return listing{
		plural: "permissions", id: "user", example: "permission ls -A --filter user=shop",
		path:    func(_ *cli.Context, vhost string) string { return ofVhostPath("permissions", vhost) },
		columns: []column{vhostColumn, textColumn("USER", "user"), patternColumn("CONFIGURE"), patternColumn("WRITE"), patternColumn("READ")},
	}
}

// patternColumn shows a pattern; one that is empty permits nothing, which is not the same as not known.
func patternColumn(head string) column {
	key := strings.ToLower(head)
	return column{head: head, keys: []string{key}, show: func(o httpapi.Object) string {
		if text := o.Text(key); text != "" {
			return text
		}
		return "''"
	}}
}

func permissionSetCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "set", Usage: "set what a user may do in a virtual host", ArgsUsage: "USER CONFIGURE WRITE READ",
		Description: "Each of the three is a regular expression for the names of queues and exchanges, not anchored; '' permits nothing.\n\n" +
			examples("permission set shop '^shop\\.' '^shop\\.|^amq\\.topic$' '.*' --vhost staging"),
		Action: func(c *cli.Context) error {
			s, name, patterns, err := nameOf(c, std, userNoun)
			if err != nil {
				return err
			}
			if len(patterns) != 3 {
				return usagef(c, "want three patterns behind the user, CONFIGURE WRITE READ, not %d", len(patterns))
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			body := map[string]string{"configure": patterns[0], "write": patterns[1], "read": patterns[2]}
			return s.put(c, api, s.named(grantNoun, name), s.at(grantNoun, name), body)
		},
	}
}
