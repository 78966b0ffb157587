package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/table"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/terminal"

	"github.com/urfave/cli/v2"
)

// nearLimit is the share of a limited resource from which on its use is a warning.
const nearLimit = 0.9

// diskNearFactor: free disk space below this many times the alarm's threshold is a warning.
const diskNearFactor = 2

func statusCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "the cluster on one screen: version, nodes, counts, rates, alarms",
		Description: "With -o json the object of GET /api/overview. The exit code is 0 also when there are warnings.\n\n" + examples("status"),
		Action: func(c *cli.Context) error {
			s, err := settingsOf(c, std)
			if err != nil {
				return err
			}
			if err := noArguments(c); err != nil {
				return err
			}
			return s.status(c)
		},
	}
}

func noArguments(c *cli.Context) error {
	if c.NArg() > 0 {
		return usagef(c, "unexpected argument %q", c.Args().First())
	}
	return nil
}

func (s *settings) status(c *cli.Context) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	body, err := api.Get(c.Context, httpapi.Path("overview"), nil)
	if err != nil {
		return err
	}
	if s.json {
		return writeJSON(s.out, body)
	}
	overview, err := httpapi.Decode(body)
	if err != nil {
		return err
	}
	body, err = api.Get(c.Context, httpapi.Path("nodes"), nil)
	if err != nil {
		return err
	}
	nodes, err := httpapi.DecodeList(body)
	if err != nil {
		return err
	}
	return s.writeStatus(overview, nodes)
}

func (s *settings) writeStatus(overview httpapi.Object, nodes []httpapi.Object) error {
	running := 0
	for _, n := range nodes {
		if n.Bool("running") {
			running++
		}
	}
	objects := func(name string) string { return table.Group(overview.Int("object_totals." + name)) }
	totals := func(name string) string { return table.Group(overview.Int("queue_totals." + name)) }
	perSecond := func(name string) string { return rate(overview, "message_stats."+name+"_details.rate") + "/s" }
	pairs := []table.Pair{
		{Name: "Cluster", Value: overview.Text("cluster_name")},
		{Name: "Version", Value: product(overview)},
		{Name: "Nodes", Value: fmt.Sprintf("%d of %d running", running, len(nodes))},
		{Name: "Objects", Value: fmt.Sprintf("%s connections, %s channels, %s consumers, %s queues, %s exchanges",
			objects("connections"), objects("channels"), objects("consumers"), objects("queues"), objects("exchanges"))},
		{Name: "Messages", Value: fmt.Sprintf("%s: %s ready, %s unacknowledged", totals("messages"), totals("messages_ready"), totals("messages_unacknowledged"))},
		{Name: "Rates", Value: fmt.Sprintf("publish %s, confirm %s, deliver and get %s, ack %s, redeliver %s",
			perSecond("publish"), perSecond("confirm"), perSecond("deliver_get"), perSecond("ack"), perSecond("redeliver"))},
		{Name: "Listeners", Value: listeners(overview)},
	}
	if err := table.WritePairs(s.out, pairs); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	if err := nodeTable(nodes).Write(s.out, s.tableOptions()); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	return writeWarnings(s.out, append(warnings(nodes), replicationWarnings(overview)...))
}

// product names the software: its own name and version, and the RabbitMQ version that it speaks when that is another.
func product(overview httpapi.Object) string {
	name, own, compatible := overview.Text("product_name"), overview.Text("product_version"), overview.Text("rabbitmq_version")
	if name == "" {
		name, own = "RabbitMQ", compatible
	}
	text := strings.TrimSpace(name + " " + own)
	if compatible != "" && (name != "RabbitMQ" || own != compatible) {
		text += fmt.Sprintf(" (API of RabbitMQ %s)", compatible)
	}
	return text
}

// listeners is the list of protocols with their ports, each once.
func listeners(overview httpapi.Object) string {
	var parts []string
	seen := map[string]bool{}
	for _, l := range overview.List("listeners") {
		part := l.Text("protocol") + " " + l.Text("port")
		if !seen[part] {
			seen[part] = true
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ", ")
}

// nodeListing is the list of nodes, which status shows, too.
func nodeListing() listing {
	return listing{
		plural: "nodes", reach: ofCluster, example: "node ls --watch",
		path: func(*cli.Context, string) string { return httpapi.Path("nodes") },
		columns: []column{
			textColumn("NODE", "name"), {head: "STATE", keys: []string{"running", "being_drained"}, show: nodeState},
			{head: "UPTIME", keys: []string{"uptime"}, number: true, show: func(o httpapi.Object) string {
				if !o.Bool("running") {
					return unknown
				}
				return table.Age(time.Duration(o.Int("uptime")) * time.Millisecond)
			}},
			sizeColumn("MEMORY", "mem_used"), sizeColumn("LIMIT", "mem_limit"), sizeColumn("DISK FREE", "disk_free"), countColumn("FILES", "fd_used"), countColumn("SOCKETS", "sockets_used"),
			countColumn("CPUS", "processors"), wide(textColumn("VERSION", "rabbitmq_version")), wide(countColumn("PROCESSES", "proc_used")), wide(textColumn("OS PID", "os_pid")),
		},
	}
}

func nodeState(o httpapi.Object) string {
	switch {
	case !o.Bool("running"):
		return "down"
	case o.Bool("being_drained"):
		return "draining"
	}
	return "running"
}

func nodeTable(nodes []httpapi.Object) *table.Table {
	t := &table.Table{}
	l := nodeListing()
	for _, col := range l.columns {
		if !col.wide {
			t.Columns = append(t.Columns, table.Column{Head: col.head, Number: col.number})
		}
	}
	for _, n := range nodes {
		var row []string
		for i := range t.Columns {
			row = append(row, l.columns[i].text(n))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func size(o httpapi.Object, name string) string {
	f, ok := o.Float(name)
	if !ok {
		return unknown
	}
	return table.Bytes(f)
}

// warning is something an operator should know; alarm means that the broker already acts on it.
type warning struct {
	alarm bool
	text  string
}

// warnings finds what is wrong with the nodes.
func warnings(nodes []httpapi.Object) []warning {
	var out []warning
	for _, n := range nodes {
		name := n.Text("name")
		add := func(alarm bool, format string, args ...any) {
			out = append(out, warning{alarm, "node " + name + ": " + fmt.Sprintf(format, args...)})
		}
		if !n.Bool("running") {
			add(true, "not running")
			continue
		}
		if n.Bool("mem_alarm") {
			add(true, "memory alarm, publishers are blocked (%s used, limit %s)", size(n, "mem_used"), size(n, "mem_limit"))
		} else if near(n, "mem_used", "mem_limit") {
			add(false, "memory close to its limit (%s of %s)", size(n, "mem_used"), size(n, "mem_limit"))
		}
		free, okFree := n.Float("disk_free")
		limit, okLimit := n.Float("disk_free_limit")
		if n.Bool("disk_free_alarm") {
			add(true, "disk alarm, publishers are blocked (%s free, limit %s)", size(n, "disk_free"), size(n, "disk_free_limit"))
		} else if okFree && okLimit && free < limit*diskNearFactor {
			add(false, "free disk space close to its limit (%s, limit %s)", size(n, "disk_free"), size(n, "disk_free_limit"))
		}
		if near(n, "fd_used", "fd_total") {
			add(false, "file descriptors nearly used up (%s of %s)", count(n, "fd_used"), count(n, "fd_total"))
		}
		if near(n, "sockets_used", "sockets_total") {
			add(false, "sockets nearly used up (%s of %s)", count(n, "sockets_used"), count(n, "sockets_total"))
		}
		if parted := n.Strings("partitions"); len(parted) > 0 {
			add(true, "partitioned from %s", strings.Join(parted, ", "))
		}
		if n.Bool("being_drained") {
			add(false, "in maintenance, takes no new connections")
		}
	}
	return out
}

// replicationWarnings finds queues that have not the replicas that they should have. Only brokers that tell so in the overview know.
func replicationWarnings(overview httpapi.Object) []warning {
	const key = "replication."
	var out []warning
	if overview.Int(key+"nodes") == 2 {
		out = append(out, warning{false, "with two nodes a queue has one replica; add a third node"})
	}
	for _, kind := range []struct {
		key       string
		alarm     bool
		one, many string
	}{
		{"short", false, "queue has fewer replicas than due, to be added as soon as enough nodes are up", "queues have fewer replicas than due, to be added as soon as enough nodes are up"},
		{"wanting", false, "queue has fewer replicas than declared with, for the cluster is too small", "queues have fewer replicas than declared with, for the cluster is too small"},
		{"minority", true, "queue has too few replicas up to serve", "queues have too few replicas up to serve"},
		{"down", true, "queue is down", "queues are down"},
	} {
		count := overview.Int(key + "queues_" + kind.key)
		if count == 0 {
			continue
		}
		var names []string
		for _, q := range overview.List(key + "queues_" + kind.key + "_named") {
			names = append(names, q.Text("name")+" in "+q.Text("vhost"))
		}
		if int64(len(names)) < count {
			names = append(names, "...")
		}
		what := kind.many
		if count == 1 {
			what = kind.one
		}
		out = append(out, warning{kind.alarm, fmt.Sprintf("%s %s: %s", table.Group(count), what, strings.Join(names, ", "))})
	}
	return out
}

func near(o httpapi.Object, used, total string) bool {
	u, okUsed := o.Float(used)
	t, okTotal := o.Float(total)
	return okUsed && okTotal && t > 0 && u >= t*nearLimit
}

func writeWarnings(w io.Writer, list []warning) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "No alarms, no warnings.")
		return err
	}
	for _, item := range list {
		head, colour := "WARNING", "\x1b[33m"
		if item.alarm {
			head, colour = "ALARM", "\x1b[31m"
		}
		if terminal.Colour(w) {
			head = colour + head + "\x1b[0m"
		}
		if _, err := fmt.Fprintf(w, "%s  %s\n", head, table.Clean(item.text)); err != nil {
			return err
		}
	}
	return nil
}
