package amqp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/warrenmq/warren/config/limits"
)

// lender is a Buffers that counts what it lent and checks what comes back.
type lender struct {
	t    *testing.T
	out  map[*byte]bool
	gets []int
}

// Get implements Buffers.
func (l *lender) Get(sizeMin int) []byte {
	b := make([]byte, sizeMin)
	if l.out == nil {
		l.out = map[*byte]bool{}
	}
	l.out[&b[0]] = true
	l.gets = append(l.gets, sizeMin)
	return b
}

// Put implements Buffers. It destroys the content, so that a frame which still aliases it would be noticed.
func (l *lender) Put(b []byte) {
	if !l.out[&b[0]] {
		l.t.Error("a buffer came back that was not lent")
	}
	delete(l.out, &b[0])
	for i := range b {
		b[i] = 0xee
	}
}

// chunks is a source that gives one chunk per read, and an error for a nil chunk.
type chunks struct {
	parts [][]byte
	err   error
	reads int
}

// Read implements io.Reader.
func (c *chunks) Read(b []byte) (int, error) {
	c.reads++
	if len(c.parts) == 0 {
		return 0, io.EOF
	}
	part := c.parts[0]
	if part == nil {
		c.parts = c.parts[1:]
		return 0, c.err
	}
	n := copy(b, part)
	if c.parts[0] = part[n:]; n == len(part) {
		c.parts = c.parts[1:]
	}
	return n, nil
}

// sampleStream has frames of many sizes, each of another content, and their texts.
func sampleStream() (stream []byte, want []string) {
	add := func(typ uint8, channel uint16, payload []byte) {
		at := 0
		stream, at = beginFrame(stream, typ, channel)
		stream = endFrame(append(stream, payload...), at)
		want = append(want, fmt.Sprintf("%d %d %x", typ, channel, payload))
	}
	for i, size := range []int{4, 5, 40, 55, 56, 57, 100, 16000, 16384, 20000, 70000, 131064, 131072, 4, 300, 4} {
		add(FrameBody, uint16(i), bytes.Repeat([]byte{byte(i), 0xce}, size/2+1)[:size])
		add(FrameHeartbeat, 0, nil)
		add(FrameMethod, 65535, (&BasicAck{DeliveryTag: uint64(i)}).Append(nil))
		add(FrameBody, 1, nil)
	}
	return stream, want
}

func readAll(t *testing.T, r *Reader) (got []string, err error) {
	t.Helper()
	for {
		f, err := r.ReadFrame()
		if err != nil {
			return got, err
		}
		got = append(got, fmt.Sprintf("%d %d %x", f.Type, f.Channel, f.Payload))
	}
}

func TestFramesAreTheSameForAnySplit(t *testing.T) {
	stream, want := sampleStream()
	sources := map[string]io.Reader{
		"whole": bytes.NewReader(stream), "octets": iotest.OneByteReader(bytes.NewReader(stream)), "halves": iotest.HalfReader(bytes.NewReader(stream)),
		"error with data": iotest.DataErrReader(bytes.NewReader(stream)),
	}
	for _, size := range []int{7, 8, 63, 64, 65, 1460, 16384, 65536} {
		var parts [][]byte
		for i := 0; i < len(stream); i += size {
			parts = append(parts, stream[i:min(i+size, len(stream))])
		}
		sources[fmt.Sprintf("%d octets", size)] = &chunks{parts: parts}
	}
	for name, src := range sources {
		l := &lender{t: t}
		got, err := readAll(t, NewReader(src, l, 131072))
		if err != io.EOF {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: got %d frames, want %d, or others", name, len(got), len(want))
		}
		if len(l.out) > 1 {
			t.Errorf("%s: %d buffers are still lent", name, len(l.out))
		}
	}
}

// TestNextNeedsNoRead reads a batch at once: all of its frames are there without another read, and stay good until then.
func TestNextNeedsNoRead(t *testing.T) {
	stream := publishStream(10, 1000)
	src := &chunks{parts: [][]byte{stream[:50], stream[50:]}}
	r := NewReader(src, nil, 131072)
	for r.Buffered() < len(stream) {
		if err := r.Fill(); err != nil {
			t.Fatal(err)
		}
	}
	reads := src.reads
	var frames []Frame
	var texts []string
	for {
		f, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		frames, texts = append(frames, f), append(texts, string(f.Payload))
	}
	if src.reads != reads || len(frames) != 30 || r.Buffered() != 0 {
		t.Errorf("%d frames, %d reads, %d bytes left", len(frames), src.reads-reads, r.Buffered())
	}
	for i, f := range frames {
		if string(f.Payload) != texts[i] {
			t.Errorf("frame %d changed", i)
		}
	}
}

// TestIdleConnectionsHoldNoBuffer sees heartbeats and acks go by in the reader's own few bytes, a burst lend a buffer, and Release return it.
func TestIdleConnectionsHoldNoBuffer(t *testing.T) {
	beat := AppendHeartbeat(nil)
	ack := (&BasicAck{DeliveryTag: 1}).AppendFrame(nil, 1)
	burst := publishStream(5, 1000)
	l := &lender{t: t}
	r := NewReader(&chunks{parts: [][]byte{beat, ack, beat, burst, beat[:3], beat[3:], beat}}, l, 131072)
	next := func(n int) {
		t.Helper()
		for range n {
			if _, err := r.ReadFrame(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if next(3); len(l.gets) != 0 {
		t.Errorf("small frames lent %v", l.gets)
	}
	if next(15); len(l.out) != 1 {
		t.Errorf("a burst lent %v", l.gets)
	}
	if err := r.Fill(); err != nil {
		t.Fatal(err)
	}
	if r.Release() {
		t.Error("released inside a frame")
	}
	if next(1); !r.Release() || len(l.out) != 0 {
		t.Errorf("%d buffers are still lent", len(l.out))
	}
	if next(1); len(l.out) != 0 {
		t.Error("a heartbeat lent a buffer")
	}
}

// TestBufferGrowsWithTraffic has reads fill the buffer: it grows up to its limit, and no further.
func TestBufferGrowsWithTraffic(t *testing.T) {
	for _, c := range []struct {
		trust bool
		want  string
	}{{false, "[1024 8192 65536]"}, {true, "[16384 65536]"}} {
		l := &lender{t: t}
		r := NewReader(&endless{stream: publishStream(100, 400)}, l, 131072)
		if c.trust {
			r.Trust()
		}
		for range 10000 {
			if _, err := r.ReadFrame(); err != nil {
				t.Fatal(err)
			}
		}
		if got := fmt.Sprint(l.gets); got != c.want {
			t.Errorf("lent %s, want %s", got, c.want)
		}
	}
}

// TestBufferGrowsWithWhatComes: a buffer of 16 KiB was once lent for one octet, and one of the frame's size for its announcement.
func TestBufferGrowsWithWhatComes(t *testing.T) {
	stream := append(AppendBodyFrameStart(nil, 1, 131064), make([]byte, 131064)...)
	for _, step := range []int{1, 7, 64, 1000, 5000} {
		l := &lender{t: t}
		src := &chunks{}
		r := NewReader(src, l, 131072)
		for sent := 0; sent < len(stream); {
			n := min(step, len(stream)-sent)
			src.parts = [][]byte{stream[sent : sent+n]}
			sent += n
			for len(src.parts) > 0 {
				if _, ok, err := r.Next(); ok || err != nil {
					t.Fatal(ok, err)
				}
				if err := r.Fill(); err != nil {
					t.Fatal(err)
				}
				if n := len(l.gets); n > 0 && l.gets[n-1] > max(ReaderBufferBytesMin, readerGrowth*sent) {
					t.Fatalf("in steps of %d: lent %v for %d bytes", step, l.gets, sent)
				}
			}
		}
		if got := l.gets[len(l.gets)-1]; got != len(stream)+1 {
			t.Errorf("lent %v for a frame of %d bytes", l.gets, len(stream)+1)
		}
	}
}

// TestFrameSizeLimit takes payloads up to frame-max - 8, and 8 more as RabbitMQ does, and refuses others by their announced size: nothing is
// lent for them.
func TestFrameSizeLimit(t *testing.T) {
	for _, frameMax := range []uint32{4096, 8192, 131072} {
		for _, c := range []struct {
			size uint32
			ok   bool
		}{{frameMax - 8, true}, {frameMax - 1, true}, {frameMax, true}, {frameMax + 1, false}, {1 << 30, false}, {1<<32 - 1, false}} {
			l := &lender{t: t}
			head := AppendBodyFrameStart(nil, 3, int(c.size))
			src := io.MultiReader(bytes.NewReader(head), io.LimitReader(&endless{stream: []byte{0xce}}, int64(c.size)+1))
			f, err := NewReader(src, l, frameMax).ReadFrame()
			if c.ok {
				if err != nil || uint32(len(f.Payload)) != c.size {
					t.Errorf("frame-max %d: %d bytes: %v", frameMax, c.size, err)
				}
				continue
			}
			want := fmt.Sprintf("501 FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,%d,%d}", c.size, frameMax-8)
			if err == nil || err.Error() != want {
				t.Errorf("frame-max %d: %d bytes: %v", frameMax, c.size, err)
			}
			if len(l.gets) != 0 {
				t.Errorf("frame-max %d: lent %v for %d bytes", frameMax, l.gets, c.size)
			}
		}
	}
}

func TestFrameMaxIsKeptInBounds(t *testing.T) {
	for _, c := range []struct{ set, want uint32 }{{0, limits.FrameBytesMin}, {1, limits.FrameBytesMin}, {1<<32 - 1, limits.FrameBytesCeiling}, {5000, 5000}} {
		r := NewReader(nil, nil, c.set)
		if r.frameMax != c.want {
			t.Errorf("frame-max %d became %d", c.set, r.frameMax)
		}
	}
}

func TestEndOfStream(t *testing.T) {
	frame := (&BasicAck{}).AppendFrame(nil, 1)
	for n := range len(frame) + 1 {
		r := NewReader(bytes.NewReader(frame[:n]), nil, 131072)
		_, err := r.ReadFrame()
		if err == nil {
			_, err = r.ReadFrame()
		}
		want := io.ErrUnexpectedEOF
		if n == 0 || n == len(frame) {
			want = io.EOF
		}
		if err != want {
			t.Errorf("%d of %d octets: %v", n, len(frame), err)
		}
	}
}

// TestTimeoutsLoseNothing has the source time out inside a frame: the next call goes on where it stopped.
func TestTimeoutsLoseNothing(t *testing.T) {
	timeout := errors.New("timeout")
	frame := publishStream(1, 1000)
	src := &chunks{err: timeout}
	for i := range frame {
		src.parts = append(src.parts, nil, frame[i:i+1])
	}
	r := NewReader(src, nil, 131072)
	timeouts, frames := 0, 0
	for {
		_, err := r.ReadFrame()
		switch err {
		case nil:
			frames++
		case timeout:
			timeouts++
		case io.EOF:
			if frames != 3 || timeouts != len(frame) {
				t.Errorf("%d frames, %d of %d timeouts", frames, timeouts, len(frame))
			}
			return
		default:
			t.Fatal(err)
		}
	}
}

func TestProtocolErrorsAreFinal(t *testing.T) {
	good := AppendHeartbeat(nil)
	for _, bad := range [][]byte{{9, 0, 0, 0, 0, 0, 0, FrameEnd}, {8, 0, 0, 0, 0, 0, 0, 0}, {8, 0, 1, 0, 0, 0, 0, FrameEnd}, {3, 0, 0, 255, 0, 0, 0}} {
		r := NewReader(bytes.NewReader(append(bad, good...)), nil, 131072)
		_, first := r.ReadFrame()
		_, again := r.ReadFrame()
		if first == nil || again != first || r.Fill() != first {
			t.Errorf("%v: %v, then %v", bad, first, again)
		}
	}
}

// stuck is a source that breaks the rules of io.Reader.
type stuck int

// Read implements io.Reader.
func (s stuck) Read([]byte) (int, error) { return int(s), nil }

func TestBrokenSourcesEnd(t *testing.T) {
	for _, s := range []stuck{0, -1, 1 << 20} {
		if _, err := NewReader(s, nil, 131072).ReadFrame(); err != io.ErrNoProgress {
			t.Errorf("%d: %v", s, err)
		}
	}
}

func TestProtocolHeader(t *testing.T) {
	cases := []struct {
		in  string
		ok  bool
		err error
	}{
		{ProtocolHeader, true, nil}, {"AMQP\x01\x01\x00\x09", true, nil},
		{"AMQP\x03\x01\x00\x00", false, nil}, {"AMQP\x00\x01\x00\x00", false, nil}, {"AMQP\x01\x01\x09\x01", false, nil}, {"AMQP\x00\x00\x09\x00", false, nil},
		{"GET / HTTP/1.1\r\n", false, nil}, {"\x16\x03\x01", false, nil}, {"x", false, nil},
		{"", false, io.EOF}, {"AMQ", false, io.ErrUnexpectedEOF}, {"AMQP\x00\x00\x09", false, io.ErrUnexpectedEOF},
	}
	for _, c := range cases {
		for _, src := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in))} {
			if ok, err := NewReader(src, nil, 4096).ReadProtocolHeader(); ok != c.ok || err != c.err {
				t.Errorf("%q: %v, %v", c.in, ok, err)
			}
		}
	}
}

// TestProtocolHeaderIsNoFrame: octets 3 to 6 of the protocol header were once taken for the length of a frame, and 1.3 GB asked for.
func TestProtocolHeaderIsNoFrame(t *testing.T) {
	for n := range protocolBytes {
		l := &lender{t: t}
		parts := [][]byte{[]byte(ProtocolHeader[:n]), []byte(ProtocolHeader[n:])}
		if ok, err := NewReader(&chunks{parts: parts}, l, 131072).ReadProtocolHeader(); !ok || err != nil {
			t.Errorf("split after %d: %v, %v", n, ok, err)
		}
		for _, size := range l.gets {
			if size > ReaderBufferBytesMin {
				t.Errorf("split after %d: lent %d bytes", n, size)
			}
		}
	}
}

func TestFramesFollowTheProtocolHeader(t *testing.T) {
	stream := append([]byte(ProtocolHeader), (&ChannelOpen{}).AppendFrame(nil, 1)...)
	r := NewReader(bytes.NewReader(stream), nil, 131072)
	if ok, err := r.ReadProtocolHeader(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if f, err := r.ReadFrame(); err != nil || f.Method() != MethodChannelOpen {
		t.Errorf("%v, %v", f, err)
	}
}
