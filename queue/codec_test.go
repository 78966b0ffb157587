package queue

import (
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/internal/invariant"
	"github.com/warrenmq/warren/internal/machine"
)

// encodings are all commands in their encoded form. The form stands in logs: a line may be added, never changed.
var encodings = []struct {
	c   Command
	hex string
}{
	{Command{Op: OpEnqueue, Session: 300, Flags: FlagPersistent, BodyBytes: 3, Envelope: []byte("abcd")}, "01" + "01" + "ac02" + "03" + "04" + "61626364"},
	{Command{Op: OpEnqueue, Flags: FlagHasPriority | FlagRedelivered, Priority: 7, Envelope: []byte{}}, "01" + "06" + "07" + "00" + "00" + "00"},
	{Command{Op: OpSubscribe, Session: 1, Consumer: 2, Prefetch: 3, WindowBytes: 4, WindowCount: 5, ConsumerPriority: -1, Flags: FlagNoAck | FlagExclusive},
		"02" + "18" + "01" + "02" + "03" + "04" + "05" + "ffffffff" + "00"},
	{Command{Op: OpSubscribe, Session: 1, Consumer: 2, Timeout: LimitOf(1000)}, "02" + "00" + "01" + "02" + "00" + "00" + "00" + "00000000" + "e907"},
	{Command{Op: OpEnqueue, Flags: FlagHasPriority | FlagHasExpiration, Priority: 7, Expiration: 128, Envelope: []byte{}}, "01" + "42" + "07" + "8001" + "00" + "00" + "00"},
	{Command{Op: OpTouch}, "14"},
	{Command{Op: OpConfigure, Config: Config{Version: 1, MessageTTL: LimitOf(0), MaxLength: LimitOf(127), DeliveryLimit: LimitOf(2), Overflow: RejectPublish, DeadLetter: true}},
		"21" + "01" + "00" + "00" + "02" + "01" + "8001" + "00" + "03" + "00" + "0000" + "000000" + "000000" + "01" + "00" + "0001000000000000" + "00"},
	{Command{Op: OpConfigure, Config: Config{Version: 1, Retry: RetryAll, RetryMultiplier: LimitOf(2), RetryJitter: LimitOf(10), RetrySchedule: ScheduleOf([]uint64{1, 300})}},
		"21" + "01" + "00" + "00" + "02" + "00000000000000000000" + "030b" + "00" + "00" + "01" + "0000000000000000" + "03" + "01ac02"},
	{Command{Op: OpCancel, Session: 1, Consumer: 2}, "03" + "01" + "02"},
	{Command{Op: OpDrained, Session: 1, To: 128}, "04" + "01" + "8001"},
	{Command{Op: OpGet, Session: 1, Flags: FlagNoAck}, "05" + "08" + "01"},
	{Command{Op: OpSettle, Session: 1, Consumer: 2, From: 3, To: 10, Outcome: OutcomeReturn}, "06" + "02" + "01" + "02" + "03" + "07"},
	{Command{Op: OpPurge}, "07"},
	{Command{Op: OpQuery}, "08"},
	{Command{Op: OpSessionClose, Session: 1, To: 2}, "09" + "01" + "02"},
	{Command{Op: OpTxEnqueue, Session: 1, Tx: 2, Flags: FlagHasPriority, Priority: 7, BodyBytes: 3, Envelope: []byte("abcd")}, "0a" + "02" + "07" + "01" + "02" + "03" + "04" + "61626364"},
	{Command{Op: OpTxSettle, Session: 1, Tx: 9, Consumer: 2, From: 3, To: 10, Outcome: OutcomeAck}, "0b" + "01" + "01" + "09" + "02" + "03" + "07"},
	{Command{Op: OpTxCommit, Session: 1, Tx: 9, To: 130}, "0c" + "01" + "09" + "8201"},
	{Command{Op: OpCredit, Session: 1, Limit: 300}, "0d" + "01" + "ac02"},
	{Command{Op: OpCredit, Session: 1, Limit: NoLimit}, "0d" + "01" + "ffffffff0f"},
	{Command{Op: OpEnqueue, Flags: FlagHasExpiration | FlagDelay, Expiration: 1, Delay: 300, Envelope: []byte{}}, "01" + "c002" + "01" + "00ac02" + "00" + "00" + "00"},
	{Command{Op: OpEnqueue, Flags: FlagDelay, Delay: 300, DelayUntil: true, Envelope: []byte{}}, "01" + "8002" + "01ac02" + "00" + "00" + "00"},
	{Command{Op: OpUnschedule, Envelope: AppendDelayed(AppendDelayed(nil, 300, 2), 1, 3)}, "0e" + "00" + "05" + "ac0202" + "0103"},
	{Command{Op: OpExpedite, To: 3, Envelope: []byte{}}, "0f" + "03" + "00"},
	{Command{Op: OpSubscribe, Session: 1, Consumer: 2, Flags: FlagLimited}, "02" + "20" + "01" + "02" + "00" + "00" + "00" + "00000000" + "00"},
	{Command{Op: OpEnqueue, Flags: FlagImmediate, BodyBytes: 1, Envelope: []byte("x")}, "01" + "8001" + "00" + "01" + "01" + "78"},
	{Command{Op: OpMove, Peer: 1024, Reason: ReasonMoved, To: 300, Envelope: []byte{}}, "13" + "8008" + "20" + "ac02" + "00"},
	{Command{Op: OpMove, Peer: 1024, Reason: ReasonRedriven, Envelope: AppendSeqs(nil, []Seq{300, 301})}, "13" + "8008" + "21" + "00" + "03" + "ac02" + "01"},
	{Command{Op: OpEnqueue, Flags: FlagDedup | FlagHasExpiration, Expiration: 5, ID: DedupID{1, 2}, Envelope: []byte("x")}, "01" + "c004" + "05" + "0000000000000001" + "0000000000000002" + "00" + "00" + "01" + "78"},
	{Command{Op: OpTxEnqueue, Session: 1, Tx: 2, Flags: FlagDedup, ID: DedupID{3, 4}, Envelope: []byte("x")}, "0a" + "8004" + "0000000000000003" + "0000000000000004" + "01" + "02" + "00" + "01" + "78"},
	{Command{Op: OpTick}, "20"},
	{Command{Op: OpConfigure, Config: Config{Version: 1, PriorityMax: 2, PriorityDefault: 3, AutoDelete: true}}, "21" + "01" + "02" + "03" + "01"},
	{Command{Op: OpSeal, Condition: IfUnused | IfAutoDelete}, "22" + "05"},
	{Command{Op: OpUnseal, To: 1}, "23" + "01"},
	{Command{Op: OpNodeGone, Node: 1, Boot: Boot{Counter: 2, Nonce: 3}}, "24" + "01" + "02" + "0000000000000003"},
	{Command{Op: OpResolve, Envelope: AppendTargets(AppendTargets(nil, 1, []QueueID{1024, 3}), 2, nil)}, "26" + "07" + "01" + "02" + "8008" + "03" + "02" + "00"},
	{Command{Op: OpDone, Peer: 1024, To: 3}, "27" + "8008" + "03"},
	{Command{Op: OpForget, Peer: 1024, PeerEpoch: 1}, "2c" + "8008" + "01"},
	{Command{Op: OpRun, Peer: 1024, PeerEpoch: 1, From: 2, Envelope: AppendCommand(nil, &Command{Op: OpEnqueue, BodyBytes: 3, Envelope: []byte("ab")})},
		"28" + "8008" + "01" + "02" + "07" + "01" + "00" + "00" + "03" + "02" + "6162"},
	{Command{Op: OpTxPrepare, Session: 1, Tx: 9, To: 130, Peer: 1024}, "10" + "01" + "09" + "8201" + "8008"},
	{Command{Op: OpTxDecide, Session: 1, Tx: 9, To: 3, Envelope: AppendQueue(AppendQueue(nil, 7), 1024)}, "11" + "01" + "09" + "03" + "03" + "07" + "8008"},
	{Command{Op: OpTxFinish, Session: 1, Tx: 9}, "12" + "01" + "09"},
	{Command{Op: OpTxAsk, Node: 1, Boot: Boot{Counter: 2, Nonce: 3}, Session: 4, Tx: 5}, "29" + "01" + "02" + "0000000000000003" + "04" + "05"},
	{Command{Op: OpTxEnd, Node: 1, Boot: Boot{Counter: 2, Nonce: 3}, Session: 4, Tx: 5, To: TxCommitted}, "2a" + "01" + "02" + "0000000000000003" + "04" + "05" + "01"},
	{Command{Op: OpTxDone, Node: 1, Boot: Boot{Counter: 2, Nonce: 3}, Session: 4, Tx: 5, Peer: 1024}, "2b" + "01" + "02" + "0000000000000003" + "04" + "05" + "8008"},
	{Command{Op: OpEvict, Node: 1, Boot: Boot{Counter: 2, Nonce: 3}, Gen: 4}, "25" + "01" + "02" + "0000000000000003" + "04"},
}

func TestCommandEncoding(t *testing.T) {
	for _, e := range encodings {
		encoded := AppendCommand(nil, &e.c)
		if got := hex.EncodeToString(encoded); got != e.hex {
			t.Errorf("op %d: %s, want %s", e.c.Op, got, e.hex)
		}
		var c Command
		rest, err := DecodeCommand(append(encoded, 0xAA), &c)
		if err != nil || len(rest) != 1 || !reflect.DeepEqual(c, e.c) {
			t.Errorf("op %d: decoded %+v (%v, rest %x), want %+v", e.c.Op, c, err, rest, e.c)
		}
		for n := range encoded {
			if _, err := DecodeCommand(encoded[:n], &c); !errors.Is(err, codec.ErrTruncated) {
				t.Errorf("op %d cut to %d bytes: %v", e.c.Op, n, err)
			}
		}
		if !e.c.Op.IsKnown() || e.c.Op.IsBatched() != (e.c.Op < OpTick) {
			t.Errorf("op %d: known %t, batched %t", e.c.Op, e.c.Op.IsKnown(), e.c.Op.IsBatched())
		}
	}
}

func TestMalformedCommands(t *testing.T) {
	for _, s := range []string{
		"00", "0e" + "00" + "00", "0f" + "01" + "020101", "0e" + "00" + "01" + "01", "1f", "3f", "ff", // unknown ops
		"02" + "80" + "01" + "01" + "000000" + "00000000",                                                      // unknown flag
		"01" + "08" + "01" + "00" + "00",                                                                       // flag of another op
		"01" + "00" + "01" + "8080808010" + "00",                                                               // body of 2^32 bytes
		"02" + "00" + "00" + "01" + "000000" + "00000000",                                                      // session 0
		"02" + "00" + "01" + "00" + "000000" + "00000000" + "00",                                               // consumer 0
		"13" + "01" + "02" + "01" + "00", "13" + "01" + "20" + "00" + "00", "13" + "01" + "20" + "01" + "0101", // reason of a death; neither, and both of number and list
		"13" + "01" + "20" + "00" + "020100", // the same message twice
		"03" + "01" + "00", "04" + "00" + "01", "05" + "00" + "00", "09" + "00" + "00", "0d" + "00" + "01", "0d" + "01" + "8080808010",
		"06" + "00" + "01" + "00" + "01" + "00",                   // outcome 0
		"06" + "06" + "01" + "00" + "01" + "00",                   // unknown outcome
		"06" + "01" + "01" + "00" + "00" + "00",                   // from 0
		"06" + "01" + "01" + "00" + "01" + "8020",                 // 4097 numbers
		"06" + "01" + "01" + "00" + "ffffffffffffffffff01" + "01", // beyond the last number
		"21" + "01" + "00" + "00" + "04",                          // unknown form
		"21" + "01" + "00" + "00" + "02" + "00000000000000000000" + "000000" + "0000" + "0000000000000000" + "00",          // limits that are none
		"21" + "01" + "00" + "00" + "02" + "01000000000000000000" + "000000" + "0300" + "0000000000000000" + "00",          // unknown overflow
		"21" + "01" + "00" + "00" + "02" + "01000000000000000000" + "000000" + "0000" + "0000000000000000" + "02" + "8000", // a wait that is longer than it need be
		"26" + "02" + "01" + "02",                                    // targets that are not there
		"28" + "01" + "01" + "00" + "00",                             // from 0
		"28" + "01" + "01" + "01" + "01" + "07",                      // a run of something else
		"0a" + "00" + "00" + "01" + "00" + "00",                      // session 0
		"0b" + "01" + "01" + "00" + "00" + "01" + "00",               // tx 0
		"0c" + "01" + "00" + "00",                                    // tx 0
		"11" + "01" + "01" + "01" + "00",                             // no queues
		"11" + "01" + "01" + "01" + "02" + "0707",                    // queues that do not ascend
		"2a" + "01" + "02" + "0000000000000003" + "04" + "05" + "02", // no decision
		"22" + "10", // unknown condition
	} {
		src, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		var c Command
		if _, err := DecodeCommand(src, &c); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestBatchEncoding(t *testing.T) {
	b := Batch{Pipeline: PipelineID{Node: 1, Boot: Boot{Counter: 2, Nonce: 3}, Gen: 4}, K: 5, NowMillis: 6, Count: 2, Commands: []byte{byte(OpPurge), byte(OpQuery)}}
	src := AppendBatch(nil, &b)
	want := "01" + "0000000000000006" + "0000000000000001" + "0000000000000002" + "0000000000000003" + "0000000000000004" + "0000000000000005" + "00000002" + "0708"
	if got := hex.EncodeToString(src); got != want {
		t.Fatalf("encoded\n%s\nwant\n%s", got, want)
	}
	room := append(make([]byte, BatchHeaderBytes), b.Commands...)
	if PutBatchHeader(room, b.Pipeline, b.K, b.NowMillis, b.Count); string(room) != string(src) {
		t.Fatalf("header put in place: %x", room)
	}
	if err := StampEntry(src, 77); err != nil {
		t.Fatal(err)
	}
	var e Entry
	if err := DecodeEntry(src, &e); err != nil {
		t.Fatal(err)
	}
	b.NowMillis = 77
	if e.Kind != EntryBatch || e.NowMillis != 77 || !reflect.DeepEqual(e.Batch, b) {
		t.Fatalf("decoded %+v, want %+v", e, b)
	}
	if err := ValidateBatch(src); err != nil {
		t.Fatal(err)
	}
	for n := range src {
		if ValidateBatch(src[:n]) == nil {
			t.Errorf("a batch cut to %d bytes is valid", n)
		}
	}
}

func TestCommandEntry(t *testing.T) {
	src := AppendCommandEntry(nil, 6, &Command{Op: OpUnseal, To: 9})
	if got := hex.EncodeToString(src); got != "02"+"0000000000000006"+"23"+"09" {
		t.Fatalf("encoded %s", got)
	}
	if err := StampEntry(src, 7); err != nil {
		t.Fatal(err)
	}
	var e Entry
	if err := DecodeEntry(src, &e); err != nil || e.Kind != EntryCommand || e.NowMillis != 7 || !reflect.DeepEqual(e.Command, Command{Op: OpUnseal, To: 9}) {
		t.Fatalf("decoded %+v: %v", e, err)
	}
	for _, bad := range [][]byte{nil, {0}, {1}, {3}, {2}, src[:stampEnd], append(append([]byte(nil), src...), 0), AppendCommandEntry(nil, 0, &Command{Op: OpPurge})} {
		if DecodeEntry(bad, &e) == nil {
			t.Errorf("%x decodes", bad)
		}
	}
	if StampEntry([]byte{1, 2}, 0) == nil {
		t.Error("stamped what has no room")
	}
}

// TestValidateBatchRefuses is what a proposer must never append to a log.
func TestValidateBatchRefuses(t *testing.T) {
	id := PipelineID{Node: 1, Boot: Boot{Counter: 1}, Gen: 1}
	many := strings.Repeat(string([]byte{byte(OpQuery)}), limits.BatchCommandsMax+1)
	large := AppendCommand(nil, &Command{Op: OpEnqueue, Session: 1, BodyBytes: limits.BatchBytesMax, Envelope: make([]byte, limits.BatchBytesMax)})
	for name, c := range map[string]struct {
		k        uint64
		count    int
		commands string
		ok       bool
	}{
		"one":                 {1, 1, "\x08", true},
		"k 0":                 {0, 1, "\x08", false},
		"empty":               {1, 0, "", false},
		"count too low":       {1, 1, "\x08\x08", false},
		"count too high":      {1, 3, "\x08\x08", false},
		"not for batches":     {1, 1, "\x20", false},
		"unknown op":          {1, 1, "\x63", false},
		"as many as may be":   {1, limits.BatchCommandsMax, many[1:], true},
		"too many":            {1, limits.BatchCommandsMax + 1, many, false},
		"one large":           {1, 1, string(large), true},
		"more behind a large": {1, 2, string(large) + "\x08", false},
		"large last":          {1, 2, "\x08" + string(large), true},
	} {
		src := AppendBatch(nil, &Batch{Pipeline: id, K: c.k, Count: c.count, Commands: []byte(c.commands)})
		if err := ValidateBatch(src); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestImpossibleEntriesStopTheMachine: what a proposer let through against the rules is a bug and not a reply.
func TestImpossibleEntriesStopTheMachine(t *testing.T) {
	id := PipelineID{Node: 1, Boot: Boot{Counter: 1}, Gen: 1}
	for name, apply := range map[string]func(*Machine){
		"undecodable": func(m *Machine) {
			m.ApplyBatch(machine.Stamp{}, &Batch{Pipeline: id, K: 1, Count: 1, Commands: []byte{99}}, nil)
		},
		"trailing bytes": func(m *Machine) {
			m.ApplyBatch(machine.Stamp{}, &Batch{Pipeline: id, K: 1, Count: 1, Commands: []byte{7, 7}}, nil)
		},
		"tick in batch": func(m *Machine) {
			m.ApplyBatch(machine.Stamp{}, &Batch{Pipeline: id, K: 1, Count: 1, Commands: []byte{32}}, nil)
		},
		"purge alone": func(m *Machine) { m.Apply(machine.Stamp{}, &Command{Op: OpPurge}, nil) },
	} {
		func() {
			defer func() {
				if v, ok := recover().(*invariant.Violation); !ok || v.Reason == "" {
					t.Errorf("%s: no violation", name)
				}
			}()
			apply(New(Config{}))
		}()
	}
}
