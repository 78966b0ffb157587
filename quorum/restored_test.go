package quorum

import (
	"testing"

	"github.com/warrenmq/warren/internal/machine"
	"github.com/warrenmq/warren/meta"
)

// A snapshot that replaces the catalogue tells as much as the log would have: who and what is gone, and whose rights may be other ones.
func TestARestoredCatalogueTellsOfAccess(t *testing.T) {
	m := meta.New()
	index := uint64(0)
	apply := func(cmds ...meta.Command) *meta.View {
		for i := range cmds {
			index++
			if r, _ := m.Apply(machine.Stamp{Index: index}, &cmds[i], nil); r.Reason != meta.ReasonOK {
				t.Fatalf("command %d: %v", i, r.Reason)
			}
		}
		return m.View()
	}
	vhost := func(name string) meta.Command {
		return meta.Command{Op: meta.OpPutVHost, VHost: meta.VHost{Name: name}}
	}
	user := func(name string) meta.Command {
		return meta.Command{Op: meta.OpPutUser, User: meta.User{Name: name}}
	}
	permission := func(op meta.Op, user, vhost string) meta.Command {
		return meta.Command{Op: op, Permission: meta.Permission{User: user, VHost: vhost}}
	}
	old := apply(vhost("stays"), vhost("goes"), user("stays"), user("goes"), permission(meta.OpPutPermission, "stays", "stays"), permission(meta.OpPutPermission, "goes", "stays"))
	now := apply(permission(meta.OpDeletePermission, "stays", "stays"), meta.Command{Op: meta.OpDeleteUser, User: meta.User{Name: "goes"}}, meta.Command{Op: meta.OpDeleteVHost, VHost: meta.VHost{Name: "goes"}})
	told := make(map[meta.Effect]bool)
	for _, e := range restored(old, now) {
		told[e] = true
	}
	for _, want := range []meta.Effect{
		{Kind: meta.VHostDeleted, VHost: "goes"}, {Kind: meta.UserDeleted, User: "goes"}, {Kind: meta.PermissionChanged, VHost: "stays", User: "stays"}, {Kind: meta.PermissionChanged, VHost: "stays", User: "goes"},
	} {
		if !told[want] {
			t.Errorf("not told: %+v", want)
		}
		delete(told, want)
	}
	if len(told) > 0 {
		t.Errorf("told too much: %v", told)
	}
}
