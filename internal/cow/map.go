package cow

import (
	"cmp"
	"iter"
)

const (
	// itemsMax is the most items a tree node holds; one more splits it.
	itemsMax = 31
	// itemsMin is the least a node other than the root holds.
	itemsMin = itemsMax / 2
)

// Map is an immutable ordered map. The zero Map is empty. Copying a Map copies two words; Set and Delete return a new version in
// O(log n) and leave the receiver unchanged, so any number of readers may use old versions.
type Map[K cmp.Ordered, V any] struct {
	root *node[K, V]
	size int
}

type item[K cmp.Ordered, V any] struct {
	key K
	val V
}

// node is a B-tree node; kids is empty in a leaf and has one more entry than items otherwise. A node is never written after it was linked.
type node[K cmp.Ordered, V any] struct {
	items []item[K, V]
	kids  []*node[K, V]
}

// Len returns the number of keys.
func (m Map[K, V]) Len() int { return m.size }

// Get returns the value of key, and whether there is one.
func (m Map[K, V]) Get(key K) (V, bool) {
	for n := m.root; n != nil; {
		i, found := n.find(key)
		if found {
			return n.items[i].val, true
		}
		if len(n.kids) == 0 {
			break
		}
		n = n.kids[i]
	}
	var zero V
	return zero, false
}

// find returns the index of key, or where it would stand.
func (n *node[K, V]) find(key K) (int, bool) {
	lo, hi := 0, len(n.items)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		switch c := cmp.Compare(n.items[mid].key, key); {
		case c < 0:
			lo = mid + 1
		case c > 0:
			hi = mid
		default:
			return mid, true
		}
	}
	return lo, false
}

// Set returns a version in which key has the value val.
func (m Map[K, V]) Set(key K, val V) Map[K, V] {
	if m.root == nil {
		return Map[K, V]{root: &node[K, V]{items: []item[K, V]{{key, val}}}, size: 1}
	}
	left, up, right, added := m.root.set(key, val)
	if right != nil {
		left = &node[K, V]{items: []item[K, V]{up}, kids: []*node[K, V]{left, right}}
	}
	if added {
		m.size++
	}
	return Map[K, V]{root: left, size: m.size}
}

// set returns the changed copy of n; when it had to split, up and right are what the parent takes in.
func (n *node[K, V]) set(key K, val V) (left *node[K, V], up item[K, V], right *node[K, V], added bool) {
	i, found := n.find(key)
	if found {
		c := &node[K, V]{items: append([]item[K, V](nil), n.items...), kids: n.kids}
		c.items[i].val = val
		return c, up, nil, false
	}
	if len(n.kids) == 0 {
		c := &node[K, V]{items: inserted(n.items, i, item[K, V]{key, val})}
		left, up, right = c.split()
		return left, up, right, true
	}
	kid, kidUp, kidRight, added := n.kids[i].set(key, val)
	if kidRight == nil {
		c := &node[K, V]{items: n.items, kids: append([]*node[K, V](nil), n.kids...)}
		c.kids[i] = kid
		return c, up, nil, added
	}
	c := &node[K, V]{items: inserted(n.items, i, kidUp), kids: inserted(n.kids, i+1, kidRight)}
	c.kids[i] = kid
	left, up, right = c.split()
	return left, up, right, added
}

// split divides a node that is one item too long; a node within its limit comes back alone.
func (n *node[K, V]) split() (left *node[K, V], up item[K, V], right *node[K, V]) {
	if len(n.items) <= itemsMax {
		return n, up, nil
	}
	mid := len(n.items) / 2
	up = n.items[mid]
	left = &node[K, V]{items: n.items[:mid:mid]}
	right = &node[K, V]{items: append([]item[K, V](nil), n.items[mid+1:]...)}
	if len(n.kids) > 0 {
		left.kids = n.kids[: mid+1 : mid+1]
		right.kids = append([]*node[K, V](nil), n.kids[mid+1:]...)
	}
	return left, up, right
}

// Revise returns a version in which the keys, visited in their order, have the values that change gives them; what does not change is shared. It costs O(n), less than a Set each for more than a few.
func (m Map[K, V]) Revise(change func(key K, val V) (revised V, changed bool)) Map[K, V] {
	if m.root != nil {
		m.root = m.root.revise(change)
	}
	return m
}

func (n *node[K, V]) revise(change func(key K, val V) (V, bool)) *node[K, V] {
	c := *n
	for i := range len(n.items) + 1 {
		if i < len(n.kids) {
			if kid := n.kids[i].revise(change); kid != n.kids[i] {
				if &c.kids[0] == &n.kids[0] {
					c.kids = append([]*node[K, V](nil), n.kids...)
				}
				c.kids[i] = kid
			}
		}
		if i == len(n.items) {
			break
		}
		if val, changed := change(n.items[i].key, n.items[i].val); changed {
			if &c.items[0] == &n.items[0] {
				c.items = append([]item[K, V](nil), n.items...)
			}
			c.items[i].val = val
		}
	}
	if &c.items[0] == &n.items[0] && (len(n.kids) == 0 || &c.kids[0] == &n.kids[0]) {
		return n
	}
	return &c
}

// Delete returns a version without key.
func (m Map[K, V]) Delete(key K) Map[K, V] {
	if m.root == nil {
		return m
	}
	root, found := m.root.without(key)
	if !found {
		return m
	}
	switch {
	case len(root.items) > 0:
	case len(root.kids) > 0:
		root = root.kids[0]
	default:
		root = nil
	}
	return Map[K, V]{root: root, size: m.size - 1}
}

// without returns a copy of n that lacks key and may be one item short; the parent repairs that.
func (n *node[K, V]) without(key K) (*node[K, V], bool) {
	i, found := n.find(key)
	if len(n.kids) == 0 {
		if !found {
			return n, false
		}
		return &node[K, V]{items: removed(n.items, i)}, true
	}
	c := &node[K, V]{items: n.items, kids: append([]*node[K, V](nil), n.kids...)}
	if found {
		var last item[K, V]
		c.kids[i], last = c.kids[i].withoutLast()
		c.items = append([]item[K, V](nil), n.items...)
		c.items[i] = last
	} else if c.kids[i], found = n.kids[i].without(key); !found {
		return n, false
	}
	c.repair(i)
	return c, true
}

// withoutLast returns a copy of n without its greatest item, and that item.
func (n *node[K, V]) withoutLast() (*node[K, V], item[K, V]) {
	if len(n.kids) == 0 {
		last := len(n.items) - 1
		return &node[K, V]{items: removed(n.items, last)}, n.items[last]
	}
	c := &node[K, V]{items: n.items, kids: append([]*node[K, V](nil), n.kids...)}
	i := len(c.kids) - 1
	kid, last := c.kids[i].withoutLast()
	c.kids[i] = kid
	c.repair(i)
	return c, last
}

// repair restores the least size of child i, which may be one item short, from a neighbour. n is a fresh copy; its children are not.
func (n *node[K, V]) repair(i int) {
	if len(n.kids[i].items) >= itemsMin {
		return
	}
	if i == 0 {
		i = 1
	}
	left, right, sep := n.kids[i-1], n.kids[i], n.items[i-1]
	items := make([]item[K, V], 0, len(left.items)+1+len(right.items))
	items = append(append(append(items, left.items...), sep), right.items...)
	var kids []*node[K, V]
	if len(left.kids) > 0 {
		kids = make([]*node[K, V], 0, len(left.kids)+len(right.kids))
		kids = append(append(kids, left.kids...), right.kids...)
	}
	if len(items) <= itemsMax {
		n.items = removed(n.items, i-1)
		n.kids = removed(n.kids, i)
		n.kids[i-1] = &node[K, V]{items: items, kids: kids}
		return
	}
	mid := len(items) / 2
	left, right = &node[K, V]{items: items[:mid:mid]}, &node[K, V]{items: items[mid+1:]}
	if kids != nil {
		left.kids, right.kids = kids[:mid+1:mid+1], kids[mid+1:]
	}
	n.items = append([]item[K, V](nil), n.items...)
	n.items[i-1] = items[mid]
	n.kids[i-1], n.kids[i] = left, right
}

func inserted[T any](s []T, i int, v T) []T {
	out := make([]T, len(s)+1)
	copy(out, s[:i])
	out[i] = v
	copy(out[i+1:], s[i:])
	return out
}

func removed[T any](s []T, i int) []T {
	out := make([]T, len(s)-1)
	copy(out, s[:i])
	copy(out[i:], s[i+1:])
	return out
}

// All yields every key in ascending order.
func (m Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.root != nil {
			m.root.walk(yield)
		}
	}
}

// From yields the keys that are not below least, in ascending order.
func (m Map[K, V]) From(least K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.root != nil {
			m.root.walkFrom(least, yield)
		}
	}
}

func (n *node[K, V]) walk(yield func(K, V) bool) bool {
	for i := range n.items {
		if len(n.kids) > 0 && !n.kids[i].walk(yield) {
			return false
		}
		if !yield(n.items[i].key, n.items[i].val) {
			return false
		}
	}
	return len(n.kids) == 0 || n.kids[len(n.items)].walk(yield)
}

func (n *node[K, V]) walkFrom(least K, yield func(K, V) bool) bool {
	i, found := n.find(least)
	if len(n.kids) > 0 && !found && !n.kids[i].walkFrom(least, yield) {
		return false
	}
	for ; i < len(n.items); i++ {
		if !yield(n.items[i].key, n.items[i].val) {
			return false
		}
		if len(n.kids) > 0 && !n.kids[i+1].walk(yield) {
			return false
		}
	}
	return true
}
