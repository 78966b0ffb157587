package main

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/table"

	"github.com/urfave/cli/v2"
)

// queueColumns are the keys of the API that the default table needs; the broker is asked for these only.
var queueColumns = []string{
	"name", "vhost", "type", "state", "durable", "auto_delete", "exclusive", "messages_ready", "messages_unacknowledged", "messages", "consumers",
	"message_stats.publish_details.rate", "message_stats.deliver_get_details.rate", "message_stats.ack_details.rate",
}

func queueListCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "ls", Aliases: []string{"list"}, Usage: "list the queues of a virtual host",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all-vhosts", Aliases: []string{"A"}, Usage: "of every virtual host"},
			&cli.StringFlag{Name: "name", Usage: "only names that contain `TEXT`"},
			&cli.StringFlag{Name: "sort", Usage: "sort by a `KEY` of the API, descending with - in front (-messages)"},
			&cli.StringFlag{Name: "columns", Usage: "comma-separated `KEYS` of the API instead of the usual columns, dotted for inner ones"},
		},
		Action: func(c *cli.Context) error {
			s, err := settingsOf(c, std)
			if err != nil {
				return err
			}
			if err := noArguments(c); err != nil {
				return err
			}
			return s.listQueues(c)
		},
	}
}

func (s *settings) listQueues(c *cli.Context) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	path := httpapi.Path("queues", s.vhost)
	if c.Bool("all-vhosts") {
		path = httpapi.Path("queues")
	}
	query := url.Values{}
	if name := c.String("name"); name != "" {
		query.Set("name", name)
	}
	if key, descending := strings.CutPrefix(c.String("sort"), "-"); key != "" {
		query.Set("sort", key)
		if descending {
			query.Set("sort_reverse", "true")
		}
	}
	columns := splitColumns(c.String("columns"))
	switch {
	case len(columns) > 0:
		query.Set("columns", strings.Join(columns, ","))
	case !s.json:
		query.Set("columns", strings.Join(queueColumns, ","))
	}
	if s.json {
		list := listWriter{w: s.out}
		if err := api.List(c.Context, path, query, list.add); err != nil {
			return err
		}
		return list.close()
	}
	t := newQueueTable(columns, c.Bool("all-vhosts"))
	err = api.List(c.Context, path, query, t.add)
	if err != nil {
		return err
	}
	return t.table.Write(s.out, s.tableOptions())
}

func splitColumns(list string) []string {
	var out []string
	for _, column := range strings.Split(list, ",") {
		if column = strings.TrimSpace(column); column != "" {
			out = append(out, column)
		}
	}
	return out
}

// queueTable collects rows, with the usual columns or with named keys.
type queueTable struct {
	table table.Table
	keys  []string
	vhost bool
}

func newQueueTable(keys []string, vhost bool) *queueTable {
	t := &queueTable{keys: keys, vhost: vhost}
	if len(keys) > 0 {
		for _, key := range keys {
			t.table.Columns = append(t.table.Columns, table.Column{Head: key})
		}
		return t
	}
	if vhost {
		t.table.Columns = []table.Column{{Head: "VHOST"}}
	}
	t.table.Columns = append(t.table.Columns, []table.Column{
		{Head: "NAME"}, {Head: "TYPE"}, {Head: "FLAGS"}, {Head: "STATE"}, {Head: "READY", Number: true}, {Head: "UNACKED", Number: true},
		{Head: "TOTAL", Number: true}, {Head: "CONSUMERS", Number: true}, {Head: "IN/S", Number: true}, {Head: "OUT/S", Number: true}, {Head: "ACK/S", Number: true},
	}...)
	return t
}

func (t *queueTable) add(items []json.RawMessage) error {
	for _, item := range items {
		q, err := httpapi.Decode(item)
		if err != nil {
			return err
		}
		if len(t.keys) > 0 {
			t.addKeys(q)
			continue
		}
		var row []string
		if t.vhost {
			row = append(row, q.Text("vhost"))
		}
		perSecond := func(name string) string { return rate(q, "message_stats."+name+"_details.rate") }
		t.table.Rows = append(t.table.Rows, append(row, q.Text("name"), q.Text("type"), queueFlags(q), queueState(q),
			count(q, "messages_ready"), count(q, "messages_unacknowledged"), count(q, "messages"), count(q, "consumers"),
			perSecond("publish"), perSecond("deliver_get"), perSecond("ack")))
	}
	return nil
}

// addKeys adds a row of named keys; a column in which a number was seen is aligned as numbers are.
func (t *queueTable) addKeys(q httpapi.Object) {
	row := make([]string, len(t.keys))
	for i, key := range t.keys {
		row[i] = q.Text(key)
		if _, ok := q.Float(key); ok {
			t.table.Columns[i].Number = true
		}
		if row[i] == "" {
			row[i] = unknown
		}
	}
	t.table.Rows = append(t.table.Rows, row)
}

// queueFlags are the letters of the management UI: D durable, AD auto-delete, excl exclusive.
func queueFlags(q httpapi.Object) string {
	var parts []string
	if q.Bool("durable") {
		parts = append(parts, "D")
	}
	if q.Bool("auto_delete") {
		parts = append(parts, "AD")
	}
	if q.Bool("exclusive") {
		parts = append(parts, "excl")
	}
	if len(parts) == 0 {
		return unknown
	}
	return strings.Join(parts, " ")
}
