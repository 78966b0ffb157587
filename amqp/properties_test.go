package amqp

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// allProperties has every property, each with a value of its own.
func allProperties() Properties {
	var p Properties
	p.SetContentType("text/plain")
	p.SetContentEncoding("gzip")
	p.SetHeaders(Table{{"a", Int32(1)}, {"b", Array(Longstr("x"))}})
	p.SetDeliveryMode(2)
	p.SetPriority(9)
	p.SetCorrelationID("\x00\xff binary")
	p.SetReplyTo("amq.rabbitmq.reply-to")
	p.SetExpiration("60000")
	p.SetMessageID(strings.Repeat("m", 255))
	p.SetTimestamp(1 << 63)
	p.SetType("order")
	p.SetUserID("guest")
	p.SetAppID("shop")
	p.SetClusterID("c")
	return p
}

// keep returns the properties reduced to the given flags.
func keep(p Properties, flags PropertyFlags) Properties {
	v, err := ScanProperties(p.Append(nil))
	if err != nil {
		panic(err)
	}
	out, err := DecodeProperties(v.AppendEdited(nil, ^flags, nil))
	if err != nil {
		panic(err)
	}
	return out
}

// TestEveryCombinationOfProperties sends all 16,384 sets of properties.
func TestEveryCombinationOfProperties(t *testing.T) {
	all := allProperties()
	if all.Flags != flagsKnown {
		t.Fatalf("flags %016b", all.Flags)
	}
	for i := range 1 << propertyCount {
		p := all
		p.Flags = PropertyFlags(i) << (16 - propertyCount)
		raw := p.Append(nil)
		got, err := DecodeProperties(raw)
		if err != nil || got.Flags != p.Flags {
			t.Fatalf("%016b: got %016b, %v", p.Flags, got.Flags, err)
		}
		if again := got.Append(nil); !bytes.Equal(again, raw) {
			t.Fatalf("%016b: %x became %x", p.Flags, raw, again)
		}
		if want := keep(all, p.Flags); !reflect.DeepEqual(got, want) {
			t.Fatalf("%016b: got %v, want %v", p.Flags, &got, &want)
		}
	}
}

func TestViewFindsEachProperty(t *testing.T) {
	p := allProperties()
	v, err := ScanProperties(p.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	texts := []struct {
		find func() ([]byte, bool)
		want string
	}{
		{v.ContentType, p.ContentType}, {v.ContentEncoding, p.ContentEncoding}, {v.CorrelationID, p.CorrelationID}, {v.ReplyTo, p.ReplyTo},
		{v.Expiration, p.Expiration}, {v.MessageID, p.MessageID}, {v.Type, p.Type}, {v.UserID, p.UserID}, {v.AppID, p.AppID}, {v.ClusterID, p.ClusterID},
	}
	for i, c := range texts {
		if got, ok := c.find(); !ok || string(got) != c.want {
			t.Errorf("text %d: got %q, want %q", i, got, c.want)
		}
	}
	if n, ok := v.DeliveryMode(); !ok || n != 2 {
		t.Errorf("delivery mode %d", n)
	}
	if n, ok := v.Priority(); !ok || n != 9 {
		t.Errorf("priority %d", n)
	}
	if n, ok := v.Timestamp(); !ok || n != 1<<63 {
		t.Errorf("timestamp %d", n)
	}
	if h, ok := v.Headers(); !ok || !h.Table().Equal(p.Headers) {
		t.Errorf("headers %v", h.Table())
	}
	if !v.Flags().Has(FlagHeaders | FlagExpiration) {
		t.Errorf("flags %016b", v.Flags())
	}
}

func TestViewOfNoProperties(t *testing.T) {
	var zero PropertyView
	scanned, err := ScanProperties([]byte{0, 0})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []PropertyView{zero, scanned} {
		_, text := v.Expiration()
		_, octet := v.Priority()
		_, time := v.Timestamp()
		_, table := v.Headers()
		if text || octet || time || table || v.Flags() != 0 {
			t.Errorf("%+v has properties", v)
		}
		if got := v.AppendEdited(nil, 0, nil); !bytes.Equal(got, []byte{0, 0}) {
			t.Errorf("got %x", got)
		}
		if got, err := DecodeProperties(v.AppendEdited(nil, 0, Table{{"a", Void()}})); err != nil || got.String() != `headers={"a"=void}` {
			t.Errorf("got %v, %v", &got, err)
		}
	}
}

// TestTruncatedProperties cuts all properties after every octet.
func TestTruncatedProperties(t *testing.T) {
	p := allProperties()
	raw := p.Append(nil)
	for n := range raw {
		if v, err := ScanProperties(raw[:n]); !isCode(err, ReplySyntaxError) || v.Flags() != 0 {
			t.Errorf("%d of %d octets: %v, flags %b", n, len(raw), err, v.Flags())
		}
	}
	if _, err := ScanProperties(append(raw, 0)); !isCode(err, ReplySyntaxError) {
		t.Errorf("an octet too many: %v", err)
	}
}

func TestEmptyPropertiesAreThere(t *testing.T) {
	p := Properties{Flags: FlagMessageID | FlagHeaders | FlagPriority}
	got, err := DecodeProperties(p.Append(nil))
	if err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestUnknownPropertiesPassThrough has flags that nobody knows, in the first word and in further ones: the properties before them are found,
// and the octets behind survive an edit.
func TestUnknownPropertiesPassThrough(t *testing.T) {
	cases := []struct{ name, raw, edited string }{
		{"bit 1", "\x08\x02" + "\x05" + "?", "\x28\x02" + "\x00\x00\x00\x03\x01aV" + "\x05" + "?"},
		{"a second word", "\x08\x01\x80\x00" + "\x05" + "??", "\x28\x01\x80\x00" + "\x00\x00\x00\x03\x01aV" + "\x05" + "??"},
		{"an empty second word", "\x08\x01\x00\x00" + "\x05", "\x28\x01\x00\x00" + "\x00\x00\x00\x03\x01aV" + "\x05"},
		{"a third word", "\x08\x01\x00\x01\x00\x02" + "\x05" + "?", "\x28\x01\x00\x01\x00\x02" + "\x00\x00\x00\x03\x01aV" + "\x05" + "?"},
	}
	for _, c := range cases {
		v, err := ScanProperties([]byte(c.raw))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if n, ok := v.Priority(); !ok || n != 5 || string(v.Raw()) != c.raw {
			t.Errorf("%s: priority %d of %x", c.name, n, v.Raw())
		}
		if got := v.AppendEdited(nil, 0, Table{{"a", Void()}}); string(got) != c.edited {
			t.Errorf("%s: edited %x, want %x", c.name, got, c.edited)
		}
	}
	for _, raw := range []string{"", "\x00", "\x00\x01", "\x00\x01\x00", "\x00\x01\x00\x01", "\x00\x01\x00\x00?"} {
		if _, err := ScanProperties([]byte(raw)); !isCode(err, ReplySyntaxError) {
			t.Errorf("%x: %v", raw, err)
		}
	}
}

func TestEditedProperties(t *testing.T) {
	p := allProperties()
	v, err := ScanProperties(p.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := p
	want.Flags &^= FlagExpiration | FlagUserID
	want.Expiration, want.UserID, want.Headers = "", "", Table{{"x-death", Array()}}
	got, err := DecodeProperties(v.AppendEdited([]byte("prefix"), FlagExpiration|FlagUserID, want.Headers)[len("prefix"):])
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v\n%v", &got, &want, err)
	}
	if same := v.AppendEdited(nil, 0, nil); !bytes.Equal(same, v.Raw()) {
		t.Errorf("an edit of nothing gives %x", same)
	}
	none, err := DecodeProperties(v.AppendEdited(nil, FlagHeaders, nil))
	if err != nil || none.Flags.Has(FlagHeaders) {
		t.Errorf("headers are still there: %v, %v", &none, err)
	}
	replaced, err := DecodeProperties(v.AppendEdited(nil, FlagHeaders, Table{}))
	if err != nil || !replaced.Flags.Has(FlagHeaders) || len(replaced.Headers) != 0 {
		t.Errorf("headers are not empty: %v, %v", &replaced, err)
	}
}

func TestLoadForgetsWhatWasThere(t *testing.T) {
	p := allProperties()
	v, err := ScanProperties([]byte{0, 0})
	if err != nil {
		t.Fatal(err)
	}
	if v.Load(&p); !reflect.DeepEqual(p, Properties{}) {
		t.Errorf("got %v", &p)
	}
}

func TestLoadedPropertiesOutliveTheirBytes(t *testing.T) {
	want := allProperties()
	raw := want.Append(nil)
	got, err := DecodeProperties(raw)
	if err != nil {
		t.Fatal(err)
	}
	clear(raw)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", &got)
	}
}

func TestScanForgetsAfterAnError(t *testing.T) {
	p := allProperties()
	var v PropertyView
	if err := v.Scan(p.Append(nil)); err != nil {
		t.Fatal(err)
	}
	if err := v.Scan([]byte{0x80, 0}); err == nil || v.Flags() != 0 || v.Raw() != nil {
		t.Errorf("%v, flags %b", err, v.Flags())
	}
}
