package amqp

import (
	"bytes"
	"flag"
	"runtime"
	"sync"
	"testing"

	"github.com/warrenmq/warren/config/limits"
)

// decodedBytesPerByteMax is how much a decoder may allocate for each byte of the frame that brought its input.
const decodedBytesPerByteMax = 64

// decodedBytesMax bounds what decoding n bytes may allocate: they never come without a frame around them.
func decodedBytesMax(n int) uint64 { return uint64(decodedBytesPerByteMax * (n + FrameOverheadBytes)) }

// allocated is how many bytes f allocates: the least of a few runs if the first is more than most, for pools may be empty and others allocate, too.
func allocated(most uint64, f func()) uint64 {
	const runs = 4
	least := ^uint64(0)
	for range runs {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if least = min(least, after.TotalAlloc-before.TotalAlloc); least <= most {
			break
		}
	}
	return least
}

// measuredEach is how many inputs of a fuzz worker there are to one that is measured: that stops the world. Those of a corpus and of tests all are.
const measuredEach = 8

var decoded int

// bounded runs decode and fails if it allocates more than its n bytes of input allow.
func bounded(t testing.TB, what string, n int, decode func()) {
	t.Helper()
	if decoded++; decoded%measuredEach != 0 && isFuzzWorker() {
		decode()
		return
	}
	most := decodedBytesMax(n)
	if got := allocated(most, decode); got > most {
		t.Errorf("%s of %d bytes allocates %d bytes, at most %d are allowed", what, n, got, most)
	}
}

var isFuzzWorker = sync.OnceValue(func() bool {
	worker := flag.Lookup("test.fuzzworker")
	return worker != nil && worker.Value.String() == "true"
})

// keptBytes keeps what a planted decoder makes.
var keptBytes []byte

// TestDecodersThatAllocateTooMuchAreFound plants one that does and one that just does not.
func TestDecodersThatAllocateTooMuchAreFound(t *testing.T) {
	input := make([]byte, 1000)
	decode := func(times int) func() { return func() { keptBytes = make([]byte, times*len(input)) } }
	most := decodedBytesMax(len(input))
	if got := allocated(most, decode(decodedBytesPerByteMax+8)); got <= most {
		t.Errorf("%d bytes are not noticed, %d are allowed", got, most)
	}
	if got := allocated(most, decode(decodedBytesPerByteMax-8)); got > most {
		t.Errorf("%d bytes are too many, %d are allowed", got, most)
	}
}

// TestDenseInputIsBounded has the tables that become largest for their bytes: many values that have no bytes of their own.
func TestDenseInputIsBounded(t *testing.T) {
	void := bytes.Repeat([]byte{byte(TagVoid)}, limits.TableEntriesMax-1)
	emptyArrays := bytes.Repeat([]byte{byte(TagArray), 0, 0, 0, 0}, limits.TableEntriesMax-1)
	emptyTables := bytes.Repeat([]byte{byte(TagTable), 0, 0, 0, 0}, limits.TableEntriesMax-1)
	tables := map[string][]byte{"void entries": bytes.Repeat([]byte{0, byte(TagVoid)}, limits.TableEntriesMax)}
	for name, values := range map[string][]byte{"voids": void, "empty arrays": emptyArrays, "empty tables": emptyTables} {
		tables["an array of "+name] = appendLongstr([]byte{1, 'a', byte(TagArray)}, string(values))
	}
	for name, raw := range tables {
		if _, err := DecodeTable(raw); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		bounded(t, name, len(raw), func() { _, _ = DecodeTable(raw) })
		payload := (&QueueDeclare{}).Append(nil)
		payload = append(payload[:len(payload)-lengthBytes], appendLongstr(nil, string(raw))...)
		bounded(t, "queue.declare with "+name, len(payload), func() { _, _ = DecodeMethod(payload) })
	}
	bad := append((&BasicAck{}).Append(nil), bytes.Repeat([]byte{200}, 2000)...)
	bounded(t, "a method that cannot be decoded", len(bad), func() { _, _ = DecodeMethod(bad) })
}
