package management

import (
	"net/http"

	"github.com/warrenmq/warren/meta"
)

func listOfPermissions(c *call, rows []*meta.Permission) error {
	return list(c, rows, func(p *meta.Permission) string { return p.User }, writePermission)
}

// listPermissions is GET /permissions.
func listPermissions(c *call) error {
	var rows []*meta.Permission
	for h := range c.view.VHosts() {
		for p := range c.view.Permissions(h.Name) {
			rows = append(rows, p)
		}
	}
	return listOfPermissions(c, rows)
}

// listVHostPermissions is GET /vhosts/VHOST/permissions.
func listVHostPermissions(c *call) error {
	if c.view.VHost(c.params[0]) == nil {
		return objectNotFound()
	}
	var rows []*meta.Permission
	for p := range c.view.Permissions(c.params[0]) {
		rows = append(rows, p)
	}
	return listOfPermissions(c, rows)
}

// listUserPermissions is GET /users/NAME/permissions.
func listUserPermissions(c *call) error {
	if c.view.User(c.params[0]) == nil {
		return objectNotFound()
	}
	var rows []*meta.Permission
	for p := range c.view.PermissionsOf(c.params[0]) {
		rows = append(rows, p)
	}
	return listOfPermissions(c, rows)
}

// getPermission is GET /permissions/VHOST/USER.
func getPermission(c *call) error {
	p := c.view.Permission(c.params[1], c.params[0])
	if p == nil {
		return objectNotFound()
	}
	return c.object(http.StatusOK, func(w *writer) { writePermission(w, p) })
}

// putPermission is PUT /permissions/VHOST/USER.
func putPermission(c *call) error {
	b, err := c.readBody()
	if err != nil {
		return err
	}
	if err := b.require("configure", "write", "read"); err != nil {
		return err
	}
	p := meta.Permission{VHost: c.params[0], User: c.params[1]}
	if c.view.VHost(p.VHost) == nil || c.view.User(p.User) == nil {
		return badRequest("vhost_or_user_not_found")
	}
	for _, f := range [...]struct {
		key string
		to  *string
	}{{"configure", &p.Configure}, {"write", &p.Write}, {"read", &p.Read}} {
		if *f.to, err = b.text(f.key, ""); err != nil {
			return err
		}
	}
	existed := c.view.Permission(p.User, p.VHost) != nil
	if _, err := c.do(resource{Kind: "user", VHost: p.VHost, Name: p.User}, meta.Command{Op: meta.OpPutPermission, Permission: p}); err != nil {
		return err
	}
	return c.made(existed)
}

// deletePermission is DELETE /permissions/VHOST/USER.
func deletePermission(c *call) error {
	p := c.view.Permission(c.params[1], c.params[0])
	if p == nil {
		return objectNotFound()
	}
	if _, err := c.do(resource{Kind: "user", VHost: p.VHost, Name: p.User}, meta.Command{Op: meta.OpDeletePermission, Permission: *p}); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func writePermission(w *writer, p *meta.Permission) {
	w.Str("user", p.User)
	w.Str("vhost", p.VHost)
	w.Str("configure", p.Configure)
	w.Str("write", p.Write)
	w.Str("read", p.Read)
}
