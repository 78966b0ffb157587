package queue

import "math/bits"

const (
	// deliveryPage is how many delivery numbers one page of an outstanding covers, a power of two and at most 64 (the bits of live).
	deliveryPage      = 32
	deliveryPageShift = 5
	// outstandingShrinkMin is the capacity below which the directory of pages keeps its memory.
	outstandingShrinkMin = 16
	// sparePagesMax is how many empty pages a machine keeps for its sessions.
	sparePagesMax = 8
)

// delivery is a message that was assigned to a session and not settled yet.
type delivery struct {
	record
	deadline int64      // when it comes back by itself, in milliseconds; 0: never
	consumer ConsumerID // 0: taken by a Get
}

// page holds the deliveries no*deliveryPage onwards of one session; bit i of live tells whether number i of them is outstanding. It is never empty.
type page struct {
	no         uint64
	live       uint32
	deliveries [deliveryPage]delivery
}

// outstanding holds the unsettled deliveries of a session by their number d: pages in ascending order, only those that have any. So one delivery that is never settled
// pins one page and not everything that was delivered after it.
type outstanding struct {
	pages []*page
	head  int
	n     int
}

// pagePool keeps a few empty pages.
type pagePool struct{ pages []*page }

func (p *pagePool) take(no uint64) *page {
	if n := len(p.pages); n > 0 {
		g := p.pages[n-1]
		p.pages = p.pages[:n-1]
		g.no = no
		return g
	}
	return &page{no: no}
}

func (p *pagePool) give(g *page) {
	if len(p.pages) < sparePagesMax {
		p.pages = append(p.pages, g)
	}
}

// find returns the place of page no in use, or where it belongs.
func (o *outstanding) find(no uint64) (int, bool) {
	live := o.pages[o.head:]
	if len(live) == 0 {
		return o.head, false
	}
	if first := live[0].no; no >= first && no-first < uint64(len(live)) && live[no-first].no == no {
		return o.head + int(no-first), true
	}
	low, high := 0, len(live)
	for low < high {
		if mid := (low + high) / 2; live[mid].no < no {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return o.head + low, low < len(live) && live[low].no == no
}

// add puts a delivery under d, which must be above every number that was ever in use.
func (o *outstanding) add(d uint64, x delivery, pool *pagePool) {
	no := d >> deliveryPageShift
	if n := len(o.pages); n == o.head || o.pages[n-1].no != no {
		if n == cap(o.pages) && o.head > n/2 {
			kept := copy(o.pages, o.pages[o.head:])
			clear(o.pages[kept:])
			o.pages, o.head = o.pages[:kept], 0
		}
		o.pages = append(o.pages, pool.take(no))
	}
	p := o.pages[len(o.pages)-1]
	p.live |= 1 << (d % deliveryPage)
	p.deliveries[d%deliveryPage] = x
	o.n++
}

// next returns the place of the outstanding delivery with the least number >= d: its number and its page.
func (o *outstanding) next(d uint64) (uint64, *page) {
	i, ok := o.find(d >> deliveryPageShift)
	if ok {
		p := o.pages[i]
		if word := p.live &^ (1<<(d%deliveryPage) - 1); word != 0 {
			return p.no<<deliveryPageShift + uint64(bits.TrailingZeros32(word)), p
		}
		i++
	}
	if i == len(o.pages) {
		return 0, nil
	}
	p := o.pages[i]
	return p.no<<deliveryPageShift + uint64(bits.TrailingZeros32(p.live)), p
}

// at returns the delivery d of page p.
func (p *page) at(d uint64) *delivery { return &p.deliveries[d%deliveryPage] }

// remove takes delivery d out of p, which must be its page.
func (o *outstanding) remove(d uint64, p *page, pool *pagePool) {
	p.live &^= 1 << (d % deliveryPage)
	o.n--
	if p.live != 0 {
		return
	}
	pool.give(p)
	i, _ := o.find(p.no)
	if i == o.head {
		o.pages[i] = nil
		o.head++
	} else {
		last := len(o.pages) - 1
		copy(o.pages[i:], o.pages[i+1:])
		o.pages[last] = nil
		o.pages = o.pages[:last]
	}
	live := len(o.pages) - o.head
	if live == 0 {
		o.pages, o.head = o.pages[:0], 0
	}
	if cap(o.pages) > outstandingShrinkMin && live < cap(o.pages)/4 {
		o.pages = append(make([]*page, 0, cap(o.pages)/2), o.pages[o.head:]...)
		o.head = 0
	}
}

// each calls visit for every delivery in ascending order of d.
func (o *outstanding) each(visit func(d uint64, x *delivery)) {
	for _, p := range o.pages[o.head:] {
		for live := p.live; live != 0; live &= live - 1 {
			i := uint64(bits.TrailingZeros32(live))
			visit(p.no<<deliveryPageShift+i, &p.deliveries[i])
		}
	}
}
