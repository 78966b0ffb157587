package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/terminal"

	"github.com/urfave/cli/v2"
)

const passwordStdin = "password-stdin"

// passwordHelp explains where a password comes from.
const passwordHelp = "Without PASSWORD it is asked for, twice and unseen; --password-stdin takes the first line of standard input. A PASSWORD on the command line can be seen by\n" +
	"other users of the machine and stays in the history of the shell."

// passwordBytesMax bounds a password that is read.
const passwordBytesMax = 64 << 10

func passwordFlags() []cli.Flag {
	return []cli.Flag{&cli.BoolFlag{Name: passwordStdin, Usage: "the first line of standard input is the password"}}
}

// password gets a password: the word given, a line of standard input, or what a person types twice. An empty one is refused, for it would lock the user out.
func (s *settings) password(c *cli.Context, words []string) (string, error) {
	fromInput := c.Bool(passwordStdin)
	switch {
	case len(words) > 1:
		return "", usagef(c, "unexpected argument %q", "...") // which may be a part of the password
	case len(words) == 1 && fromInput:
		return "", usagef(c, "--%s and a password as an argument exclude each other", passwordStdin)
	case len(words) == 0 && !fromInput && !terminal.Is(s.in):
		return "", usagef(c, "the password is missing; standard input is no terminal to ask on, so give --%s", passwordStdin)
	}
	var password string
	var err error
	switch {
	case len(words) == 1:
		password = words[0]
	case fromInput:
		password, err = readLine(bufio.NewReader(io.LimitReader(s.in, passwordBytesMax)))
	default:
		password, err = s.ask(c.Context)
	}
	if err == nil && password == "" {
		err = exit.Errorf(exit.Data, "the password is empty")
	}
	return password, err
}

func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err == io.EOF {
		err = nil
	}
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), err
}

// ask lets a person type a password twice. However it ends, the terminal shows again what is typed.
func (s *settings) ask(ctx context.Context) (string, error) {
	show, err := terminal.Hide(s.in.(*os.File))
	if err != nil {
		return "", err
	}
	defer show()
	type answer struct {
		lines [2]string
		err   error
	}
	answers := make(chan answer, 1) // whoever reads a terminal cannot be stopped, only left
	go func() {
		var a answer
		r := bufio.NewReader(s.in)
		for i, prompt := range [...]string{"Password: ", "Again: "} {
			fmt.Fprint(s.err, prompt)
			if a.lines[i], a.err = readLine(r); a.err != nil {
				break
			}
			fmt.Fprintln(s.err)
		}
		answers <- a
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(s.err)
		return "", ctx.Err()
	case a := <-answers:
		if a.err == nil && a.lines[0] != a.lines[1] {
			a.err = exit.Errorf(exit.Data, "the two passwords differ")
		}
		return a.lines[0], a.err
	}
}
