package proxyproto

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/config/limits"
)

// Header is what a PROXY header says.
type Header struct {
	// Local says that the connection is the proxy's own, as for a health check, or that it does not know whose it is: its own addresses count.
	Local bool
	// Source is the client's address and port, Destination the one that it connected to. Both are unset if Local.
	Source, Destination netip.AddrPort
}

// The errors of Read, beside those of the reader.
var (
	// ErrNone says that the bytes are not the beginning of a header.
	ErrNone = errors.New("proxyproto: there is no PROXY header")
	// ErrMalformed says that a header has begun that cannot be right.
	ErrMalformed = errors.New("proxyproto: the PROXY header is malformed")
	// ErrTooLarge says that a header is longer than limits.ProxyHeaderBytesMax.
	ErrTooLarge = errors.New("proxyproto: the PROXY header is too large")
)

const (
	signature1 = "PROXY "
	signature2 = "\r\n\r\n\x00\r\nQUIT\n"
	// line1BytesMax is the longest header of version 1 with its CR LF.
	line1BytesMax = 107
	// fixedBytes is the part of version 2 before the addresses.
	fixedBytes = 16
	// addressBytesMax is the longest pair of addresses of version 2, that of Unix sockets.
	addressBytesMax = 216
)

// Read reads a header off the beginning of a connection.
func Read(r io.Reader) (Header, error) {
	var buf [fixedBytes + addressBytesMax]byte
	// Both signatures are told apart by the first byte; no header is shorter than the longer signature.
	start := buf[:len(signature2)]
	for n := 0; n < len(start); {
		more, err := r.Read(start[n:])
		n += more
		if !begins(start[:n], signature1) && !begins(start[:n], signature2) {
			return Header{}, ErrNone
		}
		if err != nil && n < len(start) {
			return Header{}, unexpected(err)
		}
	}
	if start[0] == signature1[0] {
		return read1(r, buf[:line1BytesMax], len(start))
	}
	return read2(r, buf[:])
}

// begins tells whether b is what signature begins with, or begins with it.
func begins(b []byte, signature string) bool {
	n := min(len(b), len(signature))
	return string(b[:n]) == signature[:n]
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// read1 reads on to the end of the line, byte by byte: what follows it is not the header's.
func read1(r io.Reader, buf []byte, n int) (Header, error) {
	for buf[n-1] != '\n' {
		if n == len(buf) {
			return Header{}, ErrTooLarge
		}
		if _, err := io.ReadFull(r, buf[n:n+1]); err != nil {
			return Header{}, unexpected(err)
		}
		n++
	}
	line, ok := strings.CutSuffix(string(buf[:n]), "\r\n")
	if !ok {
		return Header{}, ErrMalformed
	}
	words := strings.Split(line, " ")
	if words[1] == "UNKNOWN" {
		return Header{Local: true}, nil
	}
	if len(words) != 6 || words[1] != "TCP4" && words[1] != "TCP6" {
		return Header{}, ErrMalformed
	}
	var h Header
	var okSource, okDestination bool
	h.Source, okSource = endpoint(words[2], words[4], words[1] == "TCP4")
	h.Destination, okDestination = endpoint(words[3], words[5], words[1] == "TCP4")
	if !okSource || !okDestination {
		return Header{}, ErrMalformed
	}
	return h, nil
}

func endpoint(host, port string, v4 bool) (netip.AddrPort, bool) {
	addr, err := netip.ParseAddr(host)
	n, errPort := strconv.ParseUint(port, 10, 16)
	ok := err == nil && errPort == nil && addr.Zone() == "" && addr.Is4() == v4 && port == strconv.FormatUint(n, 10)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), ok
}

// The second half of byte 12 of version 2, and the families of byte 13.
const (
	commandLocal = 0
	commandProxy = 1
	overTCP4     = 0x11
	overTCP6     = 0x21
)

// read2 reads a header of which buf has the signature.
func read2(r io.Reader, buf []byte) (Header, error) {
	if _, err := io.ReadFull(r, buf[len(signature2):fixedBytes]); err != nil {
		return Header{}, unexpected(err)
	}
	version, command, family := buf[12]>>4, buf[12]&0x0f, buf[13]
	left := int(binary.BigEndian.Uint16(buf[14:16]))
	if version != 2 || command > commandProxy {
		return Header{}, ErrMalformed
	}
	if left > limits.ProxyHeaderBytesMax {
		return Header{}, ErrTooLarge
	}
	addresses := buf[fixedBytes : fixedBytes+min(left, addressBytesMax)]
	if _, err := io.ReadFull(r, addresses); err != nil {
		return Header{}, unexpected(err)
	}
	h := Header{Local: true}
	if command == commandProxy {
		var err error
		if h, err = addresses2(family, addresses); err != nil {
			return Header{}, err
		}
	}
	// Extensions are of no use here.
	var dropped [64]byte
	for left -= len(addresses); left > 0; {
		part := dropped[:min(left, len(dropped))]
		if _, err := io.ReadFull(r, part); err != nil {
			return Header{}, unexpected(err)
		}
		left -= len(part)
	}
	return h, nil
}

// addresses2 reads the addresses of version 2. Other families than TCP's, whose addresses say nothing here, are the proxy's own connections.
func addresses2(family byte, b []byte) (Header, error) {
	size := 0
	switch family {
	case overTCP4:
		size = net.IPv4len
	case overTCP6:
		size = net.IPv6len
	default:
		return Header{Local: true}, nil
	}
	if len(b) < 2*size+4 {
		return Header{}, ErrMalformed
	}
	end := func(at, portAt int) netip.AddrPort {
		addr, _ := netip.AddrFromSlice(b[at : at+size])
		return netip.AddrPortFrom(addr.Unmap(), binary.BigEndian.Uint16(b[portAt:]))
	}
	return Header{Source: end(0, 2*size), Destination: end(size, 2*size+2)}, nil
}
