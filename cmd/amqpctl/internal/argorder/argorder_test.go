package argorder

import (
	"errors"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

func testApp() *cli.App {
	return &cli.App{
		Name: "tool",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "vhost", Aliases: []string{"p"}},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}},
			&cli.DurationFlag{Name: "timeout"},
		},
		Commands: []*cli.Command{
			{Name: "queue", Aliases: []string{"queues"}, Subcommands: []*cli.Command{
				{Name: "purge", Flags: []cli.Flag{&cli.BoolFlag{Name: "if-empty"}}},
				{Name: "get", Aliases: []string{"show"}, Flags: []cli.Flag{&cli.IntFlag{Name: "count", Aliases: []string{"n"}}, &cli.StringSliceFlag{Name: "arg"}}},
			}},
			{Name: "bench", Flags: []cli.Flag{&cli.IntFlag{Name: "prefetch", Aliases: []string{"q"}}}},
		},
	}
}

func TestReorder(t *testing.T) {
	for _, c := range []struct{ name, args, want string }{
		{"in order already", "--vhost a queue get --count 5 orders", "--vhost=a queue get --count=5 -- orders"},
		{"flags behind the argument", "queue get orders -n 5 --vhost a", "--vhost=a queue get --n=5 -- orders"},
		{"flags between arguments", "queue purge a --if-empty b", "queue purge --if-empty -- a b"},
		{"value in the same word", "queue get orders --count=5 -p=/", "--p=/ queue get --count=5 -- orders"},
		{"empty value", "queue get orders --vhost=", "--vhost= queue get -- orders"},
		{"a value that looks like a flag stays a value", "queue get orders --arg --count", "queue get --arg=--count -- orders"},
		{"a value that is a dash", "queue get orders --arg -", "queue get --arg=- -- orders"},
		{"negative number as value", "queue get orders -n -5", "queue get --n=-5 -- orders"},
		{"a dash alone is an argument", "queue get - --count 5", "queue get --count=5 -- -"},
		{"repeated flags keep their order", "queue get q --arg a=1 --arg b=2", "queue get --arg=a=1 --arg=b=2 -- q"},
		{"after -- nothing is a flag", "queue purge -- --if-empty -x", "queue purge -- --if-empty -x"},
		{"after -- also behind flags", "queue purge --if-empty -- -q --", "queue purge --if-empty -- -q --"},
		{"switches take no value", "queue purge --if-empty orders", "queue purge --if-empty -- orders"},
		{"a switch set to false", "queue purge orders --if-empty=false", "queue purge --if-empty=false -- orders"},
		{"one dash for a long name", "queue get orders -count 5", "queue get --count=5 -- orders"},
		{"the command's letter wins", "bench -q 100", "bench --q=100"},
		{"and the program's before the command", "-q bench", "--q bench"},
		{"by its long name also behind it", "bench --quiet -q 7", "--quiet bench --q=7"},
		{"aliases of commands", "queues show x", "queue get -- x"},
		{"global flag between noun and verb", "queue -p a purge x", "--p=a queue purge -- x"},
		{"help of a command", "queue purge --help", "queue purge --help"},
		{"help after an argument", "queue purge orders --help", "queue purge --help"},
		{"help of a noun needs no verb", "queue --help", "queue --help"},
		{"help of the program", "-h", "--h"},
		{"version", "--version", "--version"},
		{"an argument named like a command", "queue purge bench queue", "queue purge -- bench queue"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Reorder(testApp(), strings.Fields(c.args))
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("%q became %q, %v; want %q", c.args, got, err, c.want)
			}
		})
	}
}

// What urfave/cli would take for something else must be an error, before anything is purged.
func TestReorderRefuses(t *testing.T) {
	for _, c := range []struct{ name, args, path, text string }{
		{"unknown flag behind the argument", "queue purge orders --dry-run", "tool queue purge", `unknown flag "--dry-run"`},
		{"a flag of another verb", "queue purge orders --count 5", "tool queue purge", `unknown flag "--count"`},
		{"a slip of the finger", "queue get x --cuont 5", "tool queue get", `did you mean "--count"?`},
		{"value missing", "queue get x --count", "tool queue get", "flag --count needs a value"},
		{"unknown noun", "que purge x", "tool", `did you mean "queue"?`},
		{"unknown verb", "queue prune x", "tool queue", `unknown command "prune"`},
		{"value of an unknown flag is not shown", "queue get x --password=geheim", "tool queue get", `unknown flag "--password"`},
		{"version is the program's", "queue purge --version", "", ""},
		{"a word after -- is no verb", "queue -- purge", "tool queue", `unknown command "purge"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Reorder(testApp(), strings.Fields(c.args))
			if c.text == "" {
				if err != nil {
					t.Errorf("%v", err)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) || e.Path != c.path || !strings.Contains(e.Text, c.text) || strings.Contains(e.Text, "geheim") {
				t.Errorf("%q gave %q, %#v", c.args, got, err)
			}
		})
	}
}

func TestReorderMissingCommand(t *testing.T) {
	for args, want := range map[string]string{"": "", "queue": "queue", "--quiet": "", "-p a queues": "queue"} {
		_, err := Reorder(testApp(), strings.Fields(args))
		var missing *Missing
		if !errors.As(err, &missing) || strings.Join(missing.Path, " ") != want {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// The words that come out mean to the parser what they meant to the user: nothing is lost, doubled or taken for something else.
func TestReorderedLineParses(t *testing.T) {
	app := testApp()
	var vhost, args string
	var count int
	app.Commands[0].Subcommands[1].Action = func(c *cli.Context) error {
		vhost, count, args = c.String("vhost"), c.Int("count"), strings.Join(c.Args().Slice(), "|")
		return nil
	}
	ordered, err := Reorder(app, []string{"queue", "get", "a b", "-n", "5", "--", "--vhost", "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Run(append([]string{"tool", "--vhost", "v"}, ordered...)); err != nil {
		t.Fatal(err)
	}
	if vhost != "v" || count != 5 || args != "a b|--vhost|x" {
		t.Errorf("vhost %q count %d args %q", vhost, count, args)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"kitten", "sitting", 3}, {"--count", "--cuont", 2}, {"queue", "queue", 0}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
