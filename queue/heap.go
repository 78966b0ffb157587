package queue

// heapShrinkMin is the capacity below which a heap keeps its memory.
const heapShrinkMin = 512

// heap is a binary heap of records, the one nearest to the head of the queue on top.
type heap []record

func (h *heap) push(r record) {
	*h = append(*h, r)
	h.up(len(*h) - 1)
}

func (h *heap) pop() record {
	s := *h
	top := s[0]
	last := len(s) - 1
	s[0] = s[last]
	s = s[:last]
	if cap(s) > heapShrinkMin && last < cap(s)/4 {
		s = append(make(heap, 0, cap(s)/2), s...)
	}
	*h = s
	if last > 1 {
		h.down(0)
	}
	return top
}

// fix makes a heap of records in any order.
func (h *heap) fix() {
	for i := len(*h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heap) up(i int) {
	s := *h
	for i > 0 {
		parent := (i - 1) / 2
		if !s[i].before(&s[parent]) {
			return
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
}

func (h *heap) down(i int) {
	s := *h
	for {
		least := 2*i + 1
		if least >= len(s) {
			return
		}
		if right := least + 1; right < len(s) && s[right].before(&s[least]) {
			least = right
		}
		if !s[least].before(&s[i]) {
			return
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
