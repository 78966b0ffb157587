package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/amqplink"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/table"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/terminal"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/trust"

	"github.com/urfave/cli/v2"
)

// The forms of output that every command has.
const (
	outputTable = "table"
	outputJSON  = "json"
)

// settings are the global flags of one run, checked.
type settings struct {
	streams
	url       string
	amqpURL   string
	tls       *tls.Config
	vhost     string
	format    string
	json      bool // format is JSON
	timeout   time.Duration
	noHeaders bool
	quiet     bool
	yes       bool
}

// settingsOf reads the global flags; formats are the forms of output that the command has, table and JSON if it names none. A virtual host comes from
// --vhost, else from the AMQP URL, else it is the default one.
func settingsOf(c *cli.Context, std streams, formats ...string) (*settings, error) {
	s := &settings{
		streams: std, url: c.String("url"), amqpURL: c.String("amqp-url"), vhost: c.String("vhost"), timeout: c.Duration("timeout"),
		noHeaders: c.Bool("no-headers"), quiet: c.Bool("quiet"), yes: c.Bool("yes"),
	}
	if len(formats) == 0 {
		formats = []string{outputTable, outputJSON}
	}
	s.format = c.String("output")
	s.json = s.format == outputJSON
	if !slices.Contains(formats, s.format) {
		last := len(formats) - 1
		return nil, usagef(c, "unknown output format %q, want %s or %s", s.format, strings.Join(formats[:last], ", "), formats[last])
	}
	if s.timeout <= 0 {
		return nil, usagef(c, "--timeout must be longer than zero")
	}
	files := trust.Files{CACert: c.String("cacert"), Cert: c.String("cert"), Key: c.String("cert-key"), ServerName: c.String("server-name"), Insecure: c.Bool("insecure")}
	var err error
	if s.tls, err = files.Load(); err != nil {
		return nil, err
	}
	if s.amqpURL == "" {
		derived, err := amqplink.Derive(s.url)
		if err != nil {
			return nil, err
		}
		s.amqpURL = derived
	} else if _, err := amqplink.Parse(s.amqpURL); err != nil {
		return nil, err
	}
	if s.vhost == "" {
		s.vhost = amqplink.Vhost(s.amqpURL)
	}
	return s, nil
}

// api makes the client of the management API.
func (s *settings) api() (*httpapi.Client, error) { return httpapi.New(s.url, s.timeout, s.tls) }

// target is where the AMQP commands connect to; the command's name becomes the name of the connection.
func (s *settings) target(command string) amqplink.Target {
	return amqplink.Target{URL: s.amqpURL, Vhost: s.vhost, Name: program + " " + command, Timeout: s.timeout, TLS: s.tls}
}

// notice tells the user something on standard error, unless --quiet.
func (s *settings) notice(format string, args ...any) {
	if !s.quiet {
		fmt.Fprintf(s.err, format+"\n", args...)
	}
}

// failure reports an error now, for commands that go on with their next object.
func (s *settings) failure(err error) { fmt.Fprintf(s.err, "%s: %s\n", program, exit.Text(err)) }

// tableOptions adapts tables to standard output: cut to the screen and bold headings on a terminal only.
func (s *settings) tableOptions() table.Options {
	width, _ := terminal.Size(s.out)
	return table.Options{NoHeaders: s.noHeaders, WidthRunes: width, Bold: terminal.Colour(s.out)}
}

// confirm asks before something is destroyed. Without a terminal there is nobody to ask, and the command line itself is the decision.
func (s *settings) confirm(question string) error {
	if s.yes || !terminal.Is(s.in) {
		return nil
	}
	fmt.Fprintf(s.err, "%s [y/N] ", question)
	answer, err := bufio.NewReader(s.in).ReadString('\n')
	if err != nil && err != io.EOF {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return exit.Errorf(exit.Interrupted, "nothing was done")
}

// each runs a step for every name and goes on after a failure: when all fail the first error's code counts, when some do it is Partial.
func (s *settings) each(names []string, step func(name string) error) error {
	if len(names) == 1 {
		return step(names[0])
	}
	var first error
	failed := 0
	for _, name := range names {
		if err := step(name); err != nil {
			if exit.Of(err) == exit.Interrupted {
				return err
			}
			s.failure(err)
			failed++
			if first == nil {
				first = err
			}
		}
	}
	switch failed {
	case 0:
		return nil
	case len(names):
		return &reported{code: exit.Of(first)}
	}
	return &reported{code: exit.Partial}
}
