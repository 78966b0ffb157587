package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/bench"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/table"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/typed"

	"github.com/urfave/cli/v2"
)

// The defaults of bench: durable, confirmed, acknowledged, a kibibyte.
const (
	benchBodyBytes = 1024
	benchWindow    = 1000
	benchPrefetch  = 1000
	benchAckEvery  = 200
	benchSeconds   = "10"
	benchWarmup    = "3"
)

func benchCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "bench", Usage: "measure rates and latencies of any AMQP 0-9-1 broker, and check that no message was lost or doubled",
		Description: "Latency is the time from the moment a message was due to its delivery. The exit code is 65 when the counts do not agree.\n" +
			"Flags and letters follow RabbitMQ's PerfTest. -q is the prefetch here; quiet is --quiet.\n" + typed.Help + "\n\n" + examples("bench -x 2 -y 2 -s 1000 -z 30"),
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "producers", Aliases: []string{"x"}, Value: 1, Usage: "`NUMBER` of producers, a connection each"},
			&cli.IntFlag{Name: "consumers", Aliases: []string{"y"}, Value: 1, Usage: "`NUMBER` of consumers, a connection each"},
			&cli.IntFlag{Name: "size", Aliases: []string{"s"}, Value: benchBodyBytes, Usage: "`BYTES` of a body"},
			&cli.IntFlag{Name: "prefetch", Aliases: []string{"q", "qos"}, Value: benchPrefetch, Usage: "unacknowledged `MESSAGES` of a consumer, 0 for no limit"},
			&cli.IntFlag{Name: "confirm", Aliases: []string{"c"}, Value: benchWindow, Usage: "unconfirmed `MESSAGES` of a producer, 0 to publish without confirms"},
			&cli.IntFlag{Name: "multi-ack-every", Aliases: []string{"A"}, Value: benchAckEvery, Usage: "acknowledge every `NUMBER` messages at once"},
			&cli.Float64Flag{Name: "rate", Aliases: []string{"r"}, Usage: "`MESSAGES` per second of each producer, 0 for as fast as possible"},
			&cli.StringFlag{Name: "time", Aliases: []string{"z", "duration"}, Value: benchSeconds, Usage: "`TIME` to measure, seconds or 1m30s"},
			&cli.StringFlag{Name: "warmup", Value: benchWarmup, Usage: "`TIME` before that, not measured"},
			&cli.Uint64Flag{Name: "pmessages", Aliases: []string{"C"}, Usage: "each producer publishes `NUMBER` messages; then no --time and --warmup unless given", DefaultText: "no limit"},
			&cli.Uint64Flag{Name: "cmessages", Aliases: []string{"D"}, Usage: "each consumer takes `NUMBER` messages; likewise", DefaultText: "no limit"},
			&cli.StringFlag{Name: "queue", Aliases: []string{"u"}, Usage: "`NAME` of the queue; bench deletes in the end what it had to declare", DefaultText: "a new one"},
			&cli.IntFlag{Name: "queues", Value: 1, Usage: "`NUMBER` of queues NAME-1, NAME-2, ...; workers take turns on them"},
			&cli.StringFlag{Name: "queue-type", Value: "quorum", Usage: "`TYPE` quorum or classic"},
			&cli.StringSliceFlag{Name: "queue-args", Usage: "further arguments `K=V[,K=V]` of the queue, repeatable"},
			&cli.BoolFlag{Name: "keep", Usage: "do not delete the queue"},
			&cli.BoolFlag{Name: "auto-ack", Aliases: []string{"a"}, Usage: "consume without acknowledgements"},
			&cli.BoolFlag{Name: "persistent", Value: true, Usage: "persistent messages"},
		},
		Action: func(c *cli.Context) error {
			s, err := settingsOf(c, std)
			if err != nil {
				return err
			}
			if err := noArguments(c); err != nil {
				return err
			}
			cfg, err := s.benchConfig(c)
			if err != nil {
				return err
			}
			return s.bench(c, cfg)
		},
	}
}

// benchConfig reads the flags.
func (s *settings) benchConfig(c *cli.Context) (bench.Config, error) {
	cfg := bench.Config{
		Target: s.target("bench"), Producers: c.Int("producers"), Consumers: c.Int("consumers"), BodyBytes: c.Int("size"),
		Prefetch: c.Int("prefetch"), Window: c.Int("confirm"), AckEvery: c.Int("multi-ack-every"), Rate: c.Float64("rate"),
		Queue: c.String("queue"), QueueCount: c.Int("queues"), Keep: c.Bool("keep"),
		AutoAck: c.Bool("auto-ack"), Persistent: c.Bool("persistent"),
		ProducerMessages: c.Uint64("pmessages"), ConsumerMessages: c.Uint64("cmessages"),
		Notice: func(text string) { s.notice("%s", text) },
	}
	limited := cfg.ProducerMessages > 0 || cfg.ConsumerMessages > 0
	var err error
	if cfg.Duration, err = benchTime(c, "time", limited); err != nil {
		return cfg, err
	}
	if cfg.Warmup, err = benchTime(c, "warmup", limited); err != nil {
		return cfg, err
	}
	arguments, err := declareArguments(c, splitArguments(c.StringSlice("queue-args")), c.String("queue-type"))
	if err != nil {
		return cfg, err
	}
	cfg.QueueArgs, cfg.QueueType = arguments, c.String("queue-type")
	if cfg.Prefetch > 0 && !c.IsSet("multi-ack-every") {
		cfg.AckEvery = min(cfg.AckEvery, (cfg.Prefetch+1)/2) // a default must not stop a small prefetch
	}
	if !s.quiet {
		cfg.Progress = func(i bench.Interval) { fmt.Fprintln(s.err, intervalLine(i)) }
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usagef(c, "%s", err)
	}
	if cfg.Queue == "" {
		cfg.Queue = fmt.Sprintf("amqpctl-bench-%08x", rand.Uint32())
	}
	return cfg, nil
}

// benchTime reads a duration; a bare number is seconds. A run that ends by its number of messages has no duration unless one is given.
func benchTime(c *cli.Context, flag string, limited bool) (time.Duration, error) {
	if limited && !c.IsSet(flag) {
		return 0, nil
	}
	text := c.String(flag)
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds >= 0 && seconds < 1e9 {
		return time.Duration(seconds * float64(time.Second)), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, usagef(c, "--%s %q is no time, want seconds or 1m30s", flag, text)
	}
	return d, nil
}

// splitArguments splits KEY=VALUE,KEY=VALUE. A json: value may contain commas and so is not split.
func splitArguments(words []string) []string {
	var out []string
	for _, word := range words {
		if strings.Contains(word, "=json:") {
			out = append(out, word)
			continue
		}
		out = append(out, strings.Split(word, ",")...)
	}
	return out
}

func intervalLine(i bench.Interval) string {
	return fmt.Sprintf("%5.1fs  %-7s  published %9s/s  confirmed %9s/s  consumed %9s/s  latency p50 %8s ms  p99 %8s ms", i.At.Seconds(), i.Phase,
		table.Group(int64(i.Published)), table.Group(int64(i.Confirmed)), table.Group(int64(i.Consumed)), table.Latency(i.P50Nanos), table.Latency(i.P99Nanos))
}

func (s *settings) bench(c *cli.Context, cfg bench.Config) error {
	report, err := bench.Run(c.Context, cfg)
	if err != nil {
		return err
	}
	if s.json {
		body, err := json.Marshal(report)
		if err != nil {
			return err
		}
		if err := writeJSON(s.out, body); err != nil {
			return err
		}
	} else if err := s.writeReport(report); err != nil {
		return err
	}
	switch {
	case c.Context.Err() != nil:
		return exit.Errorf(exit.Interrupted, "interrupted; the figures cover %.1f s", report.Seconds)
	case !report.Check.OK:
		return exit.Errorf(exit.Data, "the counts do not agree: %s", strings.Join(report.Check.Differences, "; "))
	}
	return nil
}

// plural is a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return table.Group(int64(n)) + " " + noun + "s"
}

// writeReport prints the result for people.
func (s *settings) writeReport(r *bench.Report) error {
	ack := fmt.Sprintf("prefetch %d, ack every %d", r.Prefetch, r.AckEvery)
	if r.AutoAck {
		ack = "automatic ack"
	}
	confirm := fmt.Sprintf("confirm window %d", r.Window)
	if r.Window == 0 {
		confirm = "no confirms"
	}
	pairs := []table.Pair{
		{Name: "Broker", Value: r.Broker},
		{Name: "Load", Value: strings.Join([]string{
			plural(r.Producers, "producer"), plural(r.Consumers, "consumer"), plural(r.Queues, r.QueueType+" queue"), plural(r.BodyBytes, "byte"), confirm, ack}, ", ")},
		{Name: "Measured", Value: fmt.Sprintf("%.1f s, amqpctl itself used %.2f CPUs", r.Seconds, r.GeneratorCPUs)},
	}
	if err := table.WritePairs(s.out, pairs); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	rates := table.Table{Columns: []table.Column{{Head: ""}, {Head: "MESSAGES", Number: true}, {Head: "PER SECOND", Number: true}}, Rows: [][]string{
		{"published", table.Group(int64(r.Published)), table.Group(int64(r.PublishRate))},
		{"confirmed", table.Group(int64(r.Confirmed)), table.Group(int64(r.ConfirmRate))},
		{"consumed", table.Group(int64(r.Consumed)), table.Group(int64(r.ConsumeRate))},
	}}
	if err := rates.Write(s.out, s.tableOptions()); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	if err := latencyTable(r).Write(s.out, s.tableOptions()); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	return table.WritePairs(s.out, []table.Pair{{Name: "Check", Value: checkLine(r)}})
}

func latencyTable(r *bench.Report) *table.Table {
	t := &table.Table{Columns: []table.Column{{Head: "LATENCY, MS"}}}
	for _, head := range []string{"MIN", "MEAN", "P50", "P95", "P99", "P99.9", "MAX"} {
		t.Columns = append(t.Columns, table.Column{Head: head, Number: true})
	}
	add := func(name string, l *bench.Latency) {
		if l == nil {
			return
		}
		row := []string{name}
		for _, ms := range []float64{l.Min, l.Mean, l.P50, l.P95, l.P99, l.P999, l.Max} {
			row = append(row, table.Latency(int64(ms*1e6)))
		}
		t.Rows = append(t.Rows, row)
	}
	add("delivery", r.Latency)
	add("confirm", r.ConfirmedIn)
	return t
}

// checkLine is the account of all messages of the run. Without producers there is nothing to compare with.
func checkLine(r *bench.Report) string {
	c := &r.Check
	group := func(n uint64) string { return table.Group(int64(n)) }
	var parts []string
	if r.Producers > 0 {
		parts = append(parts, "published "+group(c.Published), "confirmed "+group(c.Confirmed))
	}
	if r.Consumers > 0 {
		parts = append(parts, "consumed "+group(c.Consumed))
	}
	if r.Producers > 0 && r.Consumers > 0 {
		parts = append(parts, "not consumed "+group(c.Missing), "duplicates "+group(c.Duplicates))
	}
	if r.Producers > 0 {
		parts = append(parts, "left in the queue "+group(c.Left))
	}
	if c.Foreign > 0 {
		parts = append(parts, "foreign "+group(c.Foreign))
	}
	text := strings.Join(parts, ", ")
	if c.OK {
		return "ok: " + text
	}
	return "DIFFERENCE: " + text
}
