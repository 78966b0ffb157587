package proxyproto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/warrenmq/warren/config/limits"
)

// v2 makes a header of version 2 that announces as many bytes as follow.
func v2(versionAndCommand, family byte, rest string) string {
	return signature2 + string([]byte{versionAndCommand, family}) + string(binary.BigEndian.AppendUint16(nil, uint16(len(rest)))) + rest
}

const (
	v4Addresses = "\xc0\x00\x02\x01\x0a\x00\x00\x01\x10\xe1\x16\x28"
	v6Addresses = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x00\x00\x01" + "\x10\xe1\x16\x28"
)

var cases = []struct {
	name, in string
	want     Header
	err      error
}{
	{"v1 TCP4", "PROXY TCP4 192.0.2.1 10.0.0.1 4321 5672\r\n", header("192.0.2.1:4321", "10.0.0.1:5672"), nil},
	{"v1 TCP6", "PROXY TCP6 2001:db8::1 ::ffff:10.0.0.1 4321 5672\r\n", header("[2001:db8::1]:4321", "10.0.0.1:5672"), nil},
	{"v1 unknown", "PROXY UNKNOWN\r\n", Header{Local: true}, nil},
	{"v1 unknown with addresses", "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", Header{Local: true}, nil},
	{"v1 longest", "PROXY UNKNOWN " + strings.Repeat("x", line1BytesMax-16) + "\r\n", Header{Local: true}, nil},
	{"v1 too long", "PROXY UNKNOWN " + strings.Repeat("x", line1BytesMax-15) + "\r\n", Header{}, ErrTooLarge},
	{"v1 without end", "PROXY " + strings.Repeat("x", 10_000), Header{}, ErrTooLarge},
	{"v1 line feed alone", "PROXY TCP4 192.0.2.1 10.0.0.1 4321 5672\n", Header{}, ErrMalformed},
	{"v1 two blanks", "PROXY TCP4  192.0.2.1 10.0.0.1 4321 5672\r\n", Header{}, ErrMalformed},
	{"v1 other family", "PROXY TCP4 ::1 ::1 4321 5672\r\n", Header{}, ErrMalformed},
	{"v1 other family of 6", "PROXY TCP6 192.0.2.1 10.0.0.1 4321 5672\r\n", Header{}, ErrMalformed},
	{"v1 zone", "PROXY TCP6 fe80::1%eth0 ::1 4321 5672\r\n", Header{}, ErrMalformed},
	{"v1 port too large", "PROXY TCP4 192.0.2.1 10.0.0.1 65536 5672\r\n", Header{}, ErrMalformed},
	{"v1 port with a zero", "PROXY TCP4 192.0.2.1 10.0.0.1 04321 5672\r\n", Header{}, ErrMalformed},
	{"v1 no address", "PROXY TCP4 192.0.2.1\r\n", Header{}, ErrMalformed},
	{"v1 octal address", "PROXY TCP4 192.0.02.1 10.0.0.1 4321 5672\r\n", Header{}, ErrMalformed},
	{"v1 other protocol", "PROXY UDP4 192.0.2.1 10.0.0.1 4321 5672\r\n", Header{}, ErrMalformed},
	{"v1 cut", "PROXY TCP4 192.0.2.1 10.0.0.1 43", Header{}, io.ErrUnexpectedEOF},
	{"v2 TCP4", v2(0x21, overTCP4, v4Addresses), header("192.0.2.1:4321", "10.0.0.1:5672"), nil},
	{"v2 TCP6", v2(0x21, overTCP6, v6Addresses), header("[2001:db8::1]:4321", "10.0.0.1:5672"), nil},
	{"v2 with extensions", v2(0x21, overTCP4, v4Addresses+strings.Repeat("\x04\x00\x01x", 200)), header("192.0.2.1:4321", "10.0.0.1:5672"), nil},
	{"v2 largest", v2(0x21, overTCP4, v4Addresses+strings.Repeat("x", limits.ProxyHeaderBytesMax-len(v4Addresses))), header("192.0.2.1:4321", "10.0.0.1:5672"), nil},
	{"v2 too large", v2(0x21, overTCP4, v4Addresses+strings.Repeat("x", limits.ProxyHeaderBytesMax)), Header{}, ErrTooLarge},
	{"v2 local", v2(0x20, 0, ""), Header{Local: true}, nil},
	{"v2 local with addresses", v2(0x20, overTCP4, v4Addresses), Header{Local: true}, nil},
	{"v2 Unix sockets", v2(0x21, 0x31, strings.Repeat("/", 216)), Header{Local: true}, nil},
	{"v2 short addresses", v2(0x21, overTCP4, v4Addresses[:11]), Header{}, ErrMalformed},
	{"v2 IPv6 in the space of IPv4", v2(0x21, overTCP6, v4Addresses), Header{}, ErrMalformed},
	{"v2 other command", v2(0x22, overTCP4, v4Addresses), Header{}, ErrMalformed},
	{"v3", v2(0x31, overTCP4, v4Addresses), Header{}, ErrMalformed},
	{"v2 cut in the fixed part", v2(0x21, overTCP4, v4Addresses)[:14], Header{}, io.ErrUnexpectedEOF},
	{"v2 cut in the addresses", v2(0x21, overTCP4, v4Addresses)[:20], Header{}, io.ErrUnexpectedEOF},
	{"AMQP", "AMQP\x00\x00\x09\x01", Header{}, ErrNone},
	{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", Header{}, ErrNone},
	{"nearly v1", "PROXX TCP4 192.0.2.1 10.0.0.1 4321 5672\r\n", Header{}, ErrNone},
	{"nearly v2", "\r\n\r\n\x00\r\nQUIX\x21\x11", Header{}, ErrNone},
	{"nothing", "", Header{}, io.ErrUnexpectedEOF},
}

func header(source, destination string) Header {
	return Header{Source: netip.MustParseAddrPort(source), Destination: netip.MustParseAddrPort(destination)}
}

// TestRead: every form of header, in one piece and byte by byte; what follows is left alone.
func TestRead(t *testing.T) {
	const behind = "AMQP\x00\x00\x09\x01"
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in := c.in
			if c.err == nil {
				in += behind
			}
			for _, slow := range []bool{false, true} {
				source := strings.NewReader(in)
				var r io.Reader = source
				if slow {
					r = iotest.OneByteReader(source)
				}
				got, err := Read(r)
				if got != c.want || !errors.Is(err, c.err) {
					t.Errorf("got %+v, %v, want %+v, %v", got, err, c.want, c.err)
				}
				if rest, _ := io.ReadAll(source); c.err == nil && string(rest) != behind {
					t.Errorf("left %q", rest)
				}
			}
		})
	}
}

// FuzzRead: any bytes are a header or refused, the same however they arrive, and no more is read than the largest header has.
func FuzzRead(f *testing.F) {
	for _, c := range cases {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, pieces := bytes.NewReader(in), bytes.NewReader(in)
		h, err := Read(whole)
		slow, slowErr := Read(iotest.OneByteReader(pieces))
		if h != slow || (err == nil) != (slowErr == nil) || err == nil && whole.Len() != pieces.Len() {
			t.Errorf("%+v, %v; byte by byte %+v, %v", h, err, slow, slowErr)
		}
		if read := len(in) - whole.Len(); read > fixedBytes+limits.ProxyHeaderBytesMax {
			t.Errorf("read %d bytes", read)
		}
		if err != nil && h != (Header{}) {
			t.Errorf("%+v with %v", h, err)
		}
		if err == nil && !h.Local && (!h.Source.IsValid() || !h.Destination.IsValid()) {
			t.Errorf("%+v has no address", h)
		}
	})
}
