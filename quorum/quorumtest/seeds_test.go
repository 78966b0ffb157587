package quorumtest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/warrenmq/warren/meta"
)

var (
	seedCount = flag.Int("seeds", envInt("WARREN_SEEDS", 300), "how many random schedules TestSeeds runs")
	seedFirst = flag.Int("seed", 1, "the first of them")
)

func envInt(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// seedsAtOnce is how many seeds one process runs.
const seedsAtOnce = 20

// TestSeeds runs random schedules of faults under random load: a few in this process, many in processes of their own.
func TestSeeds(t *testing.T) {
	count := *seedCount
	if testing.Short() {
		count = min(count, seedsAtOnce)
	}
	if count > seedsAtOnce && !isWorker() {
		t.Parallel()
		manySeeds(t, *seedFirst, count)
		return
	}
	for seed := *seedFirst; seed < *seedFirst+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runSeed(t, uint64(seed)) })
	}
}

// manySeeds runs seeds in as many processes as there are processors. Most of them have one processor only: goroutines then run in another order, and in less time.
func manySeeds(t *testing.T, first, count int) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan int)
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for from := range next {
				n := min(seedsAtOnce, first+count-from)
				processors := 1
				if (from-first)/seedsAtOnce%4 == 3 {
					processors = runtime.GOMAXPROCS(0)
				}
				env := fmt.Sprint("GOMAXPROCS=", processors)
				if out, err := runWorker(t.Context(), binary, env, "-test.run=^TestSeeds$", "-seed="+strconv.Itoa(from), "-seeds="+strconv.Itoa(n)); err != nil {
					t.Errorf("seeds %d to %d, %s: %v\n%s", from, from+n-1, env, err, tail(out))
				}
			}
		})
	}
	for from := first; from < first+count; from += seedsAtOnce {
		next <- from
	}
	close(next)
	all.Wait()
}

func runSeed(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 9))
	o := Options{Seed: seed, Nodes: 3, Latency: []time.Duration{0, 200 * time.Microsecond, 2 * time.Millisecond}[rng.IntN(3)]}
	if rng.IntN(4) == 0 {
		o.Nodes = 4
	}
	if rng.IntN(2) == 0 {
		o.CheckpointLogBytes = int64(4<<10 + rng.IntN(64<<10))
	}
	if rng.IntN(3) == 0 {
		o.BodiesInMemoryBytes = 64 << 10
	}
	plan := LoadPlan{Publishers: 1 + rng.IntN(3), Consumers: 1 + rng.IntN(3), NoAck: rng.IntN(2) == 0, Seed: seed}
	if rng.IntN(3) == 0 {
		plan.BodyBytesMax = 40 << 10
	}
	if seed%4 == 3 { // queues are parked all the time, but while a consumer is there
		o.ParkMillis, plan.Consumers = 30, min(plan.Consumers, int(seed/4%2))
	}
	queues := 1 + rng.IntN(2)
	schedule := RandomSchedule(rng, o.Nodes, 6+rng.IntN(16))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d: %+v, %d queues, load %+v\n%v", seed, o, queues, plan, schedule)
		}
	}()
	Run(t, o, func(c *Cluster) {
		for i := range queues {
			at := c.Nodes[rng.IntN(len(c.Nodes))]
			plan.Queues = append(plan.Queues, c.Declare(at, fmt.Sprintf("q%d", i), []meta.NodeID{1, 2, 3}...))
		}
		l := c.StartLoad(plan)
		c.Pass(time.Duration(rng.IntN(1000)) * time.Millisecond)
		schedule.Run(c)
		l.Finish()
		t.Logf("after %v: %s", c.Elapsed(), c.Books.Describe())
	})
}
