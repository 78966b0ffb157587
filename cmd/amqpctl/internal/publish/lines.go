package publish

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
)

// Limits of reading lines.
const (
	lineBytesMax  = 16 << 20 // one line, and so one message
	readLineBytes = 64 << 10 // what is read at once
	chunkBytes    = 64 << 10 // lines are handed over when they are so many bytes, or when the next line is not there yet
	chunksAhead   = 1        // chunks read before they are published; one more is being published and one being filled
)

// Lines publishes each line of r as one message, without its newline; a carriage return belongs to the message, an empty line is an empty message,
// and a last line needs no newline. It ends at the end of r, at the first failure, or with ctx; Finish must follow in any case.
func (p *Publisher) Lines(ctx context.Context, r io.Reader) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	reader := newLineReader(ctx, r)
	for {
		chunk, err := p.nextChunk(ctx, reader)
		if err != nil {
			return err
		}
		start := 0
		for _, end := range chunk.ends {
			if err := p.Publish(ctx, chunk.text[start:end]); err != nil {
				return err
			}
			start = end
		}
		if chunk.err == io.EOF {
			return nil
		}
		if chunk.err != nil {
			return chunk.err
		}
		reader.free <- chunk
	}
}

// nextChunk waits for lines. While there are none, what was collected is let go and the broker's answers are watched.
func (p *Publisher) nextChunk(ctx context.Context, reader *lineReader) (*chunk, error) {
	select {
	case c := <-reader.chunks:
		return c, nil
	default:
	}
	if err := p.Flush(); err != nil {
		return nil, err
	}
	for {
		select {
		case c := <-reader.chunks:
			return c, nil
		case <-p.moved:
			if err := p.Err(); err != nil {
				return nil, err
			}
		case <-p.done:
			if err := p.Err(); err != nil {
				return nil, err
			}
			return nil, exit.Errorf(exit.Unavailable, "connection closed")
		case <-ctx.Done():
			return nil, exit.Errorf(exit.Interrupted, "interrupted")
		}
	}
}

// chunk is some whole lines one after another. err, io.EOF or another, comes after them.
type chunk struct {
	text []byte
	ends []int
	err  error
}

// lineReader reads in a goroutine of its own, because a read from a terminal or pipe cannot be interrupted. The goroutine ends with the input or
// with ctx, at the latest after the read under way.
type lineReader struct {
	chunks chan *chunk
	free   chan *chunk
}

func newLineReader(ctx context.Context, r io.Reader) *lineReader {
	l := &lineReader{chunks: make(chan *chunk, chunksAhead), free: make(chan *chunk, chunksAhead+2)}
	for range chunksAhead + 2 {
		l.free <- new(chunk)
	}
	go func() {
		in := bufio.NewReaderSize(r, readLineBytes)
		for line := 1; ; {
			var c *chunk
			select {
			case c = <-l.free:
			case <-ctx.Done():
				return
			}
			c.fill(in)
			line += len(c.ends)
			if c.err != nil && c.err != io.EOF {
				c.err = exit.Wrap(c.err, "line %d", line)
			}
			select {
			case l.chunks <- c:
			case <-ctx.Done():
				return
			}
			if c.err != nil {
				return
			}
		}
	}()
	return l
}

// fill reads at least one line, and further ones as long as they are there and the chunk is small.
func (c *chunk) fill(in *bufio.Reader) {
	c.text, c.ends, c.err = c.text[:0], c.ends[:0], nil
	if cap(c.text) > 2*chunkBytes {
		c.text = nil
	}
	for {
		text, err := readLine(in, c.text)
		if err != nil {
			c.err = err
			return
		}
		c.text, c.ends = text, append(c.ends, len(text))
		if len(c.text) >= chunkBytes || len(c.ends) >= chunkBytes || !lineBuffered(in) {
			return
		}
	}
}

// lineBuffered tells whether a whole line can be read without waiting for the input.
func lineBuffered(in *bufio.Reader) bool {
	there, _ := in.Peek(in.Buffered())
	return bytes.IndexByte(there, '\n') >= 0
}

// readLine appends one line without its newline to buf. io.EOF means that there is none.
func readLine(in *bufio.Reader, buf []byte) ([]byte, error) {
	start := len(buf)
	for {
		part, err := in.ReadSlice('\n')
		if len(buf)-start+len(part) > lineBytesMax {
			return nil, exit.Errorf(exit.Data, "longer than %d bytes", lineBytesMax)
		}
		buf = append(buf, part...)
		switch {
		case err == nil:
			return buf[:len(buf)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(buf) > start:
			return buf, nil
		default:
			return nil, err
		}
	}
}
