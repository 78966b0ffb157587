package totalqueue

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// ID names one message. Its text, "publisher:seq", is also the message-id property that publishers set.
type ID struct {
	// Publisher is the name given to Ledger.Publisher; it contains no colon.
	Publisher string
	// Seq counts the publisher's messages from 1.
	Seq uint64
}

func (id ID) String() string { return id.Publisher + ":" + strconv.FormatUint(id.Seq, 10) }

// castagnoli is the polynomial of the bodies' checksum.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crcDigits is the length of the checksum in a body: eight digits of hexadecimal.
const crcDigits = 8

// encode builds a body of sizeBytes, or of what the value itself needs if that is more:
//
//	publisher:seq:crc32:padding
//
// The checksum covers everything else. The padding depends on the value, so that a body with the middle of another one does not pass.
func encode(id ID, sizeBytes int) []byte {
	body := make([]byte, 0, max(sizeBytes, 64))
	body = append(body, id.String()...)
	body = append(body, ':')
	crcAt := len(body)
	body = append(body, "00000000:"...)
	state := id.Seq*0x9e3779b97f4a7c15 + uint64(len(id.Publisher))
	for len(body) < sizeBytes {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		body = append(body, byte(' '+state%95))
	}
	copy(body[crcAt:], fmt.Sprintf("%0*x", crcDigits, checksum(body, crcAt)))
	return body
}

// checksum covers the body without the checksum's own digits.
func checksum(body []byte, crcAt int) uint32 {
	return crc32.Update(crc32.Checksum(body[:crcAt], castagnoli), castagnoli, body[crcAt+crcDigits:])
}

// Decode reads the value of a body; the error says what does not fit.
func Decode(body []byte) (ID, error) {
	name, rest, ok := bytes.Cut(body, []byte(":"))
	digits, sum, ok2 := bytes.Cut(rest, []byte(":"))
	if !ok || !ok2 || len(sum) < crcDigits+1 || sum[crcDigits] != ':' {
		return ID{}, fmt.Errorf("not a body of the checker: %s", excerpt(body))
	}
	seq, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil || seq == 0 {
		return ID{}, fmt.Errorf("no sequence number: %s", excerpt(body))
	}
	want, err := strconv.ParseUint(string(sum[:crcDigits]), 16, 32)
	crcAt := len(name) + 1 + len(digits) + 1
	if got := checksum(body, crcAt); err != nil || uint32(want) != got {
		return ID{}, fmt.Errorf("the checksum is %08x and should be %s: %s", got, sum[:crcDigits], excerpt(body))
	}
	return ID{Publisher: string(name), Seq: seq}, nil
}

// excerptBytesMax bounds how much of a body a message shows.
const excerptBytesMax = 60

func excerpt(body []byte) string {
	text := strconv.Quote(string(body[:min(len(body), excerptBytesMax)]))
	if len(body) > excerptBytesMax {
		text += " and " + strconv.Itoa(len(body)-excerptBytesMax) + " more bytes"
	}
	return strings.ToValidUTF8(text, "?")
}
