package transport

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/iotest"
)

func readerOf(b []byte, payloadBytesMax int) *frameReader {
	return &frameReader{from: window{from: bytes.NewReader(b), buf: make([]byte, 64)}, payloadBytesMax: payloadBytesMax}
}

func TestFramesComeBack(t *testing.T) {
	sizes := []int{0, 1, 11, 4096, growBytes - 1, growBytes, growBytes + 1, 4*growBytes + 5, 9 * growBytes}
	var wire []byte
	for i, size := range sizes {
		wire = appendFrame(wire, frameData+frameKind(i%4), bytes.Repeat([]byte{byte(i + 1)}, size))
	}
	for _, from := range []io.Reader{bytes.NewReader(wire), iotest.HalfReader(bytes.NewReader(wire)), iotest.DataErrReader(bytes.NewReader(wire))} {
		r := &frameReader{from: window{from: from, buf: make([]byte, 4096)}, payloadBytesMax: 9 * growBytes}
		buf := make([]byte, 0, 5000)
		for i, size := range sizes {
			kind, payload, err := r.next(buf)
			must(t, err)
			if kind != frameData+frameKind(i%4) || !bytes.Equal(payload, bytes.Repeat([]byte{byte(i + 1)}, size)) {
				t.Fatalf("frame %d came back as kind %d with %d bytes", i, kind, len(payload))
			}
			if inBuf := len(payload) > 0 && &payload[0] == &buf[:1][0]; inBuf != (size > 0 && size <= cap(buf)) {
				t.Errorf("frame of %d bytes: in the caller's buffer %v", size, inBuf)
			}
		}
		if _, _, err := r.next(nil); err != io.EOF {
			t.Errorf("behind the last frame: %v", err)
		}
	}
}

// Views are frames, too.
func TestViews(t *testing.T) {
	sizes := []int{0, 5, 60, 64, 65, 30, 200, 64, 1}
	var wire []byte
	for i, size := range sizes {
		wire = appendFrame(wire, frameData, bytes.Repeat([]byte{byte(i + 1)}, size))
	}
	r := &frameReader{from: window{from: iotest.HalfReader(bytes.NewReader(wire)), buf: make([]byte, 64)}, payloadBytesMax: 1000, views: true}
	for i, size := range sizes {
		_, payload, err := r.next(nil)
		must(t, err)
		if !bytes.Equal(payload, bytes.Repeat([]byte{byte(i + 1)}, size)) {
			t.Errorf("frame %d came back as %d bytes %x", i, len(payload), payload)
		}
	}
	r = readerOf(wire[:40], 1000)
	r.views = true
	for range 2 {
		_, _, err := r.next(nil)
		must(t, err)
	}
	if _, _, err := r.next(nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a frame that is cut: %v", err)
	}
}

// Whatever bit flips, no frame comes out; wherever the stream ends, it is no clean end.
func TestDamagedFrames(t *testing.T) {
	frame := appendFrame(nil, frameData, []byte("sixteen bytes 16"))
	for bit := range len(frame) * 8 {
		_, _, err := readerOf(append(flip(frame, bit), make([]byte, 100)...), 64).next(nil)
		if err == nil {
			t.Errorf("bit %d may flip", bit)
		} else if !errors.Is(err, ErrFrame) {
			t.Errorf("bit %d: %v is no ErrFrame", bit, err)
		}
	}
	for cut := 1; cut < len(frame); cut++ {
		if _, _, err := readerOf(frame[:cut], 64).next(nil); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	if _, _, err := readerOf(frame, 15).next(nil); !errors.Is(err, ErrFrame) {
		t.Errorf("a frame over the limit: %v", err)
	}
}

// A length takes memory only as far as bytes follow.
func TestLengthIsNotBelieved(t *testing.T) {
	head := make([]byte, frameHeaderBytes)
	putFrameHead(head, frameData, 160<<20)
	wire := append(head, make([]byte, 3*growBytes)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := readerOf(wire, 160<<20).next(nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	if allocated > 24*growBytes {
		t.Errorf("3 MiB of a frame that claims 160 MiB took %d bytes", allocated)
	}
}

// TestAssembly compares what a link writes, with and without copying, with frames made one by one.
func TestAssembly(t *testing.T) {
	var frames []outgoing
	var want []byte
	for i, sizes := range [][2]int{{0, 0}, {0, 1}, {3, 0}, {20, copyBytesMax}, {20, copyBytesMax + 1}, {0, 3 * copyBytesMax}, {copyBytesMax + 1, copyBytesMax + 1}, {5, 5}} {
		f := outgoing{bytes.Repeat([]byte{byte(2 * i)}, sizes[0]), bytes.Repeat([]byte{byte(2*i + 1)}, sizes[1])}
		frames = append(frames, f)
		want = appendFrame(want, frameData, append(bytes.Clone(f.head), f.body...))
	}
	var a assembly
	for range 2 {
		for _, vectored := range []bool{true, false} {
			buffers := a.assemble(frames, vectored)
			if vectored != (len(buffers) > 1) {
				t.Errorf("vectored %v: %d buffers", vectored, len(buffers))
			}
			if got := bytes.Join(buffers, nil); !bytes.Equal(got, want) {
				t.Errorf("vectored %v: other bytes than frames one by one", vectored)
			}
		}
	}
}

// FuzzFrames feeds a stream of anything: nothing panics, and what is accepted is what appendFrame makes.
func FuzzFrames(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, frameData, []byte("abc")), framePing, nil))
	f.Add(appendFrame(nil, frameAck, make([]byte, 8))[:15])
	f.Add(bytes.Repeat([]byte{0}, 40))
	f.Fuzz(func(t *testing.T, wire []byte) {
		r := readerOf(wire, 1<<16)
		at := 0
		for {
			kind, payload, err := r.next(nil)
			if err != nil {
				return
			}
			frame := appendFrame(nil, kind, payload)
			if !bytes.Equal(frame, wire[at:at+len(frame)]) {
				t.Fatalf("accepted %x, which is not how it is written", wire[at:at+len(frame)])
			}
			at += len(frame)
		}
	})
}

// FuzzHandshake has a caller and a called node that hear anything.
func FuzzHandshake(f *testing.F) {
	f.Add((&handshake{purpose: PurposeLink, lowest: 1, highest: 1}).appendHello(nil), true)
	f.Add(append((&handshake{purpose: PurposeLink, highest: 1}).appendAnswer(nil), appendVerdict(nil, codeOK, make([]byte, 32))...), false)
	f.Add((&handshake{highest: 1}).appendRefusal(nil, codeCluster, []byte("\xff\x00no")), false)
	f.Fuzz(func(t *testing.T, heard []byte, called bool) {
		h, err := newHandshake(deaf{Reader: bytes.NewReader(heard)}, testSecret, Peer{Node: 1, Cluster: testCluster})
		must(t, err)
		if called {
			_, err = h.answerCall(func(Peer, Purpose) *RefusedError { return nil })
		} else {
			_, err = h.call(PurposeLink, 2)
		}
		if err == nil {
			t.Fatalf("%x was taken for proof", heard)
		}
		for _, r := range err.Error() {
			if r < ' ' || r == 0x7f {
				t.Fatalf("%q is not fit for a log", err)
			}
		}
	})
}

// FuzzRaftPayloads has what a peer with the secret may send in good frames: nothing panics and nothing dangerous comes through.
func FuzzRaftPayloads(f *testing.F) {
	batch := sampleBatch(3, 100)
	b, err := batch.Marshal()
	must(f, err)
	f.Add(b)
	f.Add([]byte{0x0a, 0x02, 0x08, 0x07})
	f.Fuzz(func(t *testing.T, payload []byte) {
		if batch, err := decodeBatch(payload); err == nil {
			dropForeign(&batch)
			for _, m := range batch.Requests {
				if m.To == 0 || !travels(m.Type) {
					t.Fatalf("a message of type %v to %d came through", m.Type, m.To)
				}
			}
		}
		decodeChunk(payload)
	})
}
