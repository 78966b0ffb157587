package main

import (
	"context"
	"fmt"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/table"

	"github.com/urfave/cli/v2"
)

// headingEvery is after how many lines the headings of a running table come again.
const headingEvery = 20

func queueWatchCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "watch", Usage: "show one queue again and again, a line each time, with what happened since the line before", ArgsUsage: "QUEUE",
		Description: "Rates are per second, counted between two lines; the first line has those of the broker. With -o json it prints the objects of\n" +
			"GET /api/queues/VHOST/QUEUE. ^C ends it.\n\n" + examples("queue watch orders", "queue watch orders --interval 10s"),
		Flags: []cli.Flag{&cli.DurationFlag{Name: "interval", Aliases: []string{"i"}, Value: time.Second, Usage: "`TIME` between two lines"}},
		Action: func(c *cli.Context) error {
			s, name, err := oneName(c, std, queueNoun)
			if err != nil {
				return err
			}
			if c.Duration("interval") < watchMin {
				return usagef(c, "--interval must be at least %v", watchMin)
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			w := &queueWatch{s: s, api: api, name: name}
			return w.run(c.Context, c.Duration("interval"))
		},
	}
}

// queueWatch is a running table of one queue.
type queueWatch struct {
	s      *settings
	api    *httpapi.Client
	name   string
	lines  int
	before httpapi.Object
	at     time.Time
}

func (w *queueWatch) run(ctx context.Context, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		err := w.line(ctx)
		switch {
		case ctx.Err() != nil:
			return &reported{code: exit.Interrupted}
		case err != nil && (w.lines == 0 || exit.Of(err) == exit.Data): // it never was there, or is gone
			return exit.Wrap(err, "%s", w.s.queueName(w.name))
		case err != nil:
			w.s.failure(err)
		}
		select {
		case <-ctx.Done():
			return &reported{code: exit.Interrupted}
		case <-ticker.C:
		}
	}
}

const queueWatchFormat = "%-8s %10s %10s %10s %9s %9s %9s %9s %11s\n"

// line prints the present state.
func (w *queueWatch) line(ctx context.Context) error {
	body, err := w.api.Get(ctx, w.s.at(queueNoun, w.name), nil)
	if err != nil {
		return err
	}
	if w.s.json {
		w.lines++
		return writeJSON(w.s.out, body)
	}
	q, err := httpapi.Decode(body)
	if err != nil {
		return err
	}
	now := time.Now()
	if w.lines%headingEvery == 0 && !w.s.noHeaders {
		fmt.Fprintf(w.s.out, queueWatchFormat, "TIME", "READY", "UNACKED", "TOTAL", "CONSUMERS", "IN/S", "OUT/S", "ACK/S", "REDELIVER/S")
	}
	w.lines++
	_, err = fmt.Fprintf(w.s.out, queueWatchFormat, now.Format(time.TimeOnly), count(q, "messages_ready"), count(q, "messages_unacknowledged"), count(q, "messages"),
		count(q, "consumers"), w.since(q, "publish", now), w.since(q, "deliver_get", now), w.since(q, "ack", now), w.since(q, "redeliver", now))
	w.before, w.at = q, now
	return err
}

// since is how often something happened per second since the line before. A counter that went back began anew, with the broker.
func (w *queueWatch) since(q httpapi.Object, name string, now time.Time) string {
	happened := q.Int("message_stats."+name) - w.before.Int("message_stats."+name)
	if w.before == nil || happened < 0 {
		return rate(q, "message_stats."+name+"_details.rate")
	}
	return table.Rate(float64(happened) / now.Sub(w.at).Seconds())
}
