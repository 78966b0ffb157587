package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/progress"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/publish"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/terminal"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/typed"

	"github.com/urfave/cli/v2"
)

// publishWindow is the default number of unconfirmed messages.
const publishWindow = 1000

// lastAnswers bounds the wait for confirms after an interrupt.
const lastAnswers = 5 * time.Second

func publishCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "publish", Usage: "publish messages with confirms", ArgsUsage: "QUEUE | --exchange NAME --key KEY",
		Description: "The body is --data, --file or standard input. With --lines every line of the file or standard input is a message.\n" +
			"Every message is confirmed by the broker before the command ends well. A QUEUE that does not exist is an error (exit code 65).\n" +
			"When something fails, the number of confirmed messages and the first one in question are printed.\n" +
			"Properties: " + publish.PropertyNames + ".\n" + typed.Help + "\n\n" + examples("publish orders -d hello", "publish --exchange events --key order.new --file body.json --prop content-type=application/json"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "exchange", Aliases: []string{"e"}, Usage: "publish to an `EXCHANGE` instead of a queue"},
			&cli.StringFlag{Name: "key", Aliases: []string{"k"}, Usage: "routing `KEY` for --exchange"},
			&cli.StringFlag{Name: "data", Aliases: []string{"d"}, Usage: "the body is `TEXT`"},
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "the body is the content of `FILE` (- is standard input)"},
			&cli.BoolFlag{Name: "lines", Aliases: []string{"l"}, Usage: "one message per line"},
			&cli.Uint64Flag{Name: "count", Aliases: []string{"n"}, Value: 1, Usage: "publish the body `NUMBER` times"},
			&cli.StringSliceFlag{Name: "header", Usage: "header `K=V`, repeatable"},
			&cli.StringSliceFlag{Name: "prop", Usage: "property `NAME=V`, repeatable"},
			&cli.BoolFlag{Name: "persistent", Value: true, Usage: "messages survive a restart of the broker in durable queues"},
			&cli.BoolFlag{Name: "mandatory", Usage: "a message that no queue takes is an error", DefaultText: "true with QUEUE"},
			&cli.IntFlag{Name: "window", Value: publishWindow, Usage: "`NUMBER` of messages that may wait for their confirm"},
		},
		Action: func(c *cli.Context) error {
			s, err := settingsOf(c, std)
			if err != nil {
				return err
			}
			opt, err := s.publishOptions(c)
			if err != nil {
				return err
			}
			return s.publish(c, opt)
		},
	}
}

// publishOptions checks the flags and reads them.
func (s *settings) publishOptions(c *cli.Context) (publish.Options, error) {
	opt := publish.Options{
		Exchange: c.String("exchange"), Key: c.String("key"), Mandatory: c.Bool("mandatory"), Window: c.Int("window"), Timeout: s.timeout,
	}
	toExchange := c.IsSet("exchange")
	switch {
	case toExchange && c.NArg() > 0:
		return opt, usagef(c, "QUEUE %q and --exchange exclude each other", c.Args().First())
	case !toExchange && c.IsSet("key"):
		return opt, usagef(c, "--key goes with --exchange; a QUEUE is its own key")
	case !toExchange && (c.NArg() == 0 || c.Args().First() == ""):
		return opt, usagef(c, "the name of a queue, or --exchange, is missing")
	case c.NArg() > 1:
		return opt, usagef(c, "unexpected argument %q", c.Args().Get(1))
	case c.IsSet("data") && c.IsSet("file"):
		return opt, usagef(c, "--data and --file exclude each other")
	case c.Bool("lines") && c.IsSet("data"):
		return opt, usagef(c, "--lines reads a file or standard input, not --data")
	case c.Bool("lines") && c.IsSet("count"):
		return opt, usagef(c, "--lines and --count exclude each other")
	case opt.Window < 1 || opt.Window > publish.WindowMax:
		return opt, usagef(c, "--window must be 1 to %d", publish.WindowMax)
	}
	if !toExchange {
		opt.Key = c.Args().First()
		opt.Mandatory = opt.Mandatory || !c.IsSet("mandatory")
	}
	for _, name := range []string{opt.Exchange, opt.Key} {
		if len(name) > amqp.ShortstrBytesMax {
			return opt, usagef(c, "the name %.20q... is longer than %d bytes", name, amqp.ShortstrBytesMax)
		}
	}
	return opt, publishProperties(c, &opt.Properties)
}

func publishProperties(c *cli.Context, p *amqp.Properties) error {
	p.SetDeliveryMode(1)
	if c.Bool("persistent") {
		p.SetDeliveryMode(2)
	}
	if err := publish.SetProperties(p, c.StringSlice("prop")); err != nil {
		return usagef(c, "%s", err)
	}
	headers, err := typed.Pairs(c.StringSlice("header"))
	if err != nil {
		return usagef(c, "%s", err)
	}
	if len(headers) == 0 {
		return nil
	}
	encoded, err := amqp.TableFromMap(headers)
	if err != nil {
		return usagef(c, "headers: %s", err)
	}
	p.SetHeaders(encoded)
	return nil
}

// publish reads the body or lines and sends them.
func (s *settings) publish(c *cli.Context, opt publish.Options) error {
	var body []byte
	input, closeInput, err := s.publishInput(c)
	if err != nil {
		return err
	}
	defer closeInput()
	if !c.Bool("lines") {
		if body, err = readBody(input); err != nil {
			return err
		}
	}
	p, err := publish.Dial(c.Context, s.target("publish"), opt)
	if err != nil {
		return err
	}
	out := s.err
	if s.quiet {
		out = nil
	}
	meter := progress.Start(out, terminal.Is(s.err), func() uint64 { return p.Counts().Confirmed })
	if c.Bool("lines") {
		err = p.Lines(c.Context, input)
	} else {
		err = repeat(c.Context, p, body, c.Uint64("count"))
	}
	// Also after a failure or an interrupt the answers on their way are counted.
	last, cancel := c.Context, context.CancelFunc(func() {})
	if err != nil {
		last, cancel = context.WithTimeout(context.WithoutCancel(c.Context), min(s.timeout, lastAnswers))
	}
	defer cancel()
	counts, finishErr := p.Finish(last)
	elapsed := meter.Stop()
	if err == nil || exit.Of(err) == exit.Internal {
		err = finishErr
	}
	return s.published(c, opt, counts, elapsed, err)
}

func repeat(ctx context.Context, p *publish.Publisher, body []byte, n uint64) error {
	for range n {
		if err := p.Publish(ctx, body); err != nil {
			return err
		}
	}
	return nil
}

// publishInput opens what the body is read from.
func (s *settings) publishInput(c *cli.Context) (io.Reader, func(), error) {
	name := c.String("file")
	switch {
	case c.IsSet("data"):
		return strings.NewReader(c.String("data")), func() {}, nil
	case name != "" && name != "-":
		f, err := os.Open(name)
		if err != nil {
			return nil, nil, exit.Errorf(exit.Data, "%w", err)
		}
		return f, func() { f.Close() }, nil
	}
	if terminal.Is(s.in) {
		s.notice("reading from the terminal; Ctrl-D ends")
	}
	return s.in, func() {}, nil
}

func readBody(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, publish.BodyBytesMax+1))
	if err != nil {
		return nil, exit.Errorf(exit.Data, "body: %w", err)
	}
	if len(body) > publish.BodyBytesMax {
		return nil, exit.Errorf(exit.Data, "the body is longer than %d bytes", publish.BodyBytesMax)
	}
	return body, nil
}

// published reports the result. A failure says how far it came, so that a script can go on from there.
func (s *settings) published(c *cli.Context, opt publish.Options, counts publish.Counts, elapsed time.Duration, err error) error {
	if s.json {
		body, jsonErr := json.Marshal(struct {
			publish.Counts
			Seconds float64 `json:"seconds"`
		}{counts, elapsed.Seconds()})
		if jsonErr != nil {
			return jsonErr
		}
		if writeErr := writeJSON(s.out, body); writeErr != nil {
			return writeErr
		}
	}
	where := fmt.Sprintf("exchange %q, key %q", opt.Exchange, opt.Key)
	if opt.Exchange == "" {
		where = s.queueName(opt.Key)
	}
	if err == nil && counts.Confirmed == 1 {
		s.notice("1 message confirmed by %s", where)
		return nil
	}
	if err == nil {
		s.notice("%s in %.1f s to %s", progress.Line(counts.Confirmed, float64(counts.Confirmed)/max(elapsed.Seconds(), 1e-9)), elapsed.Seconds(), where)
		return nil
	}
	return &exit.Error{Code: exit.Of(err), Text: where + ": " + failureText(c, opt, counts, err), Err: err}
}

// failureText says why and how far it came. One message that the broker refused to take needs no numbers.
func failureText(c *cli.Context, opt publish.Options, counts publish.Counts, err error) string {
	text := exit.Text(err)
	if counts.Returned > 0 && opt.Exchange == "" {
		text = "no such queue: " + text
	}
	unit := "message"
	if c.Bool("lines") {
		unit = "line"
	}
	single := !c.Bool("lines") && c.Uint64("count") == 1
	switch code := exit.Of(err); {
	case single && (code == exit.Data || code == exit.Denied || counts.Refused > 0):
	case counts.FirstOpen > 0:
		text += fmt.Sprintf("; %s; the first %s not known to be confirmed is %d", counts, unit, counts.FirstOpen)
	case counts.Sent > 0:
		text += "; " + counts.String()
	}
	return text
}
