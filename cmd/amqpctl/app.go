package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/argorder"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"

	"github.com/urfave/cli/v2"
)

// program is the name in messages.
const program = "amqpctl"

// defaultURL is where a broker on this machine serves its management API.
const defaultURL = "http://guest:guest@localhost:15672"

// defaultTimeout bounds a request, a handshake, and a wait in which nothing moves.
const defaultTimeout = 30 * time.Second

// run executes one command line and returns the exit code. The error of a command, if any, becomes one line on standard error.
func run(ctx context.Context, args []string, std streams) exit.Code {
	app := newApp(std)
	ordered, err := argorder.Reorder(app, args)
	if err == nil {
		err = app.RunContext(ctx, append([]string{program}, ordered...))
	}
	var missing *argorder.Missing
	var misused *argorder.Error
	switch {
	case err == nil:
		return exit.OK
	case errors.As(err, &missing):
		app.Writer = std.err
		_ = app.RunContext(ctx, append(append([]string{program}, missing.Path...), "--help"))
		return exit.Usage
	case errors.As(err, &misused):
		err = exit.Errorf(exit.Usage, "%s%s", misused.Text, seeHelp(misused.Text, misused.Path))
	}
	code := exit.Of(err)
	if ctx.Err() != nil && (code == exit.Internal || errors.Is(err, context.Canceled)) {
		code = exit.Interrupted
	}
	var said *reported
	if !errors.As(err, &said) {
		fmt.Fprintf(std.err, "%s: %s\n", program, exit.Text(err))
	}
	return code
}

// reported is an error whose text already went to standard error.
type reported struct{ code exit.Code }

func (r *reported) Error() string   { return "already reported" }
func (r *reported) Exit() exit.Code { return r.code }

func newApp(std streams) *cli.App {
	app := &cli.App{
		Name:                      program,
		Usage:                     "operate a RabbitMQ-compatible broker over its HTTP API and AMQP",
		Version:                   version,
		Flags:                     globalFlags(),
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true, // a comma in --header k=a,b belongs to the value
		Reader:                    std.in,
		Writer:                    std.out,
		ErrWriter:                 std.err,
		ExitErrHandler:            func(*cli.Context, error) {},
		Commands: slices.Concat([]*cli.Command{
			statusCommand(std), queueCommand(std), exchangeCommand(std), bindingCommand(std), connectionCommand(std), channelCommand(std), consumerCommand(std), dlqCommand(std), scheduleCommand(std),
			vhostCommand(std), userCommand(std), permissionCommand(std), policyCommand(std), operatorPolicyCommand(std),
		}, parameterCommands(std), []*cli.Command{
			nodeCommand(std), raftCommand(std), clusterCommand(std), publishCommand(std), consumeCommand(std), benchCommand(std), completionCommand(std), completeCommand(std), helpCommand(std),
		}),
	}
	app.OnUsageError = usageError
	polish(app.Flags, app.Commands)
	return app
}

// polish sets what is the same for all flags and commands.
func polish(flags []cli.Flag, commands []*cli.Command) {
	for _, f := range flags {
		if b, ok := f.(*cli.BoolFlag); ok && !b.Value && b.DefaultText == "" {
			b.DisableDefaultText = true
		}
	}
	for _, c := range commands {
		c.OnUsageError = usageError
		c.HideHelpCommand = true
		if len(c.Subcommands) > 0 { // a noun: its help is the list of its verbs
			polish(c.Flags, c.Subcommands)
			continue
		}
		c.CustomHelpTemplate = cli.CommandHelpTemplate + "\nGlobal options, as --vhost, --output and --timeout, may stand here, too: see `" + program + " --help`.\n"
		polish(c.Flags, nil)
	}
}

// globalFlags are known to every command, before it and after it.
func globalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "url", Value: defaultURL, EnvVars: []string{"AMQPCTL_URL"}, Usage: "`URL` of the management API, http[s]://user:password@host:port"},
		&cli.StringFlag{Name: "amqp-url", EnvVars: []string{"AMQPCTL_AMQP_URL"}, Usage: "`URL` of the broker, amqp[s]://user:password@host:port/vhost", DefaultText: "host and user of --url, port 5672"},
		&cli.StringFlag{Name: "vhost", Aliases: []string{"p"}, EnvVars: []string{"AMQPCTL_VHOST"}, Usage: "`VHOST` that the command is about", DefaultText: "that of --amqp-url, else /"},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: outputTable, EnvVars: []string{"AMQPCTL_OUTPUT"}, Usage: "`FORMAT` table or json (the objects of the HTTP API); lists have more"},
		&cli.DurationFlag{Name: "timeout", Value: defaultTimeout, EnvVars: []string{"AMQPCTL_TIMEOUT"}, Usage: "longest `TIME` without an answer or progress"},
		&cli.StringFlag{Name: "cacert", EnvVars: []string{"AMQPCTL_CACERT"}, Usage: "`FILE` with the authorities that may vouch for the broker over https and amqps, in PEM", DefaultText: "the system's"},
		&cli.StringFlag{Name: "cert", EnvVars: []string{"AMQPCTL_CERT"}, Usage: "`FILE` with the certificate to show to the broker, in PEM; with ?auth_mechanism=external in --amqp-url it is the login"},
		&cli.StringFlag{Name: "cert-key", EnvVars: []string{"AMQPCTL_CERT_KEY"}, Usage: "`FILE` with the key of --cert", DefaultText: "in the same file"},
		&cli.StringFlag{Name: "server-name", EnvVars: []string{"AMQPCTL_SERVER_NAME"}, Usage: "`NAME` that the broker's certificate must have", DefaultText: "the host of the URL"},
		&cli.BoolFlag{Name: "insecure", EnvVars: []string{"AMQPCTL_INSECURE"}, Usage: "take any certificate: whoever is between reads and changes all"},
		&cli.BoolFlag{Name: "no-headers", Usage: "tables without headings"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "no notices and no progress on standard error"},
		&cli.BoolFlag{Name: "yes", Usage: "do not ask before something is destroyed"},
		cli.HelpFlag, // the library leaves it out of a program with a help command of its own
	}
}

// version is set by the linker.
var version = "development"

func usageError(c *cli.Context, err error, _ bool) error {
	where := program
	if c.Command != nil && c.Command.Name != program && c.Command.HelpName != "" {
		where = c.Command.HelpName
	}
	text := strings.NewReplacer(" boolean value ", " value ", " for flag -", " for flag --", " for -", " for flag --").Replace(strings.TrimSuffix(err.Error(), ": parse error"))
	return exit.Errorf(exit.Usage, "%s%s", text, seeHelp(text, where))
}

// seeHelp is the way out that ends every message about usage.
func seeHelp(text, path string) string {
	if strings.HasSuffix(text, "?") {
		return fmt.Sprintf(" See `%s --help`", path)
	}
	return fmt.Sprintf("; see `%s --help`", path)
}

// usagef is an error of the command line itself.
func usagef(c *cli.Context, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	return exit.Errorf(exit.Usage, "%s%s", text, seeHelp(text, c.Command.HelpName))
}
