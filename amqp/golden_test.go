package amqp

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what was decoded into testdata instead of comparing with it")

// goldenCase is one block of a golden file: comment lines, the bytes of some frames in hex, "----", one line per frame.
type goldenCase struct {
	comments []string
	hex      []string
	want     []string
}

// TestGoldenFrames decodes the recorded frames of testdata/frames, compares with the text beside them, and encodes them again to the same
// bytes. Blocks whose comment contains "lossy" hold bytes that mean what other bytes mean better, so they are not encoded again.
func TestGoldenFrames(t *testing.T) {
	files, err := filepath.Glob("testdata/frames/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runGoldenFile(t, file) })
	}
}

func runGoldenFile(t *testing.T, file string) {
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for i, block := range strings.Split(strings.TrimSpace(string(src)), "\n\n") {
		c := parseGolden(block)
		raw, err := hex.DecodeString(strings.Join(strings.Fields(strings.Join(c.hex, "")), ""))
		if err != nil {
			t.Fatalf("block %d: %v", i+1, err)
		}
		got, again := describe(raw)
		if *rewrite {
			c.want = got
		} else if !slices.Equal(got, c.want) {
			t.Errorf("block %d: %s\ngot\n%s\nwant\n%s", i+1, strings.Join(c.hex, " "), strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		if !strings.Contains(strings.Join(c.comments, " "), "lossy") && !bytes.Equal(raw, again) {
			t.Errorf("block %d: encoded again\ngot  %x\nwant %x", i+1, again, raw)
		}
		if i > 0 {
			out.WriteByte('\n')
		}
		out.WriteString(strings.Join(slices.Concat(c.comments, c.hex, []string{"----"}, c.want), "\n") + "\n")
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func parseGolden(block string) (c goldenCase) {
	decoded := false
	for _, line := range strings.Split(block, "\n") {
		switch {
		case line == "----":
			decoded = true
		case decoded:
			c.want = append(c.want, line)
		case strings.HasPrefix(line, "#"):
			c.comments = append(c.comments, line)
		default:
			c.hex = append(c.hex, line)
		}
	}
	return c
}

// describe decodes a run of frames into one line each and encodes them again. It ends with the first error; bytes that are no error yet, for
// more must follow, are "incomplete".
func describe(raw []byte) (lines []string, again []byte) {
	r := NewReader(bytes.NewReader(raw), nil, 131072)
	assemblers := map[uint16]*Assembler{}
	for {
		f, err := r.ReadFrame()
		if err == io.EOF {
			return lines, again
		}
		if err == io.ErrUnexpectedEOF {
			return append(lines, "incomplete"), raw
		}
		a := assemblers[f.Channel]
		if a == nil {
			a = &Assembler{}
			assemblers[f.Channel] = a
		}
		var line string
		if err == nil {
			line, again, err = describeFrame(f, a, again)
		}
		if err != nil {
			e := err.(*Error)
			line = fmt.Sprintf("error %v closes %v, method %v", e, e.Scope(), e.Method())
			return append(lines, line), raw
		}
		lines = append(lines, line)
	}
}

func describeFrame(f Frame, a *Assembler, again []byte) (string, []byte, error) {
	if f.Type == FrameHeartbeat {
		return "heartbeat", AppendHeartbeat(again), nil
	}
	part, _, err := a.Accept(f)
	if err != nil {
		return "", nil, err
	}
	switch part {
	case PartMethod:
		m, err := DecodeMethod(f.Payload)
		if err != nil {
			return "", nil, err
		}
		return fmt.Sprintf("%d %v", f.Channel, m), AppendMethodFrame(again, f.Channel, m), nil
	case PartHeader:
		h, err := ParseContentHeader(f.Payload)
		if err != nil {
			return "", nil, err
		}
		p, err := DecodeProperties(h.Properties)
		if err != nil {
			return "", nil, err
		}
		line := strings.TrimSpace(fmt.Sprintf("%d header class=%d body=%d %v", f.Channel, h.ClassID, h.BodySize, &p))
		return line, AppendHeaderFrame(again, f.Channel, h.ClassID, h.BodySize, p.Append(nil)), nil
	}
	return fmt.Sprintf("%d body %q", f.Channel, f.Payload), AppendBodyFrames(again, f.Channel, f.Payload, 0), nil
}
