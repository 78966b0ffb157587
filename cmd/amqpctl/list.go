package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/table"

	"github.com/urfave/cli/v2"
)

// This file is the one command behind every `ls`. What differs between lists is a listing: the path, the columns, an example.

// Further forms of output, of lists only.
const (
	outputWide  = "wide"
	outputJSONL = "jsonl"
	outputCSV   = "csv"
	outputName  = "name"
)

var listFormats = []string{outputTable, outputWide, outputJSON, outputJSONL, outputCSV, outputName}

// reach tells which objects a list has.
type reach uint8

const (
	// ofVhost: those of --vhost, of all virtual hosts with --all-vhosts.
	ofVhost reach = iota
	// ofAll: those of all virtual hosts, of one if --vhost names it.
	ofAll
	// ofCluster: the objects belong to no virtual host.
	ofCluster
)

// listing says what one `ls` lists and shows.
type listing struct {
	// plural is the name of the objects, example a command line to show in the help.
	plural, example string
	reach           reach
	// id is the key that --name looks at and that -o name prints; "name" if empty.
	id string
	// path is where the API has the list, vhost is "" for all.
	path func(c *cli.Context, vhost string) string
	// flags are its own, beside those of all lists; check judges them.
	flags   []cli.Flag
	check   func(c *cli.Context) error
	columns []column
}

// column is one column: what the API must send for it, and what is shown. The text of its key, if it says nothing else.
type column struct {
	head   string
	keys   []string
	show   func(o httpapi.Object) string
	number bool
	wide   bool // only with -o wide
	vhost  bool // only in a list of several virtual hosts
}

func textColumn(head, key string) column { return column{head: head, keys: []string{key}} }

func countColumn(head, key string) column {
	return column{head: head, keys: []string{key}, number: true, show: func(o httpapi.Object) string { return count(o, key) }}
}

// rateColumn shows a rate of message_stats.
func rateColumn(head, name string) column {
	key := "message_stats." + name + "_details.rate"
	return column{head: head, keys: []string{key}, number: true, show: func(o httpapi.Object) string { return rate(o, key) }}
}

// speedColumn shows bytes per second.
func speedColumn(head, name string) column {
	key := name + "_details.rate"
	return column{head: head, keys: []string{key}, number: true, show: func(o httpapi.Object) string {
		f, _ := o.Float(key)
		return table.Bytes(f)
	}}
}

func sizeColumn(head, key string) column {
	return column{head: head, keys: []string{key}, number: true, show: func(o httpapi.Object) string { return size(o, key) }}
}

// flagsColumn shows letters for what is true of an object.
func flagsColumn(head string, letters ...[2]string) column {
	col := column{head: head, show: func(o httpapi.Object) string {
		var parts []string
		for _, l := range letters {
			if o.Bool(l[0]) {
				parts = append(parts, l[1])
			}
		}
		return strings.Join(parts, " ")
	}}
	for _, l := range letters {
		col.keys = append(col.keys, l[0])
	}
	return col
}

func wide(c column) column { c.wide = true; return c }

var vhostColumn = column{head: "VHOST", keys: []string{"vhost"}, vhost: true}

// text is what the column shows of an object.
func (col *column) text(o httpapi.Object) string {
	text := ""
	if col.show != nil {
		text = col.show(o)
	} else if text = o.Text(col.keys[0]); text == "{}" || text == "[]" {
		text = ""
	}
	if text == "" {
		return unknown
	}
	return text
}

// listCommand is `ls` for a listing.
func listCommand(std streams, l listing) *cli.Command {
	if l.id == "" {
		l.id = "name"
	}
	flags := []cli.Flag{
		&cli.StringFlag{Name: "name", Usage: "only those whose " + l.id + " contains `TEXT`"},
		&cli.StringSliceFlag{Name: "filter", Usage: "only those that pass a `FILTER`, see above, repeatable"},
		&cli.StringFlag{Name: "sort", Usage: "sort by a `KEY` of the API, descending with - in front (-messages)"},
		&cli.StringFlag{Name: "columns", Usage: "comma-separated `KEYS` of the API instead of the usual columns, dotted for inner ones"},
		&cli.IntFlag{Name: "limit", Usage: "stop after `N` objects", DefaultText: "all"},
		newWatchFlag(),
	}
	usage := "list " + l.plural
	switch l.reach {
	case ofVhost:
		usage += " of a virtual host"
		flags = append(flags, &cli.BoolFlag{Name: "all-vhosts", Aliases: []string{"A"}, Usage: "of every virtual host"})
	case ofAll:
		usage += " of all virtual hosts, or of --vhost"
	}
	return &cli.Command{
		Name: "ls", Aliases: []string{"list"}, Usage: usage, Flags: append(l.flags, flags...),
		Description: filterHelp + "\nFormats: " + strings.Join(listFormats, ", ") + "; wide has more columns, jsonl an object per line, name the names alone.\n\n" + examples(strings.Split(l.example, "\n")...),
		Action: func(c *cli.Context) error {
			s, err := settingsOf(c, std, listFormats...)
			if err != nil {
				return err
			}
			if c.NArg() > 0 && watchOf(c) > 0 {
				return usagef(c, "unexpected argument %q; a time for --%s stands behind =: --%[2]s=%[1]s", c.Args().First(), watchName)
			}
			if err := noArguments(c); err != nil {
				return err
			}
			if l.check != nil {
				if err := l.check(c); err != nil {
					return err
				}
			}
			v, err := newView(c, s, &l)
			if err != nil {
				return err
			}
			if every := watchOf(c); every > 0 {
				return s.watch(c.Context, every, v.title(), v.write)
			}
			return v.write(c.Context, s.out, 0)
		},
	}
}

// view is one list as the command line wants it.
type view struct {
	c       *cli.Context
	s       *settings
	l       *listing
	api     *httpapi.Client
	path    string
	vhost   string // "" for all
	query   url.Values
	columns []column
	filters []filter
	limit   int
}

func newView(c *cli.Context, s *settings, l *listing) (*view, error) {
	v := &view{c: c, s: s, l: l, query: url.Values{}, limit: c.Int("limit")}
	if v.limit < 0 || c.IsSet("limit") && v.limit == 0 {
		return nil, usagef(c, "--limit must be at least 1")
	}
	for _, text := range c.StringSlice("filter") {
		f, err := parseFilter(text)
		if err != nil {
			return nil, usagef(c, "%s", err)
		}
		v.filters = append(v.filters, f)
	}
	if l.reach == ofVhost && !c.Bool("all-vhosts") || l.reach == ofAll && c.IsSet("vhost") {
		v.vhost = s.vhost
	}
	v.path = l.path(c, v.vhost)
	if name := c.String("name"); name != "" {
		v.query.Set("name", name) // and once more here, for brokers send some lists whole
		v.filters = append(v.filters, filter{l.id, func(o httpapi.Object) bool {
			return strings.Contains(strings.ToLower(o.Text(l.id)), strings.ToLower(name))
		}})
	}
	if key, descending := strings.CutPrefix(c.String("sort"), "-"); key != "" {
		v.query.Set("sort", key)
		if descending {
			v.query.Set("sort_reverse", "true")
		}
	}
	v.chooseColumns(splitColumns(c.String("columns")))
	var err error
	v.api, err = s.api()
	return v, err
}

// chooseColumns settles what is shown, and asks the broker for no more than that. JSON has whole objects unless columns are named.
func (v *view) chooseColumns(named []string) {
	for _, key := range named {
		v.columns = append(v.columns, textColumn(key, key))
	}
	if len(named) == 0 {
		for _, col := range v.l.columns {
			if (!col.wide || v.s.format == outputWide) && (!col.vhost || v.vhost == "") {
				v.columns = append(v.columns, col)
			}
		}
	}
	var keys []string
	add := func(more ...string) {
		for _, key := range more {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	switch v.s.format {
	case outputName:
		add(v.l.id)
	case outputJSON, outputJSONL:
		if len(named) == 0 {
			return
		}
		fallthrough
	default:
		for _, col := range v.columns {
			add(col.keys...)
		}
	}
	for _, f := range v.filters {
		add(f.key)
	}
	v.query.Set("columns", strings.Join(keys, ","))
}

func (l *listing) idColumn() column {
	i := slices.IndexFunc(l.columns, func(col column) bool { return col.keys[0] == l.id })
	return l.columns[i]
}

func (v *view) title() string {
	title := v.l.plural
	if v.vhost != "" {
		title += fmt.Sprintf(" of vhost %q", v.vhost)
	}
	return title
}

// errEnough ends a list before its end.
var errEnough = errors.New("enough")

// write fetches the list and prints it. A table ends after linesMax lines, if that is not 0, and says how many it leaves out.
func (v *view) write(ctx context.Context, w io.Writer, linesMax int) error {
	p := v.printer(w, linesMax)
	taken := 0
	err := v.api.List(ctx, v.path, v.query, func(items []json.RawMessage) error {
		for _, item := range items {
			o, err := httpapi.Decode(item)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(v.filters, func(f filter) bool { return !f.accepts(o) }) {
				continue
			}
			if err := p.add(item, o); err != nil {
				return err
			}
			if taken++; taken == v.limit {
				return errEnough
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	return p.end()
}

// printer prints the objects of a list one after another.
type printer struct {
	add func(item json.RawMessage, o httpapi.Object) error
	end func() error
}

func (v *view) printer(w io.Writer, linesMax int) printer {
	nothing := func() error { return nil }
	switch v.s.format {
	case outputJSON:
		list := &listWriter{w: w}
		return printer{func(item json.RawMessage, _ httpapi.Object) error { return list.add([]json.RawMessage{item}) }, list.close}
	case outputJSONL:
		return printer{func(item json.RawMessage, _ httpapi.Object) error {
			var line bytes.Buffer
			if err := json.Compact(&line, item); err != nil {
				return err
			}
			line.WriteByte('\n')
			_, err := w.Write(line.Bytes())
			return err
		}, nothing}
	case outputName:
		id := v.l.idColumn()
		return printer{func(_ json.RawMessage, o httpapi.Object) error {
			_, err := fmt.Fprintln(w, table.Clean(id.text(o)))
			return err
		}, nothing}
	case outputCSV:
		return v.csvPrinter(w)
	}
	return v.tablePrinter(w, linesMax)
}

func (v *view) csvPrinter(w io.Writer) printer {
	out := csv.NewWriter(w)
	if !v.s.noHeaders {
		var head []string
		for _, col := range v.columns {
			head = append(head, col.head)
		}
		_ = out.Write(head) // an error stays until it is asked for at the end
	}
	return printer{func(_ json.RawMessage, o httpapi.Object) error {
		row := make([]string, len(v.columns))
		for i := range v.columns {
			if row[i] = v.columns[i].text(o); row[i] == unknown {
				row[i] = ""
			}
		}
		return out.Write(row)
	}, func() error { out.Flush(); return out.Error() }}
}

// tablePrinter collects rows, for their widths are known at the end only. A column of a named key is aligned as numbers are once a number was seen in it.
func (v *view) tablePrinter(w io.Writer, linesMax int) printer {
	t := &table.Table{}
	for _, col := range v.columns {
		t.Columns = append(t.Columns, table.Column{Head: col.head, Number: col.number})
	}
	room, left := linesMax, 0
	if linesMax > 0 && !v.s.noHeaders {
		room--
	}
	return printer{func(_ json.RawMessage, o httpapi.Object) error {
		if linesMax > 0 && len(t.Rows) >= room {
			left++
			return nil
		}
		row := make([]string, len(v.columns))
		for i := range v.columns {
			row[i] = v.columns[i].text(o)
			if _, ok := o.Float(v.columns[i].keys[0]); ok && v.columns[i].show == nil {
				t.Columns[i].Number = true
			}
		}
		t.Rows = append(t.Rows, row)
		return nil
	}, func() error {
		if left > 0 && len(t.Rows) > 0 {
			left++
			t.Rows = t.Rows[:len(t.Rows)-1]
		}
		if err := t.Write(w, v.s.tableOptions()); err != nil || left == 0 {
			return err
		}
		_, err := fmt.Fprintf(w, "... and %d more\n", left)
		return err
	}}
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
