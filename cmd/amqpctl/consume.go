package main

import (
	"github.com/warrenmq/warren/cmd/amqpctl/internal/consume"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"

	"github.com/urfave/cli/v2"
)

// consumePrefetch is the default number of unacknowledged messages.
const consumePrefetch = 100

func consumeCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "consume", Usage: "take messages from a queue and write them to standard output", ArgsUsage: "QUEUE",
		Description: "Runs until --count messages are written, the queue is empty (--until-empty), or Ctrl-C (exit code 130).\n" +
			"--ack manual acknowledges a message after it was written, auto when the broker sends it, requeue puts all back in the end.\n" +
			"--format body is the body and a newline, raw the body alone, json one object of the HTTP API per line.\n\n" + examples("consume orders --count 10 --ack requeue"),
		Flags: []cli.Flag{
			&cli.Uint64Flag{Name: "count", Aliases: []string{"n"}, Usage: "end after `NUMBER` messages; never more are taken", DefaultText: "no limit"},
			&cli.BoolFlag{Name: "until-empty", Usage: "end when the queue has no ready messages"},
			&cli.StringFlag{Name: "ack", Value: string(consume.AckManual), Usage: "`WAY` auto, manual or requeue"},
			&cli.IntFlag{Name: "prefetch", Value: consumePrefetch, Usage: "`NUMBER` of unacknowledged messages, 0 for no limit"},
			&cli.StringFlag{Name: "format", Usage: "`FORMAT` body, json or raw; default body, json with -o json", DefaultText: "body"},
		},
		Action: func(c *cli.Context) error {
			s, err := settingsOf(c, std)
			if err != nil {
				return err
			}
			opt, err := s.consumeOptions(c)
			if err != nil {
				return err
			}
			written, err := consume.Run(c.Context, s.target("consume"), opt, s.out)
			if written == 1 {
				s.notice("1 message from %s", s.queueName(opt.Queue))
			} else if written > 0 || err == nil {
				s.notice("%d messages from %s", written, s.queueName(opt.Queue))
			}
			if err != nil {
				return exit.Wrap(err, "%s", s.queueName(opt.Queue))
			}
			if c.Context.Err() != nil && (opt.Count == 0 || written < opt.Count) {
				return &reported{code: exit.Interrupted}
			}
			return nil
		},
	}
}

func (s *settings) consumeOptions(c *cli.Context) (consume.Options, error) {
	opt := consume.Options{
		Queue: c.Args().First(), Count: c.Uint64("count"), UntilEmpty: c.Bool("until-empty"), Ack: consume.Ack(c.String("ack")), Prefetch: c.Int("prefetch"),
	}
	format := c.String("format")
	if format == "" {
		format = map[bool]string{true: "json", false: "body"}[s.json]
	}
	opt.Format = consume.Formats[format]
	switch {
	case opt.Queue == "":
		return opt, usagef(c, "the name of a queue is missing")
	case c.NArg() > 1:
		return opt, usagef(c, "unexpected argument %q", c.Args().Get(1))
	case c.IsSet("count") && opt.Count == 0:
		return opt, usagef(c, "--count must be at least 1")
	case opt.Ack != consume.AckAuto && opt.Ack != consume.AckManual && opt.Ack != consume.AckRequeue:
		return opt, usagef(c, "unknown --ack %q, want auto, manual or requeue", opt.Ack)
	case opt.Prefetch < 0 || opt.Prefetch > consume.PrefetchMax:
		return opt, usagef(c, "--prefetch must be 0 (no limit) to %d", consume.PrefetchMax)
	case opt.Format == nil:
		return opt, usagef(c, "unknown --format %q, want body, json or raw", format)
	case opt.Ack == consume.AckRequeue && opt.Count > consume.PrefetchMax:
		return opt, usagef(c, "--ack requeue holds all messages, so --count must be at most %d", consume.PrefetchMax)
	}
	return opt, nil
}
