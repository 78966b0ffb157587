package queue

const (
	// heapPage is how many records one page of a heap has: a heap grows and shrinks page by page, so that no step copies all of it.
	heapPage      = 512
	heapPageShift = 9
)

// heap is a binary heap of records, the one nearest to the head of the queue on top.
type heap struct {
	pages [][]record // all full but the last; an empty one may follow
	n     int
}

func (h *heap) at(i int) *record { return &h.pages[i>>heapPageShift][i&(heapPage-1)] }

func (h *heap) push(r record) {
	no := h.n >> heapPageShift
	if no == len(h.pages) {
		h.pages = append(h.pages, nil)
	}
	h.pages[no] = append(h.pages[no], r)
	h.n++
	h.up(h.n - 1)
}

func (h *heap) pop() record {
	top := *h.at(0)
	h.n--
	no := h.n >> heapPageShift
	*h.at(0) = *h.at(h.n)
	h.pages[no] = h.pages[no][:h.n&(heapPage-1)]
	if len(h.pages) > no+1 { // one empty page is kept
		h.pages[no+1] = nil
		h.pages = h.pages[:no+1]
	}
	if h.n > 1 {
		h.down(0)
	}
	return top
}

func (h *heap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.at(i).before(h.at(parent)) {
			return
		}
		*h.at(i), *h.at(parent) = *h.at(parent), *h.at(i)
		i = parent
	}
}

func (h *heap) down(i int) {
	for {
		least := 2*i + 1
		if least >= h.n {
			return
		}
		if right := least + 1; right < h.n && h.at(right).before(h.at(least)) {
			least = right
		}
		if !h.at(least).before(h.at(i)) {
			return
		}
		*h.at(i), *h.at(least) = *h.at(least), *h.at(i)
		i = least
	}
}

// each calls visit for every record, in no order.
func (h *heap) each(visit func(x *record)) {
	for i := range h.n {
		visit(h.at(i))
	}
}
