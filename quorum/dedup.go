package quorum

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// dedupID makes the id of a message from its header: half of a SHA-256 of the value. ok is false without one, and for a void, by which clients say that there is none. Ids stand in logs and snapshots, so what
// they are made of never changes: text is the same as a string and as bytes, a whole number in every width, a fraction in both. Nothing else is the same as a value of another type.
func dedupID(headers amqp.RawTable) (id queue.DedupID, ok bool) {
	v, ok := headers.Lookup(meta.HeaderDedup)
	if !ok || v.Tag() == amqp.TagVoid {
		return id, false
	}
	var number [8]byte
	kind, data := v.Tag(), v.Encoded()
	switch kind {
	case amqp.TagLongstr, amqp.TagBytes:
		kind, data = amqp.TagLongstr, data[4:] // behind the length
	case amqp.TagFloat32, amqp.TagFloat64:
		f, _ := v.Value().AsFloat64()
		binary.BigEndian.PutUint64(number[:], math.Float64bits(f))
		kind, data = amqp.TagFloat64, number[:]
	default:
		if n, ok := v.AsInt64(); ok {
			binary.BigEndian.PutUint64(number[:], uint64(n))
			kind, data = amqp.TagInt64, number[:]
		}
	}
	sum := sha256.Sum256(data)
	sum[0] ^= byte(kind) // tells types apart without a copy of a long text
	return queue.DedupID{High: binary.BigEndian.Uint64(sum[:]), Low: binary.BigEndian.Uint64(sum[8:])}, true
}
