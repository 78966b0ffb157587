package queue

import "github.com/google/btree"

// parcel is a dead message that waits in the outbox. n counts the outbox's entries from 1 and is never reused.
type parcel struct {
	n      uint64
	record record
	reason Reason
	died   int64 // in milliseconds
}

func byNumber(a, b parcel) bool { return a.n < b.n }

// outbox holds the messages that are to leave for other queues (PROTOCOL 4). They are no part of the queue for its users any more.
type outbox struct {
	last    uint64
	parcels *btree.BTreeG[parcel] // by n; nil until it is needed
	seqs    seqSet
	sums    sums
}

func (o *outbox) add(x *record, reason Reason, died int64) {
	o.last++
	o.put(parcel{n: o.last, record: *x, reason: reason, died: died})
}

func (o *outbox) put(p parcel) {
	if o.parcels == nil {
		o.parcels = newTree(byNumber)
	}
	o.parcels.ReplaceOrInsert(p)
	o.seqs.add(p.record.seq)
	o.sums.add(&p.record)
}

func (o *outbox) each(visit func(p *parcel)) {
	if o.parcels != nil {
		o.parcels.Ascend(func(p parcel) bool {
			visit(&p)
			return true
		})
	}
}
