package meta

import (
	"testing"

	"github.com/warrenmq/warren/internal/machine"
)

// The catalogue's copy of a group's membership starts as the bootstrap set, numbered from 1, and follows what the group reports; an older report changes nothing, and replica ids are
// given once.
func TestMembersFollowTheGroup(t *testing.T) {
	m := New()
	step := func(c Command) Reply {
		r, _ := m.Apply(machine.Stamp{Index: m.View().Index() + 1}, &c, nil)
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	step(Command{Op: OpPutVHost, VHost: VHost{Name: "/"}})
	id := QueueID(step(Command{Op: OpDeclareQueue, Queue: Queue{VHost: "/", Name: "q", Durable: true, Replicas: []NodeID{3, 1}}}).ID)
	if q := m.View().QueueByID(id); len(q.Members) != 2 || q.Members[0] != (Member{Node: 1, Replica: 1}) || q.Members[1] != (Member{Node: 3, Replica: 2}) {
		t.Fatalf("first members %v", q.Members)
	}
	if r := step(Command{Op: OpAllotReplica, Queue: Queue{ID: id}}); r.Count != 3 {
		t.Fatalf("allotted %d", r.Count)
	}
	grown := []Member{{Node: 2, Replica: 3, NonVoting: true}, {Node: 1, Replica: 1}, {Node: 3, Replica: 2}}
	step(Command{Op: OpSetMembers, Queue: Queue{ID: id, Members: grown}, Token: 10})
	if r := step(Command{Op: OpSetMembers, Queue: Queue{ID: id, Members: grown[1:]}, Token: 9}); !r.Existed {
		t.Fatal("an older membership was taken")
	}
	q := m.View().QueueByID(id)
	if got, ok := q.MemberOn(2); !ok || got.Replica != 3 || !got.NonVoting || q.Members[2] != got {
		t.Fatalf("members %v", q.Members)
	}
	if r := step(Command{Op: OpAllotReplica, Queue: Queue{ID: id}}); r.Count != 4 {
		t.Fatalf("allotted %d", r.Count)
	}
	if step(Command{Op: OpWantReplicas, Queue: Queue{ID: id, ReplicasWanted: 2}}); m.View().QueueByID(id).ReplicasWanted != 2 {
		t.Fatal("the number of replicas is not kept")
	}
	if r := step(Command{Op: OpWantReplicas, Queue: Queue{ID: id + 1, ReplicasWanted: 2}}); r.Reason != ReasonNoQueue {
		t.Fatalf("a missing queue: %v", r.Reason)
	}
	if r := step(Command{Op: OpAllotReplica, Queue: Queue{ID: id + 1}}); r.Reason != ReasonNoQueue {
		t.Fatalf("a missing queue: %v", r.Reason)
	}
}
