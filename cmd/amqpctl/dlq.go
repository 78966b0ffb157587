package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/table"

	"github.com/urfave/cli/v2"
)

// progressEvery is how often a redrive is asked how far it is.
const progressEvery = time.Second

// The states of a redrive that has not done all, as the API has them.
const (
	redriveRunning = "running"
	redriveFailed  = "failed"
	redriveStopped = "stopped"
)

func dlqCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "dlq", Aliases: []string{"dead-letters"}, Usage: "list, show and redrive dead letters",
		Subcommands: []*cli.Command{
			listCommand(std, dlqListing()), dlqShowCommand(std), dlqRedriveCommand(std), dlqStopCommand(std), redriveJobsCommand(std),
		},
	}
}

func redriveJobsCommand(std streams) *cli.Command {
	c := listCommand(std, redriveListing())
	c.Name, c.Aliases = "jobs", nil
	return c
}

func dlqListing() listing {
	return listing{
		plural: "queues that dead letters go to", example: "dlq ls -A",
		path: func(_ *cli.Context, vhost string) string { return vhostPath("dead-letters", vhost) },
		columns: []column{
			vhostColumn, textColumn("NAME", "name"), countColumn("READY", "messages_ready"), wide(countColumn("SAMPLED", "sampled")),
			{head: "DIED IN (OF THE FIRST 1000)", keys: []string{"sources"}, show: deathSources},
		},
	}
}

// deathSources shows where the messages of a sample died and why.
func deathSources(o httpapi.Object) string {
	var parts []string
	for _, source := range o.List("sources") {
		from := "no death"
		if name := source.Text("queue"); name != "" {
			from = name + " " + source.Text("reason")
		}
		parts = append(parts, from+": "+count(source, "messages"))
	}
	return strings.Join(parts, ", ")
}

func redriveListing() listing {
	return listing{
		plural: "redrives and moves that run or ran", example: "dlq jobs", id: "id", reach: ofCluster,
		path: func(*cli.Context, string) string { return httpapi.Path("redrives") },
		columns: []column{
			textColumn("ID", "id"), textColumn("KIND", "kind"), textColumn("VHOST", "vhost"), textColumn("QUEUE", "queue"), textColumn("TO", "to"), textColumn("STATE", "state"),
			countColumn("MOVED", "moved"), countColumn("SKIPPED", "skipped"), wide(countColumn("SCANNED", "scanned")), wide(textColumn("USER", "user")), textColumn("REASON", "reason"),
		},
	}
}

func dlqShowCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "show", Aliases: []string{"peek"}, Usage: "look at dead letters of a queue without taking them", ArgsUsage: "QUEUE",
		Description: "TIMES is how often the message died in that queue for that reason, SINCE when for the first time. `queue peek QUEUE --long` shows all of a message.\n\n" +
			examples("dlq show orders.dead", "dlq show amq.dead --offset 100"),
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "offset", Usage: "skip `N` messages at the head"},
			&cli.IntFlag{Name: "count", Aliases: []string{"n"}, Value: 20, Usage: "show up to `N` messages"},
		},
		Action: func(c *cli.Context) error {
			s, name, err := oneName(c, std, queueNoun)
			if err != nil {
				return err
			}
			if c.Int("offset") < 0 || c.Int("count") < 1 {
				return usagef(c, "--offset must not be negative, --count be at least 1")
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			body := map[string]any{"offset": c.Int("offset"), "count": c.Int("count"), "truncate": peekBytes, "encoding": "auto"}
			answer, err := api.Ask(c.Context, httpapi.Path("queues", s.vhost, name, "peek"), body)
			if err != nil {
				return exit.Wrap(err, "%s", s.queueName(name))
			}
			if s.json {
				return writeJSON(s.out, answer)
			}
			seen, err := httpapi.Decode(answer)
			if err != nil {
				return err
			}
			messages := seen.List("items")
			if err := deathTable(messages).Write(s.out, s.tableOptions()); err != nil {
				return err
			}
			s.notice("%d of %s messages of %s", len(messages), count(seen, "total"), s.queueName(name))
			return nil
		},
	}
}

func deathTable(messages []httpapi.Object) *table.Table {
	t := &table.Table{Columns: []table.Column{
		{Head: "POS", Number: true}, {Head: "DIED IN"}, {Head: "REASON"}, {Head: "TIMES", Number: true}, {Head: "SINCE"}, {Head: "KEY"}, {Head: "MESSAGE ID"}, {Head: "PAYLOAD"},
	}}
	for _, m := range messages {
		died, reason, times, since, key := unknown, "", "", "", m.Text("routing_key")
		if deaths := m.List("properties.headers.x-death"); len(deaths) > 0 {
			last := deaths[0]
			died, reason, times = last.Text("queue"), last.Text("reason"), last.Text("count")
			since = time.Unix(last.Int("time"), 0).UTC().Format(time.RFC3339)
			if keys := last.Strings("routing-keys"); len(keys) > 0 {
				key = keys[0]
			}
		}
		t.Rows = append(t.Rows, []string{m.Text("position"), died, reason, times, since, key, m.Text("properties.message_id"), shownPayload(m)})
	}
	return t
}

// choiceFlags choose messages for a redrive or a move, and how fast they go.
func choiceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "from", Usage: "only what died last in `QUEUE`"},
		&cli.StringFlag{Name: "reason", Usage: "only what died last for `REASON`: rejected, expired, maxlen or delivery_limit"},
		&cli.StringFlag{Name: "routing-key", Usage: "only with `KEY`, as before the last death"},
		&cli.StringSliceFlag{Name: "message-id", Usage: "only with the property message_id `ID`, repeatable"},
		&cli.DurationFlag{Name: "older-than", Usage: "only what died, for the first time so, at least `TIME` ago, as 90s or 24h"},
		&cli.Uint64Flag{Name: "limit", Usage: "at most `N` messages"},
		&cli.Uint64Flag{Name: "rate", Usage: "at most `N` messages per second"},
		&cli.BoolFlag{Name: "no-wait", Usage: "print the id of the job and do not wait for its end"},
		dryRunFlag(),
	}
}

func dlqRedriveCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "redrive", Usage: "move dead letters back to where they died", ArgsUsage: "QUEUE",
		Description: "Without --to each goes to the queue in which it died last. It keeps its deaths and properties, and has its old exchange and routing key again. What comes into QUEUE\n" +
			"meanwhile stays. The job runs in the broker: ^C ends the waiting alone, `dlq stop ID` ends the job. A job that is lost with its node is simply begun again: no message is\n" +
			"lost or doubled.\n\n" +
			examples("dlq redrive orders.dead --dry-run", "dlq redrive orders.dead --from orders --reason rejected --rate 100", "dlq redrive amq.dead --message-id 4711 --to orders.retry"),
		Flags: append([]cli.Flag{&cli.StringFlag{Name: "to", Usage: "to `QUEUE`, not where they died"}}, choiceFlags()...),
		Action: func(c *cli.Context) error {
			s, name, err := oneName(c, std, queueNoun)
			if err != nil {
				return err
			}
			return s.redrive(c, "redrive", name, c.String("to"))
		},
	}
}

func queueMoveCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "move", Usage: "move messages to another queue", ArgsUsage: "QUEUE TO",
		Description: "The ready messages that are there when it begins, or those that the flags choose. Each is in one of the queues, once, whatever fails. The job runs in the broker, as with `dlq redrive`.\n\n" +
			examples("queue move orders orders.v2 --dry-run", "queue move orders orders.v2 --limit 1000 --rate 100"),
		Flags: choiceFlags(),
		Action: func(c *cli.Context) error {
			s, name, rest, err := nameOf(c, std, queueNoun)
			if err != nil {
				return err
			}
			if len(rest) != 1 {
				return usagef(c, "want two queues, QUEUE TO")
			}
			if err := checkName(c, queueNoun, rest[0]); err != nil {
				return err
			}
			return s.redrive(c, "move", name, rest[0])
		},
	}
}

// redrive begins a redrive or a move and waits for its end.
func (s *settings) redrive(c *cli.Context, verb, name, to string) error {
	body := map[string]any{}
	for _, key := range [...]string{"to", "from", "reason"} {
		if c.IsSet(key) && c.String(key) == "" {
			return usagef(c, "--%s is empty", key) // as of a variable that is not set: it must not choose more
		}
	}
	for _, key := range [...]string{"from", "reason"} {
		if text := c.String(key); text != "" {
			body[key] = text
		}
	}
	if c.IsSet("routing-key") { // it may be empty: that chooses what was published with no key
		body["routing_key"] = c.String("routing-key")
	}
	if to != "" {
		body["to"] = to
	}
	for _, key := range [...]string{"limit", "rate"} {
		if c.IsSet(key) {
			body[key] = c.Uint64(key)
		}
	}
	if ids := c.StringSlice("message-id"); slices.Contains(ids, "") {
		return usagef(c, "--message-id is empty")
	} else if len(ids) > 0 {
		body["message_ids"] = ids
	}
	if c.IsSet("older-than") {
		if c.Duration("older-than") < time.Second {
			return usagef(c, "--older-than must be at least 1s")
		}
		body["older_than"] = int64(c.Duration("older-than") / time.Second)
	}
	dry := c.Bool("dry-run")
	if dry {
		body["dry_run"] = true
	} else if err := s.confirm(strings.ToUpper(verb[:1]) + verb[1:] + " messages of " + s.queueName(name) + "?"); err != nil {
		return err
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	answer, err := api.Ask(c.Context, httpapi.Path("queues", s.vhost, name, verb), body)
	if err != nil {
		return exit.Wrap(err, "%s", s.queueName(name))
	}
	job, err := httpapi.Decode(answer)
	if err == nil && !c.Bool("no-wait") {
		answer, job, err = s.follow(c.Context, api, answer, job)
	}
	if err != nil {
		return err
	}
	return s.writeRedrive(answer, job, dry)
}

// follow waits for the end of a job and shows how far it is.
func (s *settings) follow(ctx context.Context, api *httpapi.Client, answer json.RawMessage, job httpapi.Object) (json.RawMessage, httpapi.Object, error) {
	id := job.Text("id")
	for job.Text("state") == redriveRunning {
		line := fmt.Sprintf("%s: %s moved, %s skipped, %s looked at", id, count(job, "moved"), count(job, "skipped"), count(job, "scanned"))
		if reason := job.Text("reason"); reason != "" {
			line += "; it waits: " + reason
		}
		s.notice("%s", line)
		select {
		case <-ctx.Done():
			s.notice("the job goes on; `%s dlq stop %s` ends it", program, id)
			return nil, nil, ctx.Err()
		case <-time.After(progressEvery):
		}
		var err error
		if answer, err = api.Get(ctx, httpapi.Path("redrives", id), nil); err != nil {
			return nil, nil, exit.Wrap(err, "job %s", id)
		}
		if job, err = httpapi.Decode(answer); err != nil {
			return nil, nil, err
		}
	}
	return answer, job, nil
}

// whyLeft are words for why messages stay.
var whyLeft = map[string]string{
	"no_death": "they did not die; name a queue with --to", "queue_gone": "there is no such queue", "same_queue": "they died in this very queue", "no_permission": "no permission to write there",
	"exclusive": "the queue belongs to a connection", "unreadable": "they could not be read now",
}

// writeRedrive shows what a job did, and fails if it failed.
func (s *settings) writeRedrive(answer json.RawMessage, job httpapi.Object, dry bool) error {
	if s.json {
		if err := writeJSON(s.out, answer); err != nil {
			return err
		}
	} else if err := s.tableOfRedrive(job, dry); err != nil {
		return err
	}
	switch job.Text("state") {
	case redriveFailed:
		return exit.Errorf(exit.Unavailable, "job %s failed: %s", job.Text("id"), job.Text("reason"))
	case redriveStopped:
		return exit.Errorf(exit.Interrupted, "job %s was stopped", job.Text("id"))
	}
	return nil
}

func (s *settings) tableOfRedrive(job httpapi.Object, dry bool) error {
	head := "MOVED"
	if dry {
		head = "WOULD MOVE"
	}
	t := &table.Table{Columns: []table.Column{{Head: "TO"}, {Head: head, Number: true}, {Head: "LEFT", Number: true}, {Head: "WHY"}}}
	for _, x := range job.List("targets") {
		t.Rows = append(t.Rows, []string{orUnknown(x.Text("queue")), count(x, "messages"), "", ""})
	}
	for _, x := range job.List("left") {
		why := x.Text("why")
		if text, ok := whyLeft[why]; ok {
			why = text
		}
		t.Rows = append(t.Rows, []string{orUnknown(x.Text("queue")), "", count(x, "messages"), why})
	}
	if len(t.Rows) > 0 {
		if err := t.Write(s.out, s.tableOptions()); err != nil {
			return err
		}
	}
	id := job.Text("id")
	switch {
	case job.Text("state") == redriveRunning:
		s.notice("job %s goes on: `%s dlq jobs` shows it, `%s dlq stop %s` ends it", id, program, program, id)
	case len(t.Rows) == 0:
		s.notice("no message was chosen, of %s", count(job, "scanned"))
	}
	if job.Int("pending") > 0 {
		reason := job.Text("pending_reason")
		if reason != "" {
			reason = ": " + reason
		}
		s.notice("%s messages are still on their way%s", count(job, "pending"), reason)
	}
	return nil
}

func dlqStopCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "stop", Usage: "stop a redrive or move; what has moved stays where it is", ArgsUsage: "ID", Description: examples("dlq stop 1-4-2"),
		Action: func(c *cli.Context) error {
			s, err := settingsOf(c, std)
			if err != nil {
				return err
			}
			if c.NArg() != 1 {
				return usagef(c, "want the id of a job; `%s dlq jobs` lists them", program)
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			if err := api.Delete(c.Context, httpapi.Path("redrives", c.Args().First()), nil); err != nil {
				return exit.Wrap(err, "job %s", c.Args().First())
			}
			s.notice("stopped job %s", c.Args().First())
			return nil
		},
	}
}

func drainingListing() listing {
	return listing{
		plural: "deleted queues from which messages are still on their way to others", example: "queue draining", reach: ofCluster,
		path: func(*cli.Context, string) string { return httpapi.Path("draining") },
		columns: []column{
			textColumn("ID", "id"), textColumn("VHOST", "vhost"), textColumn("NAME", "name"), countColumn("MESSAGES", "messages_dlx"), wide(sizeColumn("BYTES", "message_bytes_dlx")),
			textColumn("REASON", "dlx_pending_reason"),
		},
	}
}

func queueDrainingCommand(std streams) *cli.Command {
	c := listCommand(std, drainingListing())
	c.Name, c.Aliases = "draining", nil
	return c
}

func queueDropCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "drop", Usage: "remove a deleted queue though messages are still on their way from it: they are lost", ArgsUsage: "ID",
		Description: "`queue draining` lists such queues with their ids.\n\n" + examples("queue drop 1031"),
		Action: func(c *cli.Context) error {
			s, err := settingsOf(c, std)
			if err != nil {
				return err
			}
			if c.NArg() != 1 {
				return usagef(c, "want the id of a deleted queue; `%s queue draining` lists them", program)
			}
			id := c.Args().First()
			if err := s.confirm("Drop the messages of deleted queue " + id + "?"); err != nil {
				return err
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			answer, err := api.DeleteAnswer(c.Context, httpapi.Path("draining", id))
			if err != nil {
				return exit.Wrap(err, "deleted queue %s", id)
			}
			if s.json {
				return writeJSON(s.out, answer)
			}
			dropped, err := httpapi.Decode(answer)
			if err != nil {
				return err
			}
			known := ""
			if dropped.Text("leader") == "" {
				known = ", or more: it had no leader, and this is what was known last"
			}
			s.notice("removed deleted queue %q, %s messages are dropped%s", dropped.Text("name"), count(dropped, "messages_dropped"), known)
			return nil
		},
	}
}
