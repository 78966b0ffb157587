package amqp

import (
	"bytes"
	"io"
	"testing"

	"github.com/warrenmq/warren/config/limits"
)

// TestBodiesAreSplit joins the body frames again and finds each one within frame-max and full but the last.
func TestBodiesAreSplit(t *testing.T) {
	for _, frameMax := range []uint32{0, 9, 4096, 131072} {
		for _, size := range []int{0, 1, 2, 4087, 4088, 4089, 8176, 8177, 131064, 131065, 300000} {
			body := bytes.Repeat([]byte{1, 2, 3, FrameEnd, 5}, size/5+1)[:size]
			if frameMax == 9 && size > 10000 {
				continue
			}
			out := AppendBodyFrames([]byte("before"), 7, body, frameMax)[len("before"):]
			if len(out) != BodyFramesBytes(size, frameMax) {
				t.Errorf("frame-max %d, body %d: %d bytes, announced %d", frameMax, size, len(out), BodyFramesBytes(size, frameMax))
			}
			joinBody(t, out, body, frameMax)
		}
	}
}

func joinBody(t *testing.T, out, body []byte, frameMax uint32) {
	t.Helper()
	limit := int(frameMax)
	if limit == 0 {
		limit = len(body) + FrameOverheadBytes
	}
	r := NewReader(bytes.NewReader(out), nil, limits.FrameBytesCeiling)
	var joined []byte
	for last := limit; ; {
		f, err := r.ReadFrame()
		if err == io.EOF {
			break
		}
		if err != nil || f.Type != FrameBody || f.Channel != 7 || len(f.Payload) == 0 {
			t.Fatalf("frame %v %d %d, %v", f.Type, f.Channel, len(f.Payload), err)
		}
		if n := len(f.Payload) + FrameOverheadBytes; n > limit || last < limit {
			t.Errorf("frame-max %d: a frame of %d follows one of %d", limit, n, last)
		} else {
			last = n
		}
		joined = append(joined, f.Payload...)
	}
	if !bytes.Equal(joined, body) {
		t.Errorf("frame-max %d: body of %d bytes became %d", limit, len(body), len(joined))
	}
}

func TestBodyFrameInPieces(t *testing.T) {
	body := []byte("where it is")
	got := AppendBodyFrameStart(nil, 258, len(body))
	got = append(append(got, body...), FrameEnd)
	if want := AppendBodyFrames(nil, 258, body, 0); !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

func TestContentHeaderFrame(t *testing.T) {
	p := allProperties()
	for _, props := range [][]byte{p.Append(nil), {0, 0}, nil} {
		r := NewReader(bytes.NewReader(AppendHeaderFrame(nil, 3, ClassBasic, 1<<40, props)), nil, 131072)
		f, err := r.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		h, err := ParseContentHeader(f.Payload)
		if len(props) == 0 {
			props = []byte{0, 0}
		}
		if err != nil || f.Channel != 3 || h.ClassID != ClassBasic || h.BodySize != 1<<40 || !bytes.Equal(h.Properties, props) {
			t.Errorf("got %+v, %v", h, err)
		}
	}
	weight := []byte{0, 60, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	for n := range weight {
		if _, err := ParseContentHeader(weight[:n]); !isCode(err, ReplyFrameError) {
			t.Errorf("%d octets: %v", n, err)
		}
	}
	if _, err := ParseContentHeader(weight); !isCode(err, ReplyFrameError) {
		t.Errorf("weight 1: %v", err)
	}
}

func TestMethodFrameHelperIsTheMethodsOwn(t *testing.T) {
	m := &QueuePurgeOk{MessageCount: 7}
	if got, want := AppendMethodFrame([]byte{1}, 9, m), m.AppendFrame([]byte{1}, 9); !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}
