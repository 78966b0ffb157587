package main

import (
	"context"
	"strconv"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/table"

	"github.com/urfave/cli/v2"
)

// helpCommand is `help [COMMAND...]` and the one topic that is no command, `help exit-codes`.
func helpCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "help", Usage: "help of a command, or the list of exit codes", ArgsUsage: "[COMMAND... | exit-codes]",
		Action: func(c *cli.Context) error {
			words := c.Args().Slice()
			if len(words) == 1 && words[0] == "exit-codes" {
				s, err := settingsOf(c, std)
				if err != nil {
					return err
				}
				t := table.Table{Columns: []table.Column{{Head: "CODE", Number: true}, {Head: "MEANING"}}}
				for _, row := range exit.Rows() {
					t.Rows = append(t.Rows, []string{strconv.Itoa(int(row.Code)), row.Meaning})
				}
				return t.Write(std.out, s.tableOptions())
			}
			if code := run(context.WithoutCancel(c.Context), append(words, "--help"), std); code != exit.OK {
				return &reported{code: code}
			}
			return nil
		},
	}
}
