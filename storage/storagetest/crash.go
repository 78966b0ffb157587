package storagetest

import (
	"maps"
	"math/rand/v2"
	"path"
)

// sectorBytes is the unit in which a disk writes: a crash decides for each on its own.
const sectorBytes = 512

// Unsynced is a change that a crash may lose.
type Unsynced struct {
	// Name is the file, or the directory whose names changed.
	Name string
	// Names says that it is a change of names: it survives whole (1) or not (0).
	Names bool
	// Truncate says that it sets the size of the file to Offset: it survives whole (1) or not (0).
	Truncate bool
	// Offset is where in the file the bytes go.
	Offset int64
	// Bytes is how many bytes it has, at most a sector.
	Bytes int
}

// Crash loses power: what was not synced is gone, all handles and locks are dead.
func (m *Mem) Crash() { m.CrashLeaving(func(Unsynced) int { return 0 }) }

// CrashTorn loses power and lets a random part of what was not synced survive, each sector and each change of names on its own.
func (m *Mem) CrashTorn(rng *rand.Rand) {
	often := rng.Float64()
	m.CrashLeaving(func(u Unsynced) int {
		switch {
		case rng.Float64() >= often:
			return 0
		case u.Names || u.Truncate:
			return 1
		case rng.IntN(8) == 0:
			return rng.IntN(u.Bytes + 1)
		}
		return u.Bytes
	})
}

// CrashLeaving loses power and asks survive how many leading bytes of each unsynced change are left. Files are visited by name, changes in their order.
func (m *Mem) CrashLeaving(survive func(Unsynced) int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.generation++
	m.root.crash("/", survive, map[*node]bool{})
}

func (n *node) crash(name string, survive func(Unsynced) int, done map[*node]bool) {
	if done[n] {
		return
	}
	done[n] = true
	n.locked = false
	if !n.dir {
		n.crashFile(name, survive)
		return
	}
	both := maps.Clone(n.entries)
	maps.Copy(both, n.durable)
	for _, base := range sortedNames(both) {
		both[base].crash(path.Join(name, base), survive, done)
		if other := n.entries[base]; other != nil {
			other.crash(path.Join(name, base), survive, done)
		}
	}
	for _, mv := range n.moves {
		if mv.to != nil { // it may have got and lost its name since the last sync
			mv.to.crash(path.Join(name, mv.name), survive, done)
		}
		if survive(Unsynced{Name: name, Names: true, Bytes: 1}) > 0 {
			mv.apply(n.durable)
		}
	}
	n.moves = nil
	n.entries = maps.Clone(n.durable)
}

func (n *node) crashFile(name string, survive func(Unsynced) int) {
	for _, c := range n.changes {
		if c.truncate {
			if survive(Unsynced{Name: name, Truncate: true, Offset: c.offset, Bytes: 1}) > 0 {
				n.synced = c.apply(n.synced)
			}
			continue
		}
		for len(c.data) > 0 {
			piece := c.data[:min(int64(len(c.data)), sectorBytes-c.offset%sectorBytes)]
			left := survive(Unsynced{Name: name, Offset: c.offset, Bytes: len(piece)})
			if left = min(left, len(piece)); left > 0 {
				n.synced = change{offset: c.offset, data: piece[:left]}.apply(n.synced)
			}
			c.data, c.offset = c.data[len(piece):], c.offset+int64(len(piece))
		}
	}
	n.changes = nil
	n.data = append([]byte(nil), n.synced...)
}

// Clone returns an independent copy, with what is not synced, without faults, handles and locks.
func (m *Mem) Clone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Mem{root: m.root.clone(map[*node]*node{})}
}

func (n *node) clone(done map[*node]*node) *node {
	if c := done[n]; c != nil {
		return c
	}
	c := &node{dir: n.dir}
	done[n] = c
	if !n.dir {
		c.data, c.synced = append([]byte(nil), n.data...), append([]byte(nil), n.synced...)
		c.changes = append([]change(nil), n.changes...)
		return c
	}
	c.entries, c.durable = map[string]*node{}, map[string]*node{}
	for name, e := range n.entries {
		c.entries[name] = e.clone(done)
	}
	for name, e := range n.durable {
		c.durable[name] = e.clone(done)
	}
	for _, mv := range n.moves {
		if mv.to != nil {
			mv.to = mv.to.clone(done)
		}
		c.moves = append(c.moves, mv)
	}
	return c
}

// Bytes returns a copy of a file's content, nil if there is no such file.
func (m *Mem) Bytes(name string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err != nil || n.dir {
		return nil
	}
	return append([]byte{}, n.data...)
}

// SetBytes gives an existing file durable new content behind the back of its users. It says whether there is such a file.
func (m *Mem) SetBytes(name string, data []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err != nil || n.dir {
		return false
	}
	n.data, n.synced, n.changes = append([]byte(nil), data...), append([]byte(nil), data...), nil
	return true
}

// Flip inverts one bit of a file, bit counted from the file's start. It says whether there is such a bit.
func (m *Mem) Flip(name string, bit int64) bool {
	data := m.Bytes(name)
	if bit/8 >= int64(len(data)) {
		return false
	}
	data[bit/8] ^= 1 << (bit % 8)
	return m.SetBytes(name, data)
}
