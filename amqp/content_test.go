package amqp

import (
	"bytes"
	"testing"
)

// TestAssembler walks the contents of a publish and checks after each frame what is expected next. The errors are golden frames.
func TestAssembler(t *testing.T) {
	steps := []struct {
		frame     []byte
		part      Part
		done      bool
		remaining uint64
	}{
		{(&BasicAck{}).AppendFrame(nil, 1), PartMethod, true, 0},
		{(&BasicPublish{}).AppendFrame(nil, 1), PartMethod, false, 0},
		{AppendHeaderFrame(nil, 1, ClassBasic, 5, nil), PartHeader, false, 5},
		{AppendBodyFrames(nil, 1, []byte("abc"), 0), PartBody, false, 2},
		{append(AppendBodyFrameStart(nil, 1, 0), FrameEnd), PartBody, false, 2},
		{AppendBodyFrames(nil, 1, []byte("de"), 0), PartBody, true, 0},
		{(&BasicPublish{}).AppendFrame(nil, 1), PartMethod, false, 0},
		{AppendHeaderFrame(nil, 1, ClassBasic, 0, nil), PartHeader, true, 0},
		{(&BasicPublish{}).AppendFrame(nil, 1), PartMethod, false, 0},
		{AppendHeaderFrame(nil, 1, ClassBasic, ContentBodyBytesMax, nil), PartHeader, false, ContentBodyBytesMax},
	}
	var a Assembler
	for i, s := range steps {
		f, err := NewReader(bytes.NewReader(s.frame), nil, 131072).ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		part, done, err := a.Accept(f)
		if err != nil || part != s.part || done != s.done || a.Remaining() != s.remaining {
			t.Fatalf("step %d: part %d, done %v, %d to come, %v", i, part, done, a.Remaining(), err)
		}
	}
}

// TestAssemblerKeepsItsStateAfterAnError, for what follows belongs to a connection that is being closed.
func TestAssemblerKeepsItsStateAfterAnError(t *testing.T) {
	var a Assembler
	publish := Frame{Type: FrameMethod, Payload: (&BasicPublish{}).Append(nil)}
	if _, _, err := a.Accept(publish); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, _, err := a.Accept(publish); !isCode(err, ReplyUnexpectedFrame) {
			t.Errorf("got %v", err)
		}
	}
	a = Assembler{}
	if part, _, err := a.Accept(publish); part != PartMethod || err != nil {
		t.Errorf("after a reset: %v, %v", part, err)
	}
}
