// Command warren is the broker. `warren server` runs a node until it is told to stop; the other commands look at its configuration.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/warrenmq/warren/config"
	"github.com/warrenmq/warren/internal/node"
)

// version is set by the linker.
var version = "development"

func main() { os.Exit(run(os.Args, os.Stdout, os.Stderr)) }

// run carries out a command line and returns the exit code; what went wrong is one line on stderr.
func run(args []string, stdout, stderr io.Writer) int {
	app := &cli.App{
		Name: "warren", Usage: "an AMQP 0-9-1 broker in which every durable queue is a Raft group", Version: version, Writer: stdout, ErrWriter: io.Discard,
		HideHelpCommand: true, DisableSliceFlagSeparator: true, ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return &usageError{err} },
		Commands: []*cli.Command{
			{
				Name: "server", Usage: "run a node", Flags: settingFlags(), OnUsageError: func(_ *cli.Context, err error, _ bool) error { return &usageError{err} },
				Action: func(c *cli.Context) error { return serve(c, stderr) },
			},
			{
				Name: "config", Usage: "show every setting with its value and where it comes from, without starting anything", Flags: settingFlags(),
				OnUsageError: func(_ *cli.Context, err error, _ bool) error { return &usageError{err} },
				Action:       func(c *cli.Context) error { return show(c, stdout) },
			},
			storageCommand(stdout),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return &usageError{fmt.Errorf("there is no command %q", c.Args().First())}
			}
			return cli.ShowAppHelp(c)
		},
	}
	err := app.Run(args)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "warren: %v\n", err)
	return exitCode(err)
}

// usageError is a command line that cannot be understood.
type usageError struct{ err error }

func (e *usageError) Error() string {
	return e.err.Error() + "; see warren --help and warren server --help"
}

func exitCode(err error) int {
	var usage *usageError
	var conf *config.Error
	switch {
	case errors.As(err, &usage):
		return config.ExitUsage
	case errors.As(err, &conf):
		return conf.Code
	}
	return node.ExitCode(err)
}

// settingFlags are the short names of keys, and the ways to give any key.
func settingFlags() []cli.Flag {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "config", Usage: "read settings from `FILE`, in the syntax of rabbitmq.conf"},
		&cli.StringSliceFlag{Name: "set", Usage: "set any key: `KEY=VALUE`"},
	}
	for _, k := range config.Keys() {
		if k.ShortFlag != "" {
			flags = append(flags, &cli.StringFlag{Name: k.ShortFlag, Usage: k.Doc + " (key " + k.Name + ")"})
		}
	}
	return flags
}

func load(c *cli.Context) (*config.Config, error) {
	if c.Args().Present() {
		return nil, &usageError{fmt.Errorf("unexpected argument %q", c.Args().First())}
	}
	src := config.Sources{File: c.String("config"), Environ: os.Environ(), Set: c.StringSlice("set"), Flags: map[string]string{}}
	for _, k := range config.Keys() {
		if k.ShortFlag != "" && c.IsSet(k.ShortFlag) {
			src.Flags[k.ShortFlag] = c.String(k.ShortFlag)
		}
	}
	return config.Load(src)
}

func serve(c *cli.Context, stderr io.Writer) error {
	cfg, err := load(c)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: cfg.LogLevel}))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the process at once
	}()
	return node.Run(ctx, cfg, version, log)
}

func show(c *cli.Context, stdout io.Writer) error {
	cfg, err := load(c)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tVALUE\tSOURCE")
	for _, s := range cfg.Effective() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Key, s.Value, s.Source)
	}
	return w.Flush()
}
