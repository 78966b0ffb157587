package queue

import "slices"

// returning is the messages of ended sessions on their way back to the queue, in order of position. To put them in order is work, too: a session ends at once, whatever it holds, and what it held is
// gathered from it in parts. Nothing returns while something is still to be gathered.
type returning struct {
	heap heap
	// gathering is how many messages must still be gathered. Those of ended are; after a restore all stand in the heap already, and only the number goes on.
	gathering int
	ended     []ended
}

// ended is what a session held when it ended, but for deliveries without acknowledgement.
type ended struct {
	out     outstanding
	written uint64 // deliveries up to here were written to the socket
}

// len is how many messages are on their way.
func (r *returning) len() int {
	n := r.heap.n
	for i := range r.ended {
		n += r.ended[i].out.n
	}
	return n
}

func (r *returning) isEmpty() bool { return r.heap.n == 0 && r.gathering == 0 }

// add takes what an ended session held.
func (r *returning) add(out outstanding, written uint64) {
	if out.n > 0 {
		r.ended = append(r.ended, ended{out, written})
		r.gathering += out.n
	}
}

// gather puts as many messages in order as the budget allows. It reports whether that is all of them.
func (r *returning) gather(budget *int, pool *pagePool) bool {
	n := min(*budget, r.gathering)
	*budget -= n
	r.gathering -= n
	for n > 0 && len(r.ended) > 0 {
		e := &r.ended[0]
		d, page := e.out.next(0)
		r.heap.push(e.record(d, page.at(d)))
		e.out.remove(d, page, pool)
		if n--; e.out.n == 0 {
			r.ended = slices.Delete(r.ended, 0, 1)
		}
	}
	return r.gathering == 0
}

// record is a delivery as it comes back: what was written to the socket counts as a failure.
func (e *ended) record(d uint64, x *delivery) record {
	r := x.record
	if d <= e.written {
		raise(&r.failures)
		r.flags |= flagFailed
	}
	return r
}

// each calls visit for every message, in no order.
func (r *returning) each(visit func(x *record)) {
	r.heap.each(visit)
	for i := range r.ended {
		e := &r.ended[i]
		e.out.each(func(d uint64, x *delivery) {
			back := e.record(d, x)
			visit(&back)
		})
	}
}

// sorted returns all in order of position.
func (r *returning) sorted() []record {
	list := make([]record, 0, r.len())
	r.each(func(x *record) { list = append(list, *x) })
	slices.SortFunc(list, func(a, b record) int {
		switch {
		case a.before(&b):
			return -1
		case b.before(&a):
			return 1
		}
		return 0
	})
	return list
}
