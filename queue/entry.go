package queue

import (
	"encoding/binary"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
)

// EntryKind is the first octet of every encoded proposal. The numbers stand in logs: only add at the end; those from 128 are free for shells.
type EntryKind uint8

const (
	// EntryBatch: a pipeline batch.
	EntryBatch EntryKind = 1
	// EntryCommand: one command that travels outside pipelines.
	EntryCommand EntryKind = 2
)

// Both kinds of entries begin with the kind and the stamp, so that a proposer can stamp any of them in place.
const (
	stampOffset = 1
	stampEnd    = stampOffset + 8
	// BatchHeaderBytes is the length of the header in front of the encoded commands of a batch:
	//
	//	kind 1 | now 8 | node 8 | boot counter 8 | boot nonce 8 | gen 8 | k 8 | count 4
	BatchHeaderBytes = stampEnd + 8 + 8 + 8 + 8 + 8 + 4
)

// Entry is one decoded proposal: what a shell finds in its log.
type Entry struct {
	Kind EntryKind
	// NowMillis is the proposer's stamp.
	NowMillis int64
	// Batch counts if Kind is EntryBatch, Command if it is EntryCommand. Both alias the decoded bytes.
	Batch   Batch
	Command Command
}

// DecodeEntry reads a whole proposal into e. The commands of a batch are not looked at (ValidateBatch and ApplyBatch do that). The error is codec.ErrTruncated or
// codec.ErrMalformed.
func DecodeEntry(src []byte, e *Entry) error {
	if len(src) == 0 {
		return codec.ErrTruncated
	}
	e.Kind = EntryKind(src[0])
	switch e.Kind {
	case EntryBatch:
		if err := DecodeBatch(src, &e.Batch); err != nil {
			return err
		}
		e.NowMillis = e.Batch.NowMillis
		return nil
	case EntryCommand:
		if len(src) < stampEnd {
			return codec.ErrTruncated
		}
		e.NowMillis = int64(binary.BigEndian.Uint64(src[stampOffset:]))
		rest, err := DecodeCommand(src[stampEnd:], &e.Command)
		if err != nil {
			return err
		}
		if len(rest) != 0 || e.Command.Op.IsBatched() {
			return codec.ErrMalformed
		}
		return nil
	}
	return codec.ErrMalformed
}

// StampEntry overwrites the stamp of an encoded entry of either kind. The proposer does it right before it proposes.
func StampEntry(src []byte, nowMillis int64) error {
	if len(src) < stampEnd {
		return codec.ErrTruncated
	}
	binary.BigEndian.PutUint64(src[stampOffset:], uint64(nowMillis))
	return nil
}

// AppendCommandEntry appends the proposal of one command that travels outside pipelines.
func AppendCommandEntry(dst []byte, nowMillis int64, c *Command) []byte {
	dst = append(dst, byte(EntryCommand))
	dst = codec.AppendUint64(dst, uint64(nowMillis))
	return AppendCommand(dst, c)
}

// AppendBatchHeader appends the header of a batch, BatchHeaderBytes long; the encoded commands follow it.
func AppendBatchHeader(dst []byte, p PipelineID, k uint64, nowMillis int64, count int) []byte {
	n := len(dst)
	dst = append(dst, make([]byte, BatchHeaderBytes)...)
	PutBatchHeader(dst[n:], p, k, nowMillis, count)
	return dst
}

// PutBatchHeader writes the header of a batch into dst[:BatchHeaderBytes]. A sender that leaves that much room in front of its buffer of commands
// copies nothing.
func PutBatchHeader(dst []byte, p PipelineID, k uint64, nowMillis int64, count int) {
	_ = dst[BatchHeaderBytes-1]
	dst[0] = byte(EntryBatch)
	binary.BigEndian.PutUint64(dst[stampOffset:], uint64(nowMillis))
	binary.BigEndian.PutUint64(dst[9:], uint64(p.Node))
	binary.BigEndian.PutUint64(dst[17:], p.Boot.Counter)
	binary.BigEndian.PutUint64(dst[25:], p.Boot.Nonce)
	binary.BigEndian.PutUint64(dst[33:], p.Gen)
	binary.BigEndian.PutUint64(dst[41:], k)
	binary.BigEndian.PutUint32(dst[49:], uint32(count))
}

// AppendBatch appends the whole encoded batch: header and commands.
func AppendBatch(dst []byte, b *Batch) []byte {
	dst = AppendBatchHeader(dst, b.Pipeline, b.K, b.NowMillis, b.Count)
	return append(dst, b.Commands...)
}

// DecodeBatch reads a batch, which must fill src. b.Commands aliases src; the commands are not looked at. The error is codec.ErrTruncated or codec.ErrMalformed
// (not a batch, k 0, a count of 0 or above limits.BatchCommandsMax).
func DecodeBatch(src []byte, b *Batch) error {
	if len(src) < BatchHeaderBytes {
		return codec.ErrTruncated
	}
	*b = Batch{
		Pipeline: PipelineID{
			Node: NodeID(binary.BigEndian.Uint64(src[9:])),
			Boot: Boot{Counter: binary.BigEndian.Uint64(src[17:]), Nonce: binary.BigEndian.Uint64(src[25:])},
			Gen:  binary.BigEndian.Uint64(src[33:]),
		},
		NowMillis: int64(binary.BigEndian.Uint64(src[stampOffset:])),
		K:         binary.BigEndian.Uint64(src[41:]),
		Count:     int(binary.BigEndian.Uint32(src[49:])),
		Commands:  src[BatchHeaderBytes:],
	}
	if EntryKind(src[0]) != EntryBatch || b.K == 0 || b.Count == 0 || b.Count > limits.BatchCommandsMax {
		return codec.ErrMalformed
	}
	return nil
}

// ValidateBatch checks an encoded batch whole, as a proposer must before it appends it to a log: every command decodable and of a kind that travels in batches,
// the count right, the limits kept. A machine that meets a batch which would not pass takes it for a bug.
func ValidateBatch(src []byte) error {
	var b Batch
	if err := DecodeBatch(src, &b); err != nil {
		return err
	}
	var c Command
	rest := b.Commands
	for i := 0; i < b.Count; i++ {
		if len(b.Commands)-len(rest) > limits.BatchBytesMax {
			return codec.ErrMalformed
		}
		var err error
		if rest, err = DecodeCommand(rest, &c); err != nil {
			return err
		}
		if !c.Op.IsBatched() {
			return codec.ErrMalformed
		}
	}
	if len(rest) != 0 {
		return codec.ErrMalformed
	}
	return nil
}
