package wal

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/storagetest"
)

var histories = flag.Int("histories", 50, "random histories of TestRandomHistories")

func TestRandomHistories(t *testing.T) {
	for seed := range uint64(*histories) {
		rng := rand.New(rand.NewPCG(seed, 99))
		o := newOwner(t, storagetest.New())
		for range 8 {
			for range rng.IntN(60) {
				o.must(o.step(rng))
				o.check()
			}
			switch rng.IntN(4) {
			case 0:
				o.must(o.done(o.log.Close()))
			case 1: // kill -9: what was written stays, what was collected goes
			case 2:
				o.fsys.Crash()
			default:
				o.fsys.CrashTorn(rng)
			}
			o.reopen()
		}
	}
}

const workloadSteps = 100

func opsOf(t *testing.T, seed uint64) int {
	fsys := storagetest.New()
	o := newOwner(t, fsys)
	fsys.SetFault(nil)
	o.run(seed, workloadSteps)
	if s := o.log.Stats(); o.log.next < 5 || s.CopiedBytes == 0 {
		t.Fatalf("the workload is too small: %+v", s)
	}
	return fsys.Ops()
}

func TestEveryOperationFailsOnce(t *testing.T) {
	for _, seed := range []uint64{11, 12} {
		fatal := 0
		for n := range opsOf(t, seed) {
			n++
			fsys := storagetest.New()
			o := newOwner(t, fsys)
			told := 0
			o.log.opts.Fatal = func(error) { told++ }
			fsys.SetFault(storagetest.FailNth(n))
			if o.run(seed, workloadSteps) {
				fatal++
				if o.log.Commit([]Update{entriesOf(a, 1, "x")}) == nil || told != 1 {
					t.Fatalf("operation %d: a failed log goes on, or told %d times", n, told)
				}
				fsys.SetFault(nil)
				fsys.CrashTorn(rand.New(rand.NewPCG(seed, uint64(n))))
				o.reopen()
				o.run(seed+1, workloadSteps/4)
			}
			fsys.SetFault(nil)
			o.check()
			o.must(o.done(o.log.Close()))
			fsys.Crash()
			o.reopen()
		}
		if fatal == 0 {
			t.Fatal("no failed sync was met")
		}
	}
}

func TestDiskGoesAwayAtEveryOperation(t *testing.T) {
	for _, seed := range []uint64{21, 22} {
		for n := range opsOf(t, seed) {
			n++
			fsys := storagetest.New()
			o := newOwner(t, fsys)
			fsys.SetFault(storagetest.FailFrom(n))
			o.run(seed, workloadSteps)
			fsys.SetFault(nil)
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			for try := range 3 {
				after := *o
				after.fsys = fsys.Clone()
				if try == 0 {
					after.fsys.Crash()
				} else {
					after.fsys.CrashTorn(rng)
				}
				after.reopen()
				after.run(seed+1, workloadSteps/5)
				after.fsys.CrashTorn(rng)
				after.reopen()
			}
		}
	}
}

// Opening may be cut short at any operation, and by power loss: the next one finds the same.
func TestOpeningFailsAtEveryOperation(t *testing.T) {
	for seed := range uint64(4) {
		fsys := storagetest.New()
		o := newOwner(t, fsys)
		o.run(seed, workloadSteps)
		fsys.CrashTorn(rand.New(rand.NewPCG(seed, 1)))
		for n := 1; ; n++ {
			after := *o
			after.fsys = fsys.Clone()
			after.fsys.SetFault(storagetest.FailFrom(n))
			if after.open() == nil {
				break
			}
			after.fsys.SetFault(nil)
			after.fsys.CrashTorn(rand.New(rand.NewPCG(seed, uint64(n))))
			after.reopen()
		}
	}
}

func failSyncs(op storagetest.Op) error {
	if op.Kind == storagetest.OpSync {
		return storagetest.ErrInjected
	}
	return nil
}

// Of the last record any number of bytes may be left: it is there only whole, and what is written afterwards is found.
func TestTornAtEveryByteOfTheLastRecord(t *testing.T) {
	for _, length := range []int{0, 1, 90, 700} {
		last := strings.Repeat("l", length)
		total := int(recordBytes(int64(12 + 4 + length)))
		for left := 0; left <= total; left++ {
			fsys := storagetest.New()
			l := openSmall(t, fsys)
			must(t, l.Commit([]Update{entriesOf(a, 1, "one")}), l.Commit([]Update{entriesOf(a, 2, "two")}))
			fsys.SetFault(failSyncs)
			if err := l.Commit([]Update{entriesOf(a, 3, last)}); !errors.Is(err, storage.ErrFatal) {
				t.Fatal(err)
			}
			fsys.SetFault(nil)
			budget := left
			fsys.CrashLeaving(func(u storagetest.Unsynced) int {
				n := min(budget, u.Bytes)
				budget -= n
				return n
			})
			l = openSmall(t, fsys)
			whole := []string{"1=one", "2=two"}
			if left == total {
				whole = append(whole, "3="+last)
			}
			want(t, fmt.Sprintf("%d of %d bytes left", left, total), readAll(t, l, a), whole...)
			must(t, l.Commit([]Update{entriesOf(b, 1, "other")}))
			fsys.Crash()
			l = openSmall(t, fsys)
			want(t, "after another crash", readAll(t, l, a), whole...)
			want(t, "after another crash", readAll(t, l, b), "1=other")
		}
	}
}

// A killed process leaves records in the page cache that were never synced. Who finds them and lets them be relied on must have made them durable.
func TestWhatAKilledProcessLeftIsDurableWhenOpenReturns(t *testing.T) {
	fsys := storagetest.New()
	l := openSmall(t, fsys)
	must(t, l.Commit([]Update{entriesOf(a, 1, "one")}))
	fsys.SetFault(failSyncs)
	if l.Commit([]Update{entriesOf(a, 2, "two")}) == nil {
		t.Fatal("a commit without a sync")
	}
	fsys.SetFault(nil)
	l = openSmall(t, fsys)
	want(t, "after the kill", readAll(t, l, a), "1=one", "2=two")
	fsys.Crash()
	l = openSmall(t, fsys)
	want(t, "after power loss", readAll(t, l, a), "1=one", "2=two")
}

// Many goroutines commit while the disk goes away at any moment; then all that was confirmed is there, up to one unconfirmed commit for each.
func TestConcurrentCommitsSurviveACrash(t *testing.T) {
	const writers = 8
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 5))
		fsys := storagetest.New()
		bounds := small
		bounds.inline = false
		l, err := open(Options{FS: fsys, Dir: testDir}, bounds)
		must(t, err)
		fsys.SetFault(storagetest.FailFrom(1 + rng.IntN(600)))
		var confirmed, truncated [writers]uint64
		var wg sync.WaitGroup
		for w := range uint64(writers) {
			wg.Add(1)
			go func() {
				defer wg.Done()
				g := Group{w, 1}
				for i := uint64(1); i <= 60; i++ {
					u := entriesOf(g, i, fmt.Sprintf("%d of %d", i, w))
					u.State = []byte(fmt.Sprint(i))
					if l.Commit([]Update{u}) != nil {
						return
					}
					confirmed[w] = i
					if i%20 == 0 {
						truncated[w] = i - 15
						_ = l.TruncateTo(g, i-15)
					}
					low := max(truncated[w]+1, i-min(i, 10)) // from memory and from files that are about to go
					if got, err := readRange(l, g, low, i+1); err == nil && (len(got) != int(i+1-low) || got[0] != fmt.Sprintf("%d=%d of %d", low, low, w)) {
						t.Errorf("read %d to %d of %d: %q", low, i, w, got)
					}
				}
			}()
		}
		wg.Wait()
		_ = l.Close()
		fsys.SetFault(nil)
		fsys.CrashTorn(rng)
		l, err = open(Options{FS: fsys, Dir: testDir}, bounds)
		must(t, err)
		for w := range uint64(writers) {
			g := Group{w, 1}
			first, last, _ := l.Range(g)
			state, _ := l.StateOf(g)
			if last < confirmed[w] || last > confirmed[w]+1 || last > 0 && first > truncated[w]+1 || last > 0 && string(state) != fmt.Sprint(last) {
				t.Fatalf("seed %d: %v has %d to %d, state %s; confirmed %d, truncated %d", seed, g, first, last, state, confirmed[w], truncated[w])
			}
			for i, e := range readAll(t, l, g) {
				if index := first + uint64(i); e != fmt.Sprintf("%d=%d of %d", index, index, w) {
					t.Fatalf("seed %d: entry %d of %v: %q", seed, index, g, e)
				}
			}
		}
		must(t, l.Close())
	}
}

// Entries that are cut off between the moment a copy of them was prepared and the one it is written stay away.
func TestACopyBringsNothingBack(t *testing.T) {
	fsys := storagetest.New()
	l := openSmall(t, fsys)
	must(t, l.Commit([]Update{entriesOf(b, 1, "one", "two"), entriesOf(b, 3, "three")}))
	for i := uint64(1); len(l.files) < 2; i++ {
		must(t, l.Commit([]Update{entriesOf(a, i, strings.Repeat("x", 200))}))
	}
	l.bounds.pinnedBytes = 0
	f, plan, _ := l.planCopy()
	for i := range plan {
		if _, err := plan[i].read(); err != nil {
			t.Fatal(err)
		}
	}
	must(t, l.Commit([]Update{entriesOf(b, 2, "zwei")}))
	if !l.copyRound(f, plan) {
		t.Fatal("the copy failed")
	}
	l.release(f)
	for range 2 {
		if got := readAll(t, l, b); len(got) != 2 || got[1] != "2=zwei" {
			t.Fatalf("what was replaced is back: %q", got)
		}
		must(t, l.Close())
		l = openSmall(t, fsys)
	}
}

// After a crash a new file is begun: what stands behind the last good record of the old one is never written over.
func TestATornEndIsNotContinued(t *testing.T) {
	fsys := storagetest.New()
	l := openSmall(t, fsys)
	for i := uint64(1); len(l.files) < 2; i++ { // the second file has its whole length
		must(t, l.Commit([]Update{entriesOf(a, i, strings.Repeat("x", 200))}))
	}
	before := logNames(fsys)
	fsys.Crash()
	l = openSmall(t, fsys)
	must(t, l.Commit([]Update{entriesOf(b, 1, "one")}), l.Close())
	if after := logNames(fsys); after[len(after)-1] <= before[len(before)-1] {
		t.Fatalf("the log goes on in %v", after)
	}
}

// While a disk stands still others wait, but nothing that has no need of the disk does: time goes on, and what is in memory is read.
func TestADiskThatStandsStillHoldsUpNoReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := storagetest.New()
		l, err := Open(Options{FS: fsys, Dir: testDir, FileBytes: 64 << 10})
		must(t, err, l.Commit([]Update{entriesOf(a, 1, "one")}))
		synctest.Wait()
		gate := make(chan struct{})
		fsys.SetFault(func(storagetest.Op) error { <-gate; return nil })
		var wg sync.WaitGroup
		for w := range uint64(4) {
			wg.Add(1)
			go func() {
				defer wg.Done()
				if err := l.Commit([]Update{entriesOf(Group{10 + w, 1}, 1, "late")}); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		want(t, "while the disk stands still", readAll(t, l, a), "1=one")
		fsys.SetFault(nil)
		close(gate)
		wg.Wait()
		must(t, l.Close())
	})
}

// Of the last batch any record may be left without those before it: that is no damage.
func TestATornBatchIsNoDamage(t *testing.T) {
	for left := range 3 {
		fsys := storagetest.New()
		l := openSmall(t, fsys)
		must(t, l.Commit([]Update{entriesOf(a, 1, "one")}))
		fsys.SetFault(failSyncs)
		large := strings.Repeat("x", 700)
		if l.Commit([]Update{entriesOf(a, 2, large), entriesOf(a, 3, large), entriesOf(a, 4, large)}) == nil {
			t.Fatal("a commit without a sync")
		}
		fsys.SetFault(nil)
		from := int64(recordsAt) + recordBytes(12+4+3) + int64(left+1)*recordBytes(12+4+700)
		fsys.CrashLeaving(func(u storagetest.Unsynced) int {
			if u.Offset+int64(u.Bytes) > from {
				return u.Bytes
			}
			return 0
		})
		l = openSmall(t, fsys)
		want(t, "torn", readAll(t, l, a), "1=one")
	}
}

// TestFullDiskIsWaitedFor: a write that finds no space, at any operation, is done when there is some; nobody is told that the node must stop.
func TestFullDiskIsWaitedFor(t *testing.T) {
	waited := 0
	for n := 1; n < opsOf(t, 31); n += 7 {
		fsys := storagetest.New()
		o := newOwner(t, fsys)
		o.log.opts.Fatal = func(err error) { t.Errorf("operation %d: the node is to stop: %v", n, err) }
		refused := 0
		fsys.SetFault(func(op storagetest.Op) error {
			writes := op.Kind == storagetest.OpWrite || op.Kind == storagetest.OpOpen || op.Kind == storagetest.OpRename
			if op.N < n || !writes || refused == 2 {
				return nil
			}
			refused++
			if op.Kind == storagetest.OpWrite && op.Bytes > 1 {
				return errors.Join(&storagetest.TornWrite{Bytes: op.Bytes / 2}, syscall.ENOSPC)
			}
			return syscall.ENOSPC
		})
		if o.run(31, workloadSteps) {
			t.Fatalf("operation %d: the log has failed", n)
		}
		fsys.SetFault(nil)
		waited += int(o.log.Stats().Full)
		o.check()
		o.must(o.done(o.log.Close()))
		fsys.Crash()
		o.reopen()
	}
	if waited == 0 {
		t.Error("no write had to wait")
	}
}

// TestCloseOnFullDisk: a log that waits for space can be closed; what waited was never answered as durable.
func TestCloseOnFullDisk(t *testing.T) {
	fsys := storagetest.New()
	l, err := Open(Options{FS: fsys, Dir: "/wal", FileBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	full := make(chan struct{}, 1)
	fsys.SetFault(func(op storagetest.Op) error {
		if op.Kind != storagetest.OpWrite {
			return nil
		}
		select {
		case full <- struct{}{}:
		default:
		}
		return syscall.ENOSPC
	})
	answer := make(chan error)
	go func() { answer <- l.Commit([]Update{entriesOf(a, 1, "x")}) }()
	<-full
	go l.Close()
	if err := <-answer; !errors.Is(err, ErrClosed) {
		t.Errorf("the commit answers %v", err)
	}
}
