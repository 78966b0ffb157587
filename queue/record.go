package queue

// record is what the machine knows of a message: 48 bytes, no pointer. It lives in exactly one place at a time: a level (ready), the outstanding deliveries of a
// session, the returning ones of ended sessions, a transaction that is not over, or the outbox.
type record struct {
	seq Seq
	// place is where the message stands in the queue: its seq, or if it was to become ready later the number that it then got, as if it had just come.
	place    Seq
	bytes    uint32
	acquired uint32 // how often it was assigned to a session, less those taken back
	failures uint32 // how often it was returned as a failure
	priority uint8
	flags    Flags // FlagPersistent, FlagRedelivered; FlagDelay until it becomes ready, if that is later than it came; FlagNoAck while it is outstanding without acknowledgement
	born     int64 // when it was enqueued, in milliseconds, or was or is to become ready; rises with place among the ready ones
	due      int64 // when it expires by its own expiration, in milliseconds; 0: never
}

// fromFresh returns the record of a message that was never assigned.
func fromFresh(f *fresh, priority uint8) record {
	return record{seq: f.seq, place: f.seq, bytes: f.bytes, flags: f.flags, priority: priority, born: f.born, due: f.due}
}

// flagFailed marks a returning message that comes back as a failure. It has the place of a flag that no message has.
const flagFailed = FlagExclusive

func byPlace(a, b record) bool { return a.place < b.place }

// before tells whether r stands nearer to the head of the queue than o.
func (r *record) before(o *record) bool {
	if r.priority != o.priority {
		return r.priority > o.priority
	}
	return r.place < o.place
}

// raise adds one to a count of a record, which stays at its highest value.
func raise(count *uint32) {
	if *count < 1<<32-1 {
		*count++
	}
}

// isNoAck tells whether the delivery needs no acknowledgement.
func (r *record) isNoAck() bool { return r.flags&FlagNoAck != 0 }

// sums are the figures of a set of messages.
type sums struct {
	n, bytes                    uint64
	persistent, persistentBytes uint64
}

func (s *sums) add(r *record) {
	s.n++
	s.bytes += uint64(r.bytes)
	if r.flags&FlagPersistent != 0 {
		s.persistent++
		s.persistentBytes += uint64(r.bytes)
	}
}

// addRun adds the messages of a run.
func (s *sums) addRun(x *run) {
	n, bytes := uint64(x.n), uint64(x.n)*uint64(x.bytes)
	s.n += n
	s.bytes += bytes
	if x.flags&FlagPersistent != 0 {
		s.persistent += n
		s.persistentBytes += bytes
	}
}

func (s *sums) sub(r *record) {
	s.n--
	s.bytes -= uint64(r.bytes)
	if r.flags&FlagPersistent != 0 {
		s.persistent--
		s.persistentBytes -= uint64(r.bytes)
	}
}
