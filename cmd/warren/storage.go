package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/wal"
)

// logFolder is the folder of the write-ahead log in a data directory.
const logFolder = "wal"

// damageError says that files were found damaged; which stands in the output.
type damageError struct {
	dir   string
	files int
	first error
}

func (e *damageError) Error() string {
	return fmt.Sprintf("damaged files of the log in %s: %d, the first: %v", e.dir, e.files, e.first)
}

func (e *damageError) Unwrap() error { return e.first }

// storageCommand looks at the write-ahead log of a node that does not run.
func storageCommand(stdout io.Writer) *cli.Command {
	usage := func(_ *cli.Context, err error, _ bool) error { return &usageError{err} }
	sub := func(name, text string, dump bool) *cli.Command {
		return &cli.Command{
			Name: name, Usage: text, ArgsUsage: "DIR", OnUsageError: usage,
			Action: func(c *cli.Context) error {
				if c.NArg() != 1 {
					return &usageError{fmt.Errorf("storage %s wants one directory", name)}
				}
				return scanLog(c.Args().First(), dump, stdout)
			},
		}
	}
	return &cli.Command{
		Name: "storage", Usage: "look at the write-ahead log of a stopped node, without changing it", OnUsageError: usage,
		Subcommands: []*cli.Command{
			sub("check", "verify every file of the log in the data directory DIR; exit code 65 if one is damaged", false),
			sub("dump", "print every record of the log in the data directory DIR", true),
		},
		Action: func(c *cli.Context) error {
			return &usageError{errors.New("storage wants check or dump")}
		},
	}
}

// scanLog prints the log in a data directory, or in the folder itself.
func scanLog(dir string, dump bool, stdout io.Writer) error {
	if info, err := storage.OS.Stat(filepath.Join(dir, logFolder)); err == nil && info.IsDir {
		dir = filepath.Join(dir, logFolder)
	}
	w := tabwriter.NewWriter(stdout, 0, 8, 2, ' ', 0)
	var visit func(wal.Record) error
	if dump {
		fmt.Fprintln(w, "FILE\tOFFSET\tBYTES\tSYNCED\tGROUP\tKIND\tCONTENT")
		visit = func(r wal.Record) error {
			_, err := fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d/%d\t%s\t%s\n", filepath.Base(r.File), r.OffsetBytes, r.Bytes, r.SyncedBytes, r.Group.Shard, r.Group.Replica, r.Kind, contentOf(r))
			return err
		}
	}
	files, err := wal.Scan(storage.OS, dir, visit)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("there is no write-ahead log in %s", dir)
	}
	if dump {
		fmt.Fprintln(w)
	}
	damage := &damageError{dir: dir}
	fmt.Fprintln(w, "FILE\tINCARNATION\tRECORDS\tUSED\tSIZE\tRESULT")
	for _, f := range files {
		result := "ok"
		switch {
		case f.Err != nil:
			result = f.Err.Error()
			if damage.files++; damage.first == nil {
				damage.first = f.Err
			}
		case f.Torn:
			result = "ok; behind it a write was cut off"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", filepath.Base(f.Name), f.Incarnation, f.Records, f.EndBytes, f.SizeBytes, result)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if damage.files > 0 {
		return damage
	}
	return nil
}

// contentOf says what a record has.
func contentOf(r wal.Record) string {
	text := ""
	add := func(format string, args ...any) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf(format, args...)
	}
	if r.Kind == "truncate" {
		add("entries up to %d go", r.Index)
	}
	if r.BootstrapBytes >= 0 {
		add("bootstrap of %d bytes", r.BootstrapBytes)
	}
	if r.StateBytes >= 0 {
		add("state of %d bytes", r.StateBytes)
	}
	if r.SnapshotBytes >= 0 {
		add("snapshot at %d of %d bytes", r.SnapshotIndex, r.SnapshotBytes)
	}
	if r.Restored {
		add("entries before go")
	}
	if r.First > 0 {
		add("entries %d to %d of %d bytes", r.First, r.Last, r.EntriesBytes)
	}
	return text
}
