package histogram

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Every value must lie in its bucket and be read back at most 1/128 larger, from the smallest to the largest.
func TestBucketBoundsItsValues(t *testing.T) {
	values := []int64{0, 1, 127, 128, 255, 256, 257, 511, 512, 1 << 20, 1<<20 + 1, math.MaxInt64 - 1, math.MaxInt64}
	for i := 0; i < 10000; i++ {
		values = append(values, rand.Int64()>>rand.IntN(63))
	}
	for _, v := range values {
		index := bucket(v)
		if index < 0 || index >= bucketCount {
			t.Fatalf("bucket(%d) = %d, outside of %d", v, index, bucketCount)
		}
		top := ceiling(index)
		if top < v || float64(top-v) > float64(v)/128 {
			t.Fatalf("value %d reads back as %d", v, top)
		}
		if index > 0 && ceiling(index-1) >= v {
			t.Fatalf("value %d also fits bucket %d", v, index-1)
		}
	}
}

// Quantiles of random values must agree with those of the sorted list within the resolution.
func TestQuantilesAgreeWithSortedValues(t *testing.T) {
	var h Histogram
	values := make([]int64, 5000)
	for i := range values {
		values[i] = int64(math.Exp(rand.Float64()*20) * 100)
		h.Add(values[i], 1)
	}
	slices.Sort(values)
	for _, q := range []float64{0, 0.001, 0.5, 0.95, 0.99, 0.999, 1} {
		want := values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
		got := h.Quantile(q)
		if got < want || float64(got) > float64(want)*(1+1.0/128) {
			t.Errorf("quantile %v: got %d, want %d", q, got, want)
		}
	}
	if h.Min() != values[0] || h.Max() != values[len(values)-1] || h.Count() != uint64(len(values)) {
		t.Errorf("min %d max %d count %d, want %d %d %d", h.Min(), h.Max(), h.Count(), values[0], values[len(values)-1], len(values))
	}
}

func TestMergeEqualsAddingAll(t *testing.T) {
	var a, b, all Histogram
	for i := int64(1); i <= 1000; i++ {
		v := i * i * 37
		if i%3 == 0 {
			a.Add(v, 2)
		} else {
			b.Add(v, 1)
		}
		all.Add(v, map[bool]uint64{true: 2, false: 1}[i%3 == 0])
	}
	earlier := a
	a.Merge(&b)
	if a != all {
		t.Error("merged histogram differs from one that got every value")
	}
	if since := a.Since(&earlier); since.Count() != b.Count() || since.Quantile(0.5) != b.Quantile(0.5) {
		t.Errorf("since the copy: %d values, median %d, want %d and %d", since.Count(), since.Quantile(0.5), b.Count(), b.Quantile(0.5))
	}
}

func TestEmptyAndNegative(t *testing.T) {
	var h Histogram
	if h.Quantile(0.99) != 0 || h.Mean() != 0 || h.Max() != 0 {
		t.Error("an empty histogram must answer zeros")
	}
	h.Add(-5, 1)
	if h.Count() != 1 || h.Max() != 0 {
		t.Errorf("a negative value must count as zero: count %d max %d", h.Count(), h.Max())
	}
	h.Add(10, 0)
	if h.Count() != 1 || h.Max() != 0 {
		t.Error("adding nothing must change nothing")
	}
}

func BenchmarkAdd(b *testing.B) {
	var h Histogram
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		h.Add(int64(i)*1234, 1)
	}
}
