package histogram

import "math/bits"

// subBits is the number of bits kept of a value below its leading one, so 1/128 is the largest relative error.
const subBits = 7

// bucketCount covers every non-negative int64.
const bucketCount = (64-subBits-1)<<subBits + 1<<subBits

// Histogram holds counts of non-negative values, nanoseconds by convention. The zero value is empty and ready. It is not safe for use by several
// goroutines at once.
type Histogram struct {
	counts   [bucketCount]uint64
	count    uint64
	sum      float64
	min, max int64
}

// bucket returns the index for v. Values below 256 have a bucket each; above, a bucket is 2^shift wide.
//
//	v     0 .. 255   256 .. 511   512 .. 1023 ...
//	width 1          2            4
func bucket(v int64) int {
	shift := max(0, bits.Len64(uint64(v))-subBits-1)
	return shift<<subBits + int(v>>shift)
}

// ceiling returns the largest value of a bucket.
func ceiling(index int) int64 {
	shift := max(0, index>>subBits-1)
	return int64(index-shift<<subBits+1)<<shift - 1
}

// Add counts v n times. A negative value, which only a clock that was set back can produce, counts as zero.
func (h *Histogram) Add(v int64, n uint64) {
	if n == 0 {
		return
	}
	v = max(v, 0)
	if h.count == 0 || v < h.min {
		h.min = v
	}
	h.max = max(h.max, v)
	h.counts[bucket(v)] += n
	h.count += n
	h.sum += float64(v) * float64(n)
}

// Merge adds everything that other holds.
func (h *Histogram) Merge(other *Histogram) {
	if other.count == 0 {
		return
	}
	if h.count == 0 || other.min < h.min {
		h.min = other.min
	}
	h.max = max(h.max, other.max)
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.count += other.count
	h.sum += other.sum
}

// Count returns how many values were added.
func (h *Histogram) Count() uint64 { return h.count }

// Min returns the smallest value, exactly; 0 when empty.
func (h *Histogram) Min() int64 { return h.min }

// Max returns the largest value, exactly; 0 when empty.
func (h *Histogram) Max() int64 { return h.max }

// Mean returns the average; 0 when empty.
func (h *Histogram) Mean() int64 {
	if h.count == 0 {
		return 0
	}
	return int64(h.sum / float64(h.count))
}

// Quantile returns a value that at least the share q (0..1) of all values do not exceed; 0 when empty.
func (h *Histogram) Quantile(q float64) int64 {
	rank := uint64(q * float64(h.count))
	if float64(rank) < q*float64(h.count) || rank == 0 {
		rank++
	}
	rank = min(rank, h.count)
	var seen uint64
	for i, n := range h.counts {
		if seen += n; n > 0 && seen >= rank {
			return max(h.min, min(ceiling(i), h.max))
		}
	}
	return 0
}

// Since returns the values added after an earlier copy of the same histogram was taken. Its least and largest values are those of buckets.
func (h *Histogram) Since(earlier *Histogram) *Histogram {
	out := &Histogram{count: h.count - earlier.count, sum: h.sum - earlier.sum}
	first := true
	for i, n := range h.counts {
		out.counts[i] = n - earlier.counts[i]
		if out.counts[i] > 0 {
			if first {
				out.min, first = ceiling(i), false
			}
			out.max = ceiling(i)
		}
	}
	return out
}
