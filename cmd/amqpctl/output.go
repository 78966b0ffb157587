package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/table"
)

// unknown stands in a table for a value that the broker did not send.
const unknown = "-"

// writeJSON prints a JSON text indented; keys, their order and numbers stay as they were sent.
func writeJSON(w io.Writer, body []byte) error {
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(body), "", "  "); err != nil {
		return exit.Errorf(exit.Internal, "the answer is not JSON: %w", err)
	}
	out.WriteByte('\n')
	_, err := w.Write(out.Bytes())
	return err
}

// listWriter prints objects as one JSON array while they arrive.
type listWriter struct {
	w     io.Writer
	count int
}

func (l *listWriter) add(items []json.RawMessage) error {
	for _, item := range items {
		var out bytes.Buffer
		out.WriteString(map[bool]string{true: "[\n  ", false: ",\n  "}[l.count == 0])
		if err := json.Indent(&out, item, "  ", "  "); err != nil {
			return exit.Errorf(exit.Internal, "the answer is not JSON: %w", err)
		}
		l.count++
		if _, err := l.w.Write(out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func (l *listWriter) close() error {
	end := "\n]\n"
	if l.count == 0 {
		end = "[]\n"
	}
	_, err := io.WriteString(l.w, end)
	return err
}

// count renders a whole number of an object, or unknown.
func count(o httpapi.Object, name string) string {
	if _, ok := o.Float(name); !ok {
		return unknown
	}
	return fmt.Sprint(o.Int(name))
}

// rate renders a rate of an object; one that the broker did not send is one that never moved.
func rate(o httpapi.Object, name string) string {
	f, _ := o.Float(name)
	return table.Rate(f)
}
