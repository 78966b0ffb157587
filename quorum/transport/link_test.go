package transport

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/quorum/quorumtest/memnet"
)

// collect receives until the link ends and returns the frames.
func collect(k *Link) func() [][]byte {
	done := make(chan [][]byte, 1)
	go func() {
		var all [][]byte
		for {
			f, err := k.Receive()
			if err != nil {
				done <- all
				return
			}
			all = append(all, f)
		}
	}()
	return func() [][]byte { return <-done }
}

func TestLinkKeepsOrderInBothDirections(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.net.SetLatency("", "", 2*time.Millisecond)
		near, far := l.links()
		const frames = 2000
		var ends []func() [][]byte
		for _, k := range []*Link{near, far} {
			ends = append(ends, collect(k))
			go func() {
				for i := range frames {
					head := binary.BigEndian.AppendUint32(nil, uint32(i))
					body := bytes.Repeat([]byte{byte(i)}, (i*i)%10000)
					for errors.Is(k.SendParts(head, body), ErrBusy) {
						time.Sleep(time.Millisecond)
					}
				}
			}()
		}
		time.Sleep(20 * time.Second)
		must(t, near.Close())
		for side, end := range ends {
			got := end()
			if len(got) != frames {
				t.Fatalf("side %d got %d frames of %d", side, len(got), frames)
			}
			for i, f := range got {
				if int(binary.BigEndian.Uint32(f)) != i || !bytes.Equal(f[4:], bytes.Repeat([]byte{byte(i)}, (i*i)%10000)) {
					t.Fatalf("side %d: frame %d is another one", side, i)
				}
			}
		}
		if p := far.Peer(); p.Node != 1 || p.Boot != (Boot{1, 101}) {
			t.Errorf("the accepted link's peer is %+v", p)
		}
	})
}

func TestSendersDoNotTearFrames(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		near, far := l.links()
		end := collect(far)
		var all sync.WaitGroup
		for s := range 8 {
			all.Go(func() {
				for i := range 200 {
					must(t, near.Send(fmt.Appendf(nil, "%d %d %s", s, i, bytes.Repeat([]byte("x"), i))))
				}
			})
		}
		all.Wait()
		must(t, near.Drain(t.Context()))
		time.Sleep(time.Second)
		near.Close()
		next := make([]int, 8)
		for _, f := range end() {
			var s, i int
			var rest string
			fmt.Sscanf(string(f), "%d %d %s", &s, &i, &rest)
			if i != next[s] || len(rest) != i {
				t.Fatalf("sender %d: frame %d with %d bytes, want frame %d", s, i, len(rest), next[s])
			}
			next[s]++
		}
		for s, n := range next {
			if n != 200 {
				t.Errorf("%d frames of sender %d arrived", n, s)
			}
		}
	})
}

// A frame that is larger than the queue goes alone.
func TestLinkTakesOneLargeFrame(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		near, far := l.links()
		large := make([]byte, limits.LinkQueueBytesMax+1)
		must(t, near.Send(large))
		wantError(t, near.Send([]byte("next")), ErrBusy)
		got, err := far.Receive()
		must(t, err)
		if len(got) != len(large) {
			t.Fatalf("a frame of %d bytes", len(got))
		}
		must(t, near.Drain(t.Context()))
		must(t, near.Send([]byte("next")))
	})
}

// A peer that does not receive makes Send say busy, not wait, and loses the link after the time for one write.
func TestLinkSaysBusy(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		near, far := l.links()
		wantError(t, near.Send(make([]byte, limits.LinkFrameBytesMax+1)), ErrTooLarge)
		frame := make([]byte, limits.LinkQueueBytesMax/8)
		sent := 0
		for ; ; sent++ {
			if err := near.Send(frame); err != nil {
				wantError(t, err, ErrBusy)
				break
			}
		}
		if queued := near.Queued(); queued > limits.LinkQueueBytesMax || queued < limits.LinkQueueBytesMax-2*len(frame) {
			t.Errorf("busy with %d bytes in the queue", queued)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantError(t, near.Drain(ctx), context.DeadlineExceeded)
		for range sent {
			got, err := far.Receive()
			must(t, err)
			if len(got) != len(frame) {
				t.Fatalf("a frame of %d bytes", len(got))
			}
		}
		must(t, near.Drain(t.Context()))
		if near.Queued() != 0 {
			t.Errorf("%d bytes are queued after Drain", near.Queued())
		}
		began := time.Now()
		must(t, near.Send(frame))
		<-near.Done()
		wantError(t, near.Err(), ErrSilent)
		if d := time.Since(began); d != limits.LinkDeadMillis*time.Millisecond {
			t.Errorf("a peer that takes nothing was borne for %v", d)
		}
		wantError(t, near.Send(nil), ErrSilent)
		for {
			if _, err := far.Receive(); err != nil {
				break
			}
		}
	})
}

func TestSmallFramesAreBoundedByCount(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		near, _ := l.links()
		l.net.Isolate("n2", memnet.Stall)
		var err error
		sent := 0
		for ; err == nil; sent++ {
			err = near.Send([]byte("0123456789abcdef0123456789abcdef"))
		}
		wantError(t, err, ErrBusy)
		if sent > 3*limits.LinkQueueFramesMax/2 { // some are in the network
			t.Errorf("%d frames were taken", sent)
		}
	})
}

// TestSilentPeer has a peer that goes silent and comes back, or does not, with and without traffic.
func TestSilentPeer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		silent time.Duration
		calls  string // what OnSilence hears
		ends   bool
	}{
		{"short", 400 * time.Millisecond, "", false},
		{"suspect", 1500 * time.Millisecond, "true false ", false},
		{"dead", time.Minute, "true ", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				l.net.SetLatency("", "", 5*time.Millisecond)
				near, far := l.links()
				collect(near)
				collect(far)
				time.Sleep(10 * time.Second)
				if near.Err() != nil || far.Err() != nil || time.Since(near.LastHeard()) > 200*time.Millisecond {
					t.Fatalf("an idle link: %v %v, heard %v ago", near.Err(), far.Err(), time.Since(near.LastHeard()))
				}
				var mu sync.Mutex
				var calls string
				var first time.Duration
				cut := time.Now()
				near.OnSilence(func(silent bool) {
					mu.Lock()
					defer mu.Unlock()
					if calls == "" {
						first = time.Since(cut)
					}
					calls += fmt.Sprint(silent, " ")
				})
				l.net.Isolate("n2", memnet.Stall)
				time.Sleep(tt.silent)
				l.net.HealAll()
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				if calls != tt.calls {
					t.Errorf("OnSilence heard %q, want %q", calls, tt.calls)
				}
				if tt.calls != "" && (first < (limits.LinkSilentMillis-200)*time.Millisecond || first > (limits.LinkSilentMillis+20)*time.Millisecond) {
					t.Errorf("the peer was suspect %v after the cut", first)
				}
				if tt.ends {
					wantError(t, near.Err(), ErrSilent)
					if far.Err() == nil {
						t.Error("the other end lives on")
					}
				} else if near.Err() != nil || far.Err() != nil {
					t.Errorf("the link ended: %v, %v", near.Err(), far.Err())
				}
			})
		})
	}
}

// When only one direction is cut, both ends learn it: one by silence, the other by the close.
func TestOneWayCut(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		near, far := l.links()
		collect(near)
		collect(far)
		l.net.Cut("n1", "n2", memnet.Stall)
		cut := time.Now()
		<-far.Done()
		wantError(t, far.Err(), ErrSilent)
		<-near.Done()
		if d := time.Since(cut); d > (limits.LinkDeadMillis+10)*time.Millisecond {
			t.Errorf("both ends knew after %v", d)
		}
	})
}

func TestKilledPeerEndsTheLinkAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		near, _ := l.links()
		cut := time.Now()
		l.net.Host("n2").Kill()
		_, err := near.Receive()
		wantError(t, err, syscall.ECONNRESET)
		wantError(t, near.Err(), syscall.ECONNRESET)
		if d := time.Since(cut); d > 0 {
			t.Errorf("it took %v", d)
		}
	})
}

// A receiver that is busy with a frame is no silent peer, whatever it does not hear meanwhile.
func TestBusyReceiverSuspectsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		near, far := l.links()
		collect(near)
		far.OnSilence(func(bool) { t.Error("a peer is suspect because nobody listened to it") })
		must(t, near.Send([]byte("a hard one")))
		_, err := far.Receive()
		must(t, err)
		time.Sleep(time.Minute)
		must(t, near.Send([]byte("next")))
		f, err := far.Receive()
		must(t, err)
		if string(f) != "next" {
			t.Errorf("got %q", f)
		}
	})
}

// A process that was stopped itself hears nobody when it comes back: that makes nobody suspect before there was time to listen.
func TestStoppedProcessSuspectsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		near, far := l.links()
		collect(near)
		collect(far)
		time.Sleep(time.Second)
		var calls atomic.Int32
		near.OnSilence(func(bool) { calls.Add(1) })
		stop := func(seconds int64) { // as the beat finds things after a stop
			synctest.Wait()
			near.s.beats.Stop()
			ago := seconds * int64(time.Second)
			near.s.heard.Add(-ago)
			near.s.reading.Store(1)
			near.s.due = near.s.now() - ago
		}
		stop(30)
		near.s.beat()
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if calls.Load() != 0 || near.Err() != nil {
			t.Errorf("after a stop of this process its peer was called suspect %d times, and the link %v", calls.Load(), near.Err())
		}
		l.net.Isolate("n2", memnet.Stall)
		time.Sleep(time.Second)
		synctest.Wait()
		if calls.Load() != 1 {
			t.Errorf("a silent peer was called suspect %d times", calls.Load())
		}
	})
}

func TestNewBootEndsLinksOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		near, far := l.links()
		l.nodes[1].SetBoot(Boot{2, 201})
		_, err := far.Receive()
		wantError(t, err, io.EOF)
		wantError(t, near.Err(), ErrClosed)
		accepted := make(chan *Link, 1)
		l.nodes[2].OnLink(func(k *Link) { accepted <- k })
		_, err = l.nodes[1].DialLink(t.Context(), 2)
		must(t, err)
		if p := (<-accepted).Peer(); p.Boot != (Boot{2, 201}) {
			t.Errorf("the new link is of boot %v", p.Boot)
		}
	})
}

// A damaged frame ends the link: nothing behind it is believed.
func TestDamagedFrameEndsTheLink(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		near, far := l.links()
		frame := appendFrame(nil, frameData, []byte("good"))
		_, err := near.s.raw.Write(append(flip(frame, 100), frame...))
		must(t, err)
		_, err = far.Receive()
		wantError(t, err, ErrFrame)
		synctest.Wait()
		if far.Err() == nil {
			t.Error("the link lives on")
		}
		if _, err := near.Receive(); err == nil {
			t.Error("the sender hears nothing of it")
		}
	})
}

func TestCloseWaitsForHandlers(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		a, b := l.open(1), l.open(2)
		ended := false
		b.OnLink(func(k *Link) {
			for {
				if _, err := k.Receive(); err != nil {
					time.Sleep(time.Second)
					ended = true
					return
				}
			}
		})
		_, err := a.DialLink(t.Context(), 2)
		must(t, err)
		synctest.Wait()
		must(t, b.Close())
		if !ended {
			t.Error("a handler runs after Close")
		}
		must(t, b.Close())
		_, err = b.DialLink(t.Context(), 1)
		wantError(t, err, ErrClosed)
		if s := b.Stats(); s.Connections != 0 {
			t.Errorf("%d connections after Close", s.Connections)
		}
	})
}

func TestResetClosesWhatAPeerHas(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		near, far := l.links()
		l.nodes[1].Reset(3)
		must(t, near.Err())
		l.nodes[1].Reset(2)
		wantError(t, near.Err(), ErrClosed)
		if _, err := far.Receive(); err == nil {
			t.Error("the peer hears nothing of it")
		}
	})
}
