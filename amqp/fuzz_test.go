package amqp

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// goldenBytes returns the bytes of all golden blocks, as seeds.
func goldenBytes(f *testing.F) (all [][]byte) {
	files, err := filepath.Glob("testdata/frames/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, block := range strings.Split(strings.TrimSpace(string(src)), "\n\n") {
			raw, err := hex.DecodeString(strings.Join(parseGolden(block).hex, ""))
			if err != nil {
				f.Fatal(err)
			}
			all = append(all, raw)
		}
	}
	return all
}

// goldenPayloads returns the payloads of the golden frames of one type.
func goldenPayloads(f *testing.F, typ uint8) (all [][]byte) {
	for _, raw := range goldenBytes(f) {
		r := NewReader(bytes.NewReader(raw), nil, 131072)
		for {
			frame, err := r.ReadFrame()
			if err != nil {
				break
			}
			if frame.Type == typ {
				all = append(all, bytes.Clone(frame.Payload))
			}
		}
	}
	return all
}

// protocolError fails unless err is an *Error with a code for malformed input.
func protocolError(t *testing.T, err error) {
	t.Helper()
	e, ok := err.(*Error)
	if !ok || e.Code < ReplyFrameError || e.Code > ReplyUnexpectedFrame || len(e.ReplyText()) > ReplyTextBytesMax {
		t.Fatalf("%T %v", err, err)
	}
}

// FuzzFrameReader splits a stream in two ways: the frames and the error at the end are the same, and no buffer is larger than the limits say.
func FuzzFrameReader(f *testing.F) {
	for _, raw := range goldenBytes(f) {
		f.Add(raw, []byte{1, 7, 63, 2})
	}
	stream, _ := sampleStream()
	f.Add(stream[:100], []byte{64})
	const frameMax = 8192
	read := func(t *testing.T, src io.Reader, available int) string {
		l := &lender{t: t}
		r := NewReader(src, l, frameMax)
		var out strings.Builder
		for {
			frame, err := r.ReadFrame()
			if err != nil {
				if err != io.EOF && err != io.ErrUnexpectedEOF {
					protocolError(t, err)
				}
				fmt.Fprint(&out, err)
				break
			}
			fmt.Fprintf(&out, "%d %d %x\n", frame.Type, frame.Channel, frame.Payload)
		}
		for _, size := range l.gets {
			if size > ReaderBufferBytesMax || size > max(ReaderBufferBytesMin, readerGrowth*available) {
				t.Fatalf("asked for a buffer of %d bytes when there were %d", size, available)
			}
		}
		return out.String()
	}
	f.Fuzz(func(t *testing.T, data, splits []byte) {
		src := &chunks{}
		rest := data
		for i := 0; len(rest) > 0; i++ {
			n := len(rest)
			if len(splits) > 0 {
				n = min(n, int(splits[i%len(splits)])+1)
			}
			src.parts, rest = append(src.parts, rest[:n]), rest[n:]
		}
		if whole, split := read(t, bytes.NewReader(data), len(data)), read(t, src, len(data)); whole != split {
			t.Fatalf("whole:\n%s\nsplit:\n%s", whole, split)
		}
	})
}

// FuzzDecodeMethod decodes any payload: an error is a protocol error, what was decoded decodes from what it sends to the same, views agree, and
// little is allocated.
func FuzzDecodeMethod(f *testing.F) {
	for _, payload := range goldenPayloads(f, FrameMethod) {
		f.Add(payload)
	}
	for _, id := range MethodIDs() {
		m := NewMethod(id)
		fill(m, true)
		f.Add(m.Append(nil))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, err := range []error{DispatchChannel(&noting{}, payload), DispatchConnection(&noting{}, payload)} {
			if err != nil {
				protocolError(t, err)
			}
		}
		var m Method
		var err error
		bounded(t, "a method", len(payload), func() { m, err = DecodeMethod(payload) })
		if err != nil {
			protocolError(t, err)
			return
		}
		_ = m.String()
		sent := m.Append(nil)
		if v := viewOf(m.ID()); v != nil {
			if err := v.Decode(payload); err != nil || !bytes.Equal(v.Append(nil), sent) {
				t.Fatalf("the view of %v: %v, %v", m, v, err)
			}
		}
		if len(sent) > len(payload) {
			t.Fatalf("%v: %d bytes became %d", m.ID(), len(payload), len(sent))
		}
		again, err := DecodeMethod(sent)
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("got %v, %v, want %v", again, err, m)
		}
	})
}

// viewOf returns a view for the methods that have one, else nil.
func viewOf(id MethodID) Method {
	switch id {
	case MethodBasicPublish:
		return &BasicPublishView{}
	case MethodBasicReturn:
		return &BasicReturnView{}
	case MethodBasicDeliver:
		return &BasicDeliverView{}
	case MethodBasicGetOk:
		return &BasicGetOkView{}
	}
	return nil
}

// FuzzTable decodes any table: what was decoded encodes to what decodes to the same, the raw walk agrees, and limits hold.
func FuzzTable(f *testing.F) {
	f.Add(everyTag().AppendEntries(nil))
	for _, payload := range goldenPayloads(f, FrameHeader) {
		if v, err := ScanProperties(payload[contentHeaderBytes:]); err == nil {
			headers, _ := v.Headers()
			f.Add([]byte(headers))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var table Table
		var err error
		bounded(t, "a table", len(raw), func() { table, err = DecodeTable(raw) })
		if err != nil {
			protocolError(t, err)
			return
		}
		if err := table.Check(); err != nil {
			t.Fatalf("decoded and refused: %v", err)
		}
		again, err := DecodeTable(table.AppendEntries(nil))
		if err != nil || !reflect.DeepEqual(table, again) || !table.Equal(again) || !table.Equal(table.Sorted()) {
			t.Fatalf("got %v, %v, want %v", again, err, table)
		}
		for rest, i := RawTable(raw), 0; ; i++ {
			key, v, next, ok := rest.Next()
			if !ok {
				if i != len(table) {
					t.Fatalf("walked %d of %d", i, len(table))
				}
				break
			}
			if string(key) != table[i].Key || !v.Equal(table[i].Value) {
				t.Fatalf("entry %d is %q=%v, want %v", i, key, v.Value(), table[i])
			}
			rest = next
		}
		_, _ = table.String(), table.ToMap()
	})
}

// FuzzContentHeader scans any content header: an edit of nothing gives the same bytes, and loaded properties send what loads to the same.
func FuzzContentHeader(f *testing.F) {
	for _, payload := range goldenPayloads(f, FrameHeader) {
		f.Add(payload)
	}
	p := allProperties()
	f.Add(AppendHeaderFrame(nil, 1, ClassBasic, 1, p.Append(nil))[frameHeaderBytes:])
	f.Fuzz(func(t *testing.T, payload []byte) {
		bounded(t, "a content header", len(payload), func() { decodeContentHeader(payload) })
		h, err := ParseContentHeader(payload)
		if err != nil {
			protocolError(t, err)
			return
		}
		v, err := ScanProperties(h.Properties)
		if err != nil {
			protocolError(t, err)
			return
		}
		if same := v.AppendEdited(nil, 0, nil); !bytes.Equal(same, h.Properties) {
			t.Fatalf("%x became %x", h.Properties, same)
		}
		var p Properties
		v.Load(&p)
		again, err := DecodeProperties(p.Append(nil))
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("got %v, %v, want %v", &again, err, &p)
		}
		table := Table{{"x-death", Array()}}
		edited, err := ScanProperties(v.AppendEdited(nil, FlagExpiration, table))
		if err != nil {
			t.Fatal(err)
		}
		headers, _ := edited.Headers()
		if _, expires := edited.Expiration(); expires || !headers.Table().Equal(table) {
			t.Fatalf("edited to %x", edited.Raw())
		}
	})
}

// decodeContentHeader makes all of a content header that can be made of it.
func decodeContentHeader(payload []byte) {
	if h, err := ParseContentHeader(payload); err == nil {
		_, _ = DecodeProperties(h.Properties)
	}
}

// FuzzLogin reads any response of both mechanisms: a login says so again, a refusal is 502 and says nothing of the response, and little is allocated.
func FuzzLogin(f *testing.F) {
	for _, response := range []string{"\x00guest\x00secret", "\x00\x00", "guest", "\x00a\x00b\x00c", "a\x00b\x00c"} {
		f.Add(response)
	}
	both := Table{{"LOGIN", Longstr("guest")}, {"PASSWORD", Longstr("secret")}}
	for _, t := range []Table{both, both[:1], both[1:], {both[1], both[0]}, {{"LOGIN", Bytes("guest")}, both[1]}, {both[0], both[0], both[1]}} {
		f.Add(string(t.AppendEntries(nil)))
	}
	f.Fuzz(func(t *testing.T, response string) {
		var login Login
		var err error
		refused := func() bool {
			if err == nil {
				return false
			}
			if protocolError(t, err); !isCode(err, ReplySyntaxError) {
				t.Fatal(err)
			}
			return true
		}
		bounded(t, "a PLAIN response", len(response), func() { login, err = ParsePlain(response) })
		if !refused() && "\x00"+login.User+"\x00"+login.Password != response {
			t.Fatalf("%q is %q, %q", response, login.User, login.Password)
		}
		bounded(t, "an AMQPLAIN response", len(response), func() { login, err = ParseAMQPlain(response) })
		if refused() {
			return
		}
		same := Table{{"LOGIN", Longstr(login.User)}, {"PASSWORD", Longstr(login.Password)}}
		if again, err := ParseAMQPlain(string(same.AppendEntries(nil))); err != nil || again != login {
			t.Fatalf("%q is %v, and then %v, %v", response, login, again, err)
		}
	})
}
