package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"

	"github.com/urfave/cli/v2"
)

// The shells' scripts only pass the words on to the hidden command __complete, which knows the commands from the program itself, what a flag or an argument
// takes from its help text, and the names of objects from the broker.

var (
	//go:embed completion/amqpctl.bash
	completionBash string
	//go:embed completion/amqpctl.zsh
	completionZsh string
	//go:embed completion/amqpctl.fish
	completionFish string
)

// completionTimeout bounds the question for names: who waits for a completion would rather type.
const completionTimeout = time.Second

// completionNames bounds how many names are offered.
const completionNames = 200

func completionCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print the script that makes a shell complete commands, flags and names of objects", ArgsUsage: "SHELL",
		Description: "Names come from the broker of --url, AMQPCTL_URL or the default.\n\n" +
			examples("completion bash > /etc/bash_completion.d/amqpctl", "completion zsh > /usr/local/share/zsh/site-functions/_amqpctl", "completion fish > ~/.config/fish/completions/amqpctl.fish"),
		Action: func(c *cli.Context) error {
			script, ok := map[string]string{"bash": completionBash, "zsh": completionZsh, "fish": completionFish}[c.Args().First()]
			if !ok || c.NArg() != 1 {
				return usagef(c, "want one shell: bash, zsh or fish")
			}
			_, err := io.WriteString(std.out, script)
			return err
		},
	}
}

// completeCommand is what the scripts call: with the words behind the program's name, or with --line and the command line up to the cursor. The last word is
// the one to complete. Each candidate is a line, behind a tab is what it means.
func completeCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "__complete", Hidden: true,
		Flags: []cli.Flag{&cli.StringFlag{Name: "line"}},
		Action: func(c *cli.Context) error {
			words := c.Args().Slice()
			if c.IsSet("line") {
				words = shellWords(c.String("line"))
				words = words[min(1, len(words)):]
			}
			if len(words) == 0 {
				return nil
			}
			at := &completion{ctx: c.Context, path: []*cli.Command{{Flags: globalFlags(), Subcommands: newApp(std).Commands}}}
			for _, candidate := range at.candidates(words) {
				if _, err := fmt.Fprintln(std.out, candidate); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// shellWords splits a line as shells do, with quotes and backslashes; the last word may be empty or not yet closed.
func shellWords(line string) []string {
	var words []string
	var word strings.Builder
	quote, started := rune(0), false
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, started = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, started = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			if started {
				words = append(words, word.String())
			}
			word.Reset()
			started = false
		default:
			word.WriteRune(r)
			started = true
		}
	}
	return append(words, word.String())
}

// completion is how far the words of a command line lead.
type completion struct {
	ctx  context.Context
	path []*cli.Command // the program first
	// globals are flags of the program that were given, which also hold for the question for names.
	globals   []string
	arguments int
}

func (at *completion) here() *cli.Command { return at.path[len(at.path)-1] }

// candidates are what the last word may become.
func (at *completion) candidates(words []string) []string {
	last := words[len(words)-1]
	onlyArguments := false
	for i := 0; i < len(words)-1; i++ {
		switch word := words[i]; {
		case onlyArguments:
			at.arguments++
		case word == "--":
			onlyArguments = true
		case len(word) > 1 && word[0] == '-':
			f, global := at.flag(word)
			if f == nil {
				continue
			}
			if takesValue(f) && !strings.Contains(word, "=") {
				if i++; i == len(words)-1 {
					return at.values(f, last, "")
				}
				word += "=" + words[i]
			}
			if global {
				at.globals = append(at.globals, word)
			}
		case len(at.here().Subcommands) > 0:
			sub := at.here().Command(word)
			if sub == nil {
				return nil
			}
			at.path = append(at.path, sub)
		default:
			at.arguments++
		}
	}
	switch name, value, hasValue := strings.Cut(last, "="); {
	case !onlyArguments && strings.HasPrefix(last, "-") && hasValue:
		if f, _ := at.flag(name); f != nil {
			return at.values(f, value, name+"=")
		}
		return nil
	case !onlyArguments && strings.HasPrefix(last, "-"):
		return at.flagNames(last)
	case len(at.here().Subcommands) > 0:
		var out []string
		for _, sub := range at.here().Subcommands {
			if !sub.Hidden && strings.HasPrefix(sub.Name, last) {
				out = append(out, sub.Name+"\t"+sub.Usage)
			}
		}
		return out
	}
	return at.offer(at.argument(), last, "")
}

// flag finds the flag of a word, the deepest command's first, and tells whether it belongs to the program.
func (at *completion) flag(word string) (f cli.Flag, global bool) {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for i := len(at.path) - 1; i >= 0; i-- {
		for _, f := range at.path[i].Flags {
			if slices.Contains(f.Names(), name) {
				return f, i == 0
			}
		}
	}
	return nil, false
}

func takesValue(f cli.Flag) bool {
	doc, ok := f.(cli.DocGenerationFlag)
	return ok && doc.TakesValue()
}

func (at *completion) flagNames(prefix string) []string {
	var out []string
	for i := len(at.path) - 1; i >= 0; i-- {
		for _, f := range at.path[i].Flags {
			name := "--" + f.Names()[0]
			doc, ok := f.(cli.DocGenerationFlag)
			if ok && strings.HasPrefix(name, prefix) {
				out = append(out, name+"\t"+strings.ReplaceAll(doc.GetUsage(), "`", ""))
			}
		}
	}
	return out
}

// values are what a flag may be set to: names of objects if the help calls its value by the kind of an object, else the words that the help lists right
// behind the name of the value.
func (at *completion) values(f cli.Flag, prefix, before string) []string {
	doc, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return nil
	}
	_, rest, _ := strings.Cut(doc.GetUsage(), "`")
	placeholder, rest, _ := strings.Cut(rest, "`")
	if placeholder == "FORMAT" && at.here().Name == "ls" {
		return keep(listFormats, prefix, before)
	}
	if words := listed(rest); len(words) > 0 {
		return keep(words, prefix, before)
	}
	return at.offer(placeholder, prefix, before)
}

// listed reads the words of "a, b or c (more)", none if the text is no such list.
func listed(text string) []string {
	if end := strings.IndexAny(text, ";:("); end >= 0 {
		text = text[:end]
	}
	words := strings.Split(strings.ReplaceAll(strings.TrimSpace(text), " or ", ", "), ", ")
	if len(words) < 2 || slices.ContainsFunc(words, func(w string) bool { return w == "" || strings.Contains(w, " ") }) {
		return nil
	}
	return words
}

func keep(words []string, prefix, before string) []string {
	var out []string
	for _, word := range words {
		if strings.HasPrefix(word, prefix) {
			out = append(out, before+word)
		}
	}
	return out
}

// argument is the kind of the argument that the last word is, as the help of the command has it.
func (at *completion) argument() string {
	kinds := strings.Fields(at.here().ArgsUsage)
	if len(kinds) == 0 {
		return ""
	}
	i := min(at.arguments, len(kinds)-1)
	kind := strings.Trim(kinds[i], "[]")
	if i < at.arguments && !strings.HasSuffix(kind, "...") {
		return ""
	}
	return strings.TrimSuffix(kind, "...")
}

// offer lists the objects of a kind, from the broker.
func (at *completion) offer(kind, prefix, before string) []string {
	nouns := map[string][]string{
		"QUEUE": {"queue"}, "EXCHANGE": {"exchange"}, "VHOST": {"vhost"}, "USER": {"user"}, "NODE": {"node"}, "CONNECTION": {"connection"}, "DESTINATION": {"queue", "exchange"},
		"POLICY": {"policy"}, "OPERATOR-POLICY": {"operator-policy"},
	}
	switch kind {
	case "SHELL":
		return keep([]string{"bash", "zsh", "fish"}, prefix, before)
	case "LIMIT":
		return keep(limitsOf[at.path[1].Name], prefix, before)
	case "TAG":
		return keep(userTags, prefix, before)
	}
	var out []string
	for _, noun := range nouns[kind] {
		var names bytes.Buffer
		args := append(slices.Clone(at.globals), noun, "ls", "-o=name", "--timeout="+completionTimeout.String(), fmt.Sprintf("--limit=%d", completionNames))
		if prefix != "" {
			args = append(args, "--name="+prefix)
		}
		if run(at.ctx, args, streams{in: strings.NewReader(""), out: &names, err: io.Discard}) == exit.OK {
			out = append(out, keep(strings.Split(strings.TrimSuffix(names.String(), "\n"), "\n"), prefix, before)...)
		}
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == before }) // an empty list
}
