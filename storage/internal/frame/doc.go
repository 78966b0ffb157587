// Package frame is the one record form of Warren's own files (message segments, checkpoint tails).
//
//	record  crc u32 | body bytes u32 | key u64 | body
//	mark    synced bytes u64 | last key u64 | crc u32            two of them, written in turn, in the header of the file
//
// Integers are big-endian. The CRC is CRC-32C over everything behind it, seeded with a random salt of the file and the record's offset: bytes of
// another file, of another place, of a message body or of zeros do not pass as a record.
//
// A mark says up to where the file was synced when the mark was written. It is written after the sync, so it may be lost but is never ahead. It
// separates a write that power loss tore (a bad record at or behind the mark: cut) from rot (a bad record before it: an error). The CRC of a mark
// does not depend on the rest of the header, so that a damaged header is not mistaken for a file that never held anything.
//
// Hop before: storage/segment and storage/checkpoint. Hop after: bytes.
package frame
