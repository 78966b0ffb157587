package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/table"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/terminal"

	"github.com/urfave/cli/v2"
)

const (
	watchName = "watch"
	// watchDefault is how often --watch without a value asks, watchMin how often it may.
	watchDefault = 2 * time.Second
	watchMin     = 100 * time.Millisecond
)

// watchFlag is --watch or --watch=TIME: a flag whose value may be missing.
type watchFlag struct{ *cli.GenericFlag }

func newWatchFlag() cli.Flag {
	return &watchFlag{&cli.GenericFlag{Name: watchName, Value: new(interval), Usage: "show it again and again until ^C, every 2s or TIME"}}
}

// String is its line in the help.
func (f *watchFlag) String() string { return "--" + watchName + "[=TIME]\t" + f.Usage }

// TakesValue is false: the word after --watch is not its value.
func (*watchFlag) TakesValue() bool { return false }

// interval is the value of --watch, 0 if the flag is not there.
type interval time.Duration

var _ flag.Value = (*interval)(nil)

func (i *interval) Set(text string) error {
	*i = interval(watchDefault)
	if text == "true" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < watchMin {
		err = fmt.Errorf("less than %v", watchMin)
	}
	*i = interval(d)
	return err
}

func (i *interval) String() string   { return time.Duration(*i).String() }
func (i *interval) IsBoolFlag() bool { return true }

func watchOf(c *cli.Context) time.Duration {
	i, ok := c.Generic(watchName).(*interval)
	if !ok {
		return 0
	}
	return time.Duration(*i)
}

// watch shows something every so often until it is interrupted. A terminal's screen is painted anew; elsewhere there is an empty line between two tables.
// What fails after the first time is said, and tried again.
func (s *settings) watch(ctx context.Context, every time.Duration, title string, write func(ctx context.Context, w io.Writer, linesMax int) error) error {
	tables := s.format == outputTable || s.format == outputWide
	_, height := terminal.Size(s.out)
	paints := tables && height > 0
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var block bytes.Buffer
	for round := 0; ; round++ {
		block.Reset()
		_, height = terminal.Size(s.out)
		linesMax := 0
		if paints {
			linesMax = max(height-3, 3) // the title, an empty line, the cursor
		}
		err := write(ctx, &block, linesMax)
		switch {
		case ctx.Err() != nil:
			return &reported{code: exit.Interrupted}
		case err != nil && round == 0:
			return err
		case paints:
			state := time.Now().Format(time.TimeOnly)
			if err != nil {
				state += "  " + exit.Text(err)
			}
			err = paint(s.out, round == 0, fmt.Sprintf("Every %v: %s  %s", every, title, state), block.Bytes(), err != nil)
		case err != nil:
			s.failure(err)
			err = nil
		default:
			if round > 0 && tables {
				_, err = io.WriteString(s.out, "\n")
			}
			if err == nil {
				_, err = s.out.Write(block.Bytes())
			}
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return &reported{code: exit.Interrupted}
		case <-ticker.C:
		}
	}
}

// paint writes over what stands on the screen, line by line, so that nothing flickers. With keep only the title is new.
func paint(w io.Writer, clear bool, title string, block []byte, keep bool) error {
	const home, wholeScreen, restOfLine, restOfScreen = "\x1b[H", "\x1b[2J", "\x1b[K", "\x1b[J"
	var out bytes.Buffer
	if clear {
		out.WriteString(wholeScreen)
	}
	out.WriteString(home + table.Clean(title) + restOfLine + "\n")
	if !keep {
		out.WriteString(restOfLine + "\n")
		for line := range bytes.Lines(block) {
			out.Write(bytes.TrimSuffix(line, []byte("\n")))
			out.WriteString(restOfLine + "\n")
		}
		out.WriteString(restOfScreen)
	}
	_, err := w.Write(out.Bytes())
	return err
}
