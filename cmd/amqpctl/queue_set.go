package main

import (
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/typed"

	"github.com/urfave/cli/v2"
)

// queueSetCommand changes arguments of a queue that stays what it is.
func queueSetCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "set", Usage: "change arguments of a queue, with its messages and consumers in place", ArgsUsage: "QUEUE [ARGUMENT...]",
		Description: "ARGUMENT is KEY=VALUE as x-max-length=1000: what a policy could set, too. " + typed.Help + " Clients that declare the queue as before do not notice; policies are merged with the new value as with a declared one.\n\n" +
			examples("queue set orders x-max-length=100000 x-delivery-limit=5", "queue set orders --without x-message-ttl", "queue set orders --reset"),
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "without", Usage: "have `KEY` count as not given, repeatable"},
			&cli.BoolFlag{Name: "reset", Usage: "forget the changes made so far: what was declared counts again"},
		},
		Action: func(c *cli.Context) error {
			s, name, rest, err := nameOf(c, std, queueNoun)
			if err != nil {
				return err
			}
			given, err := typed.Pairs(rest)
			if err != nil {
				return usagef(c, "%s", err)
			}
			if len(given) == 0 && len(c.StringSlice("without")) == 0 && !c.Bool("reset") {
				return usagef(c, "want an argument KEY=VALUE, --without KEY or --reset")
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			body, err := api.Get(c.Context, s.at(queueNoun, name), nil)
			if err != nil {
				return exit.Wrap(err, "%s", s.named(queueNoun, name))
			}
			q, err := httpapi.Decode(body)
			if err != nil {
				return err
			}
			changes := map[string]any{}
			if old, ok := q["changed_arguments"].(map[string]any); ok && !c.Bool("reset") {
				changes = old
			}
			for key, value := range given {
				changes[key] = value
			}
			for _, key := range c.StringSlice("without") {
				changes[key] = nil
			}
			if _, err := api.Put(c.Context, httpapi.Path("queues", s.vhost, name, "arguments"), map[string]any{"arguments": changes}); err != nil {
				return exit.Wrap(err, "%s", s.named(queueNoun, name))
			}
			s.notice("changed %s", s.named(queueNoun, name))
			return nil
		},
	}
}
