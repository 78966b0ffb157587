package cow

import "math/bits"

const (
	// levelBits is how many bits of the hash one level of the trie uses.
	levelBits = 5
	// levelMax is the depth at which the hash is used up and keys share one list.
	levelMax = 12
)

// Text is what a Hash can be asked with: a string, or bytes that were read off a wire.
type Text interface{ ~string | ~[]byte }

// Hash is an immutable unordered map from strings. The zero Hash is empty. Set and Delete return a new version and leave the receiver unchanged.
// It has no iteration on purpose: its order is that of hashes, which nothing may depend on.
type Hash[V any] struct {
	root *trie[V]
	size int
}

// trie is one level: each of the 32 places is empty, holds a key (leafBits) or a deeper level (kidBits). At levelMax leaves is a plain list.
// A trie is never written after it was linked.
type trie[V any] struct {
	leafBits, kidBits uint32
	leaves            []leaf[V]
	kids              []*trie[V]
}

type leaf[V any] struct {
	key string
	val V
}

// Len returns the number of keys.
func (h Hash[V]) Len() int { return h.size }

// Get returns the value of key, and whether there is one.
func (h Hash[V]) Get(key string) (V, bool) { return Lookup(h, key) }

// GetBytes is Get for a key that is still bytes. It allocates nothing.
func (h Hash[V]) GetBytes(key []byte) (V, bool) { return Lookup(h, key) }

// Lookup is Get for either kind of text.
func Lookup[V any, T Text](h Hash[V], key T) (V, bool) {
	sum := sumOf(key)
	for n, level := h.root, 0; n != nil; level++ {
		if level == levelMax {
			if i := position(n.leaves, key); i >= 0 {
				return n.leaves[i].val, true
			}
			break
		}
		bit := uint32(1) << (sum & (1<<levelBits - 1))
		sum >>= levelBits
		if n.leafBits&bit != 0 {
			l := &n.leaves[bits.OnesCount32(n.leafBits&(bit-1))]
			if l.key == string(key) {
				return l.val, true
			}
			break
		}
		if n.kidBits&bit == 0 {
			break
		}
		n = n.kids[bits.OnesCount32(n.kidBits&(bit-1))]
	}
	var zero V
	return zero, false
}

func position[V any, T Text](leaves []leaf[V], key T) int {
	for i := range leaves {
		if leaves[i].key == string(key) {
			return i
		}
	}
	return -1
}

// Set returns a version in which key has the value val.
func (h Hash[V]) Set(key string, val V) Hash[V] {
	root := h.root
	if root == nil {
		root = &trie[V]{}
	}
	root, added := root.set(sumOf(key), 0, key, val)
	if added {
		h.size++
	}
	return Hash[V]{root: root, size: h.size}
}

// set works on the rest of the hash that this level and deeper ones use.
func (n *trie[V]) set(sum uint64, level int, key string, val V) (*trie[V], bool) {
	c := *n
	if level == levelMax {
		if i := position(n.leaves, key); i >= 0 {
			c.leaves = replaced(n.leaves, i, leaf[V]{key, val})
			return &c, false
		}
		c.leaves = inserted(n.leaves, len(n.leaves), leaf[V]{key, val})
		return &c, true
	}
	bit := uint32(1) << (sum & (1<<levelBits - 1))
	leafAt, kidAt := bits.OnesCount32(n.leafBits&(bit-1)), bits.OnesCount32(n.kidBits&(bit-1))
	switch {
	case n.kidBits&bit != 0:
		kid, added := n.kids[kidAt].set(sum>>levelBits, level+1, key, val)
		c.kids = replaced(n.kids, kidAt, kid)
		return &c, added
	case n.leafBits&bit == 0:
		c.leafBits |= bit
		c.leaves = inserted(n.leaves, leafAt, leaf[V]{key, val})
		return &c, true
	case n.leaves[leafAt].key == key:
		c.leaves = replaced(n.leaves, leafAt, leaf[V]{key, val})
		return &c, false
	}
	// Two keys in one place: both go one level down.
	other := n.leaves[leafAt]
	kid := &trie[V]{}
	kid, _ = kid.set(sumOf(other.key)>>(levelBits*(level+1)), level+1, other.key, other.val)
	kid, _ = kid.set(sum>>levelBits, level+1, key, val)
	c.leafBits &^= bit
	c.leaves = removed(n.leaves, leafAt)
	c.kidBits |= bit
	c.kids = inserted(n.kids, kidAt, kid)
	return &c, true
}

// Delete returns a version without key.
func (h Hash[V]) Delete(key string) Hash[V] {
	if h.root == nil {
		return h
	}
	root, found := h.root.without(sumOf(key), 0, key)
	if !found {
		return h
	}
	if h.size == 1 {
		return Hash[V]{}
	}
	return Hash[V]{root: root, size: h.size - 1}
}

// without returns a copy of n that lacks key. A level that is left with one key hands it back up, so equal contents have equal depth.
func (n *trie[V]) without(sum uint64, level int, key string) (*trie[V], bool) {
	c := *n
	if level == levelMax {
		i := position(n.leaves, key)
		if i < 0 {
			return n, false
		}
		c.leaves = removed(n.leaves, i)
		return &c, true
	}
	bit := uint32(1) << (sum & (1<<levelBits - 1))
	leafAt, kidAt := bits.OnesCount32(n.leafBits&(bit-1)), bits.OnesCount32(n.kidBits&(bit-1))
	if n.leafBits&bit != 0 {
		if n.leaves[leafAt].key != key {
			return n, false
		}
		c.leafBits &^= bit
		c.leaves = removed(n.leaves, leafAt)
		return &c, true
	}
	if n.kidBits&bit == 0 {
		return n, false
	}
	kid, found := n.kids[kidAt].without(sum>>levelBits, level+1, key)
	if !found {
		return n, false
	}
	if len(kid.kids) == 0 && len(kid.leaves) == 1 {
		c.kidBits &^= bit
		c.kids = removed(n.kids, kidAt)
		c.leafBits |= bit
		c.leaves = inserted(n.leaves, leafAt, kid.leaves[0])
		return &c, true
	}
	c.kids = replaced(n.kids, kidAt, kid)
	return &c, true
}

func replaced[T any](s []T, i int, v T) []T {
	out := make([]T, len(s))
	copy(out, s)
	out[i] = v
	return out
}

const (
	sumSeed = 0x9e3779b97f4a7c15
	sumMix  = 0xd6e8feb86659fd93
)

// sumOf hashes a key eight bytes at a time by folded multiplication. It is the same on every machine.
func sumOf[T Text](key T) uint64 {
	h := uint64(len(key)) ^ sumSeed
	i := 0
	for ; i+8 <= len(key); i += 8 {
		w := uint64(key[i]) | uint64(key[i+1])<<8 | uint64(key[i+2])<<16 | uint64(key[i+3])<<24 |
			uint64(key[i+4])<<32 | uint64(key[i+5])<<40 | uint64(key[i+6])<<48 | uint64(key[i+7])<<56
		h = fold(h^w, sumMix)
	}
	if i < len(key) {
		w := uint64(0)
		for shift := 0; i < len(key); i, shift = i+1, shift+8 {
			w |= uint64(key[i]) << shift
		}
		h = fold(h^w, sumMix)
	}
	return fold(h, sumSeed)
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
