package amqp

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// fill sets every field of a method to a value of its own, bits alternating with first.
func fill(m any, first bool) {
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		switch f.Interface().(type) {
		case bool:
			f.SetBool(first)
			first = !first
		case string:
			f.SetString(fmt.Sprintf("é field %d", i))
		case []byte:
			f.SetBytes([]byte(fmt.Sprintf("é field %d", i)))
		case Table:
			f.Set(reflect.ValueOf(Table{{"é", Int32(int32(i))}, {"t", Nested(Table{{"a", Array(Bool(true), Void())}})}}))
		default:
			f.SetUint(uint64(i + 201))
		}
	}
}

// TestEveryMethodRoundTrips appends each method, decodes it, and finds the same fields; it refuses each shorter and a longer payload.
func TestEveryMethodRoundTrips(t *testing.T) {
	for _, id := range MethodIDs() {
		for _, first := range []bool{true, false} {
			m := NewMethod(id)
			fill(m, first)
			payload := m.Append(nil)
			if MethodIDOf(payload) != id || m.ID() != id {
				t.Fatalf("%v has id %v and sends %v", id, m.ID(), MethodIDOf(payload))
			}
			got, err := DecodeMethod(payload)
			if err != nil {
				t.Fatalf("%v: %v", id, err)
			}
			if !reflect.DeepEqual(got, m) {
				t.Errorf("%v: got %+v, want %+v", id, got, m)
			}
			refuse(t, id, payload)
		}
	}
}

// refuse checks that no other length of a payload is taken for the method.
func refuse(t *testing.T, id MethodID, payload []byte) {
	t.Helper()
	for n := range payload {
		m := NewMethod(id)
		want := ReplyFrameError
		if n < methodIDBytes {
			want = ReplyCommandInvalid
		}
		var e *Error
		if err := m.Decode(payload[:n]); !errors.As(err, &e) || e.Code != want {
			t.Errorf("%v: %d of %d octets give %v, want %d", id, n, len(payload), err, want)
		}
	}
	var e *Error
	if _, err := DecodeMethod(append(payload, 0)); !errors.As(err, &e) || e.Code != ReplyFrameError || e.Method() != id {
		t.Errorf("%v: an octet too many gives %v", id, err)
	}
}

// TestZeroMethodsRoundTrip sends methods with empty fields, where lengths are 0 and tables nil.
func TestZeroMethodsRoundTrip(t *testing.T) {
	for _, id := range MethodIDs() {
		m := NewMethod(id)
		got, err := DecodeMethod(m.Append(nil))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%v: got %+v, %v", id, got, err)
		}
	}
}

func TestDecodeOverwritesAReusedStruct(t *testing.T) {
	for _, id := range MethodIDs() {
		m := NewMethod(id)
		fill(m, true)
		if err := m.Decode(NewMethod(id).Append(nil)); err != nil || !reflect.DeepEqual(m, NewMethod(id)) {
			t.Errorf("%v keeps %+v, %v", id, m, err)
		}
	}
}

func TestViewsAreTheirMethods(t *testing.T) {
	views := []Method{&BasicPublishView{}, &BasicReturnView{}, &BasicDeliverView{}, &BasicGetOkView{}}
	for _, v := range views {
		m := NewMethod(v.ID())
		fill(m, true)
		payload := m.Append(nil)
		if err := v.Decode(payload); err != nil {
			t.Fatalf("%v: %v", v.ID(), err)
		}
		if again := v.Append(nil); !bytes.Equal(again, payload) {
			t.Errorf("%v: the view sends %x, the method %x", v.ID(), again, payload)
		}
		if !bytes.Equal(v.AppendFrame(nil, 7), m.AppendFrame(nil, 7)) {
			t.Errorf("%v: frames differ", v.ID())
		}
		if v.String() != m.String() {
			t.Errorf("the view says %v, the method %v", v, m)
		}
		for n := range payload {
			if v.Decode(payload[:n]) == nil {
				t.Errorf("%v: the view takes %d of %d octets", v.ID(), n, len(payload))
			}
		}
	}
}

func TestCopyOfAViewOutlivesItsPayload(t *testing.T) {
	payload := (&BasicPublish{Exchange: "orders", RoutingKey: "eu"}).Append(nil)
	var v BasicPublishView
	if err := v.Decode(payload); err != nil {
		t.Fatal(err)
	}
	c := v.Copy()
	clear(payload)
	if c.Exchange != "orders" || c.RoutingKey != "eu" || string(v.Exchange) == "orders" {
		t.Errorf("copy %v, view %v", &c, &v)
	}
}

// TestMethodFacts checks names, directions and flags of some methods against what the protocol says.
func TestMethodFacts(t *testing.T) {
	facts := []struct {
		id                                MethodID
		class, method                     uint16
		name                              string
		content, sync, toServer, toClient bool
	}{
		{MethodBasicPublish, 60, 40, "basic.publish", true, false, true, false},
		{MethodBasicDeliver, 60, 60, "basic.deliver", true, false, false, true},
		{MethodBasicCancel, 60, 30, "basic.cancel", false, true, true, true},
		{MethodBasicNack, 60, 120, "basic.nack", false, false, true, true},
		{MethodExchangeUnbindOk, 40, 51, "exchange.unbind-ok", false, false, false, true},
		{MethodConfirmSelect, 85, 10, "confirm.select", false, true, true, false},
		{MethodConnectionUpdateSecret, 10, 70, "connection.update-secret", false, true, true, false},
		{MethodTxRollbackOk, 90, 31, "tx.rollback-ok", false, false, false, true},
	}
	for _, f := range facts {
		id := f.id
		if id != NewMethodID(f.class, f.method) || id.Class() != f.class || id.Method() != f.method || id.String() != f.name {
			t.Errorf("%v is %d.%d, want %s %d.%d", id, id.Class(), id.Method(), f.name, f.class, f.method)
		}
		if id.HasContent() != f.content || id.Synchronous() != f.sync || id.ToServer() != f.toServer || id.ToClient() != f.toClient {
			t.Errorf("%v: content %v, sync %v, to server %v, to client %v", id, id.HasContent(), id.Synchronous(), id.ToServer(), id.ToClient())
		}
	}
	if n := len(MethodIDs()); n != 66 {
		t.Errorf("%d methods", n)
	}
	if id := NewMethodID(60, 99); id.Known() || id.String() != "60.99" {
		t.Errorf("%v is known", id)
	}
}

func TestEveryMethodHasAReceiver(t *testing.T) {
	for _, id := range MethodIDs() {
		if !id.ToServer() && !id.ToClient() {
			t.Errorf("nobody receives %v", id)
		}
		if strings.HasSuffix(id.String(), "-ok") && id.Synchronous() {
			t.Errorf("%v is a reply and waits for one", id)
		}
	}
}

func TestLongTextsAreCutBetweenCharacters(t *testing.T) {
	m := ConnectionClose{ReplyText: strings.Repeat("é", 200)}
	var got ConnectionClose
	if err := got.Decode(m.Append(nil)); err != nil {
		t.Fatal(err)
	}
	if got.ReplyText != strings.Repeat("é", 127) {
		t.Errorf("got %d bytes: %q", len(got.ReplyText), got.ReplyText)
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	const secret = "pa55word"
	methods := []Method{
		&ConnectionStartOk{Response: "\x00u\x00" + secret},
		&ConnectionSecureOk{Response: secret},
		&ConnectionUpdateSecret{NewSecret: secret},
	}
	for _, m := range methods {
		if s := m.String(); strings.Contains(s, secret) {
			t.Errorf("%s", s)
		}
		payload := m.Append(nil)
		err := NewMethod(m.ID()).Decode(append(payload, 'x'))
		if err == nil || strings.Contains(err.Error(), erlangBinary([]byte(secret)[:4], false)[2:8]) {
			t.Errorf("%v", err)
		}
	}
}
