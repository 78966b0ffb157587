package cow

import "cmp"

// Change is one key in which two versions of a Map differ. HasOld and HasNew tell which side has the key; both when its value changed.
type Change[K cmp.Ordered, V comparable] struct {
	Key            K
	Old, New       V
	HasOld, HasNew bool
}

// Diff calls visit for every key in which newer differs from older, in ascending order. Subtrees that both versions share are skipped, so two versions
// that lie k changes apart cost O(k log n), not O(n). It stops when visit returns false.
func Diff[K cmp.Ordered, V comparable](older, newer Map[K, V], visit func(Change[K, V]) bool) {
	if older.root == newer.root {
		return
	}
	a, b := cursor[K, V]{}, cursor[K, V]{}
	a.push(older.root, older.root.height())
	b.push(newer.root, newer.root.height())
	for {
		pa, pb := a.peek(), b.peek()
		switch {
		case pa == nil && pb == nil:
			return
		case pa != nil && pb != nil && pa.whole() && pb.whole():
			if pa.n == pb.n {
				a.pop()
				b.pop()
				continue
			}
			// Open the taller one; equal heights open together, so that their shared children meet.
			taller := pa.height - pb.height
			if taller >= 0 {
				pa.pos = 0
			}
			if taller <= 0 {
				pb.pos = 0
			}
			continue
		case pa != nil && pa.whole():
			pa.pos = 0
			continue
		case pb != nil && pb.whole():
			pb.pos = 0
			continue
		}
		if !step(&a, &b, visit) {
			return
		}
	}
}

// step handles the case that both cursors stand at an item (or at their end).
func step[K cmp.Ordered, V comparable](a, b *cursor[K, V], visit func(Change[K, V]) bool) bool {
	ia, ib := a.item(), b.item()
	order := 0
	switch {
	case ia == nil:
		order = 1
	case ib == nil:
		order = -1
	default:
		order = cmp.Compare(ia.key, ib.key)
	}
	ok := true
	switch {
	case order < 0:
		ok = visit(Change[K, V]{Key: ia.key, Old: ia.val, HasOld: true})
		a.next()
	case order > 0:
		ok = visit(Change[K, V]{Key: ib.key, New: ib.val, HasNew: true})
		b.next()
	default:
		if ia.val != ib.val {
			ok = visit(Change[K, V]{Key: ia.key, Old: ia.val, New: ib.val, HasOld: true, HasNew: true})
		}
		a.next()
		b.next()
	}
	return ok
}

// frame is a place in a node: pos -1 stands before the whole subtree, 2i before child i, 2i+1 before item i.
type frame[K cmp.Ordered, V any] struct {
	n           *node[K, V]
	pos, height int
}

func (f *frame[K, V]) whole() bool { return f.pos < 0 }

// cursor walks a tree lazily: a subtree is opened only when somebody asks for what is inside.
type cursor[K cmp.Ordered, V any] struct{ stack []frame[K, V] }

func (c *cursor[K, V]) push(n *node[K, V], height int) {
	if n != nil {
		c.stack = append(c.stack, frame[K, V]{n: n, pos: -1, height: height})
	}
}

func (c *cursor[K, V]) pop() { c.stack = c.stack[:len(c.stack)-1] }

// peek returns the frame of what comes next: an unopened subtree or an item. Nil at the end.
func (c *cursor[K, V]) peek() *frame[K, V] {
	for len(c.stack) > 0 {
		f := &c.stack[len(c.stack)-1]
		if f.whole() {
			return f
		}
		if f.pos > 2*len(f.n.items) {
			c.pop()
			continue
		}
		if f.pos%2 == 1 {
			return f
		}
		kid := f.pos / 2
		f.pos++
		if len(f.n.kids) > 0 {
			c.push(f.n.kids[kid], f.height-1)
		} else if kid == len(f.n.items) {
			c.pop()
		}
	}
	return nil
}

func (c *cursor[K, V]) item() *item[K, V] {
	if len(c.stack) == 0 {
		return nil
	}
	f := &c.stack[len(c.stack)-1]
	return &f.n.items[f.pos/2]
}

func (c *cursor[K, V]) next() { c.stack[len(c.stack)-1].pos++ }

func (n *node[K, V]) height() int {
	h := 0
	for n != nil && len(n.kids) > 0 {
		n = n.kids[0]
		h++
	}
	return h
}
