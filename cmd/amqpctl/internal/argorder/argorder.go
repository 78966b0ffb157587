package argorder

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// Error says what is wrong with a command line. Path is the command that was reached, for example "amqpctl queue".
type Error struct {
	Path string
	Text string
}

func (e *Error) Error() string { return e.Text }

// Missing is the error for a command line that ends before a command that can be run, as `amqpctl queue` does.
type Missing struct {
	Path []string // names of the commands reached, without the program
}

func (e *Missing) Error() string { return "a command is missing" }

// level is one command on the path from the program to the command that runs.
type level struct {
	name  string
	flags []cli.Flag
	subs  []*cli.Command
	out   []string
}

// Reorder returns args (without the program's name) so that the flags of each command directly follow it and words that are no flags come
// last, after `--`. Errors are *Error or *Missing.
func Reorder(app *cli.App, args []string) ([]string, error) {
	path := []*level{{name: app.Name, flags: app.Flags, subs: app.Commands}}
	var words []string
	help := false
	for i := 0; i < len(args); i++ {
		arg := args[i]
		here := path[len(path)-1]
		switch {
		case arg == "--":
			words = append(words, args[i+1:]...)
			i = len(args)
		case len(arg) > 1 && arg[0] == '-':
			owner, taken, err := place(path, args[i:])
			if err != nil {
				return nil, err
			}
			owner.out = append(owner.out, taken.text)
			help = help || taken.help
			i += taken.extra
		case len(here.subs) > 0:
			sub := find(here.subs, arg)
			if sub == nil {
				return nil, &Error{Path: pathName(path), Text: unknown("command", arg, commandNames(here.subs))}
			}
			path = append(path, &level{name: sub.Name, flags: sub.Flags, subs: sub.Subcommands})
		default:
			words = append(words, arg)
		}
	}
	if last := path[len(path)-1]; len(last.subs) > 0 && !help {
		if len(words) > 0 {
			return nil, &Error{Path: pathName(path), Text: unknown("command", words[0], commandNames(last.subs))}
		}
		return nil, &Missing{Path: names(path[1:])}
	}
	if help {
		words = nil // the library would look for a help topic of that name
	}
	return join(path, words), nil
}

// placed is a flag in the form that the parser takes, and how many further arguments it used up.
type placed struct {
	text  string
	extra int
	help  bool
}

// place finds the command that owns the flag args[0]: the deepest one first, so that -q may mean prefetch to one command and quiet to the rest.
func place(path []*level, args []string) (*level, placed, error) {
	name, value, hasValue := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
	for i := len(path) - 1; i >= 0; i-- {
		takes, known := lookup(path[i].flags, name)
		// Every command has --help without listing it, the program --version; the program may list --help itself.
		builtin := (name == "help" || name == "h") && (!known || i == 0) || i == 0 && (name == "version" || name == "v") && !known
		switch {
		case builtin:
			return path[i], placed{text: "--" + name, help: true}, nil
		case !known:
			continue
		case hasValue:
			return path[i], placed{text: "--" + name + "=" + value}, nil
		case !takes:
			return path[i], placed{text: "--" + name}, nil
		case len(args) < 2:
			return nil, placed{}, &Error{Path: pathName(path), Text: fmt.Sprintf("flag %s needs a value", args[0])}
		}
		return path[i], placed{text: "--" + name + "=" + args[1], extra: 1}, nil
	}
	dashed := strings.SplitN(args[0], "=", 2)[0]
	return nil, placed{}, &Error{Path: pathName(path), Text: unknown("flag", dashed, flagNames(path))}
}

// lookup tells whether name is one of flags and takes a value.
func lookup(flags []cli.Flag, name string) (takes, known bool) {
	for _, f := range flags {
		for _, n := range f.Names() {
			if n == name {
				doc, ok := f.(cli.DocGenerationFlag)
				return !ok || doc.TakesValue(), true
			}
		}
	}
	return false, false
}

func find(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

func join(path []*level, words []string) []string {
	var out []string
	for i, l := range path {
		if i > 0 {
			out = append(out, l.name)
		}
		out = append(out, l.out...)
	}
	if len(words) > 0 {
		out = append(append(out, "--"), words...)
	}
	return out
}

func names(path []*level) []string {
	var out []string
	for _, l := range path {
		out = append(out, l.name)
	}
	return out
}

func pathName(path []*level) string { return strings.Join(names(path), " ") }

func commandNames(commands []*cli.Command) []string {
	var out []string
	for _, c := range commands {
		if !c.Hidden {
			out = append(out, c.Names()...)
		}
	}
	return out
}

func flagNames(path []*level) []string {
	var out []string
	for _, l := range path {
		for _, f := range l.flags {
			for _, n := range f.Names() {
				if len(n) > 1 {
					out = append(out, "--"+n)
				}
			}
		}
	}
	return out
}
