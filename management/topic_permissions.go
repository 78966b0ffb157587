package management

import (
	"net/http"

	"github.com/warrenmq/warren/meta"
)

func listOfTopicPermissions(c *call, rows []*meta.TopicPermission) error {
	return list(c, rows, func(p *meta.TopicPermission) string { return p.User }, writeTopicPermission)
}

// listTopicPermissions is GET /topic-permissions.
func listTopicPermissions(c *call) error {
	var rows []*meta.TopicPermission
	for h := range c.view.VHosts() {
		for p := range c.view.TopicPermissions(h.Name) {
			rows = append(rows, p)
		}
	}
	return listOfTopicPermissions(c, rows)
}

// listVHostTopicPermissions is GET /vhosts/VHOST/topic-permissions.
func listVHostTopicPermissions(c *call) error {
	if c.view.VHost(c.params[0]) == nil {
		return objectNotFound()
	}
	var rows []*meta.TopicPermission
	for p := range c.view.TopicPermissions(c.params[0]) {
		rows = append(rows, p)
	}
	return listOfTopicPermissions(c, rows)
}

// listUserTopicPermissions is GET /users/NAME/topic-permissions.
func listUserTopicPermissions(c *call) error {
	if c.view.User(c.params[0]) == nil {
		return objectNotFound()
	}
	var rows []*meta.TopicPermission
	for p := range c.view.TopicPermissionsOf(c.params[0]) {
		rows = append(rows, p)
	}
	return listOfTopicPermissions(c, rows)
}

// topicPermissions are those of the user in the virtual host of the path.
func (c *call) topicPermissions() (rows []*meta.TopicPermission) {
	for p := range c.view.TopicPermissionsOf(c.params[1]) {
		if p.VHost == c.params[0] {
			rows = append(rows, p)
		}
	}
	return rows
}

// getTopicPermissions is GET /topic-permissions/VHOST/USER[/EXCHANGE]: the exchange makes no difference, as in RabbitMQ.
func getTopicPermissions(c *call) error {
	rows := c.topicPermissions()
	if len(rows) == 0 {
		return objectNotFound()
	}
	return listOfTopicPermissions(c, rows)
}

// putTopicPermission is PUT /topic-permissions/VHOST/USER: the exchange stands in the body. The first of a user in a virtual host is a thing made, the others change it.
func putTopicPermission(c *call) error {
	p := meta.TopicPermission{VHost: c.params[0], User: c.params[1]}
	if c.view.VHost(p.VHost) == nil || c.view.User(p.User) == nil {
		return badRequest("vhost_or_user_not_found")
	}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	if err := b.require("exchange", "write", "read"); err != nil {
		return err
	}
	for _, f := range [...]struct {
		key string
		to  *string
	}{{"exchange", &p.Exchange}, {"write", &p.Write}, {"read", &p.Read}} {
		if *f.to, err = b.text(f.key, ""); err != nil {
			return err
		}
	}
	existed := len(c.topicPermissions()) > 0
	if _, err := c.do(resource{Kind: "user", VHost: p.VHost, Name: p.User}, meta.Command{Op: meta.OpPutTopicPermission, Topic: p}); err != nil {
		return err
	}
	return c.made(existed)
}

// deleteTopicPermissions is DELETE /topic-permissions/VHOST/USER[/EXCHANGE]: of all exchanges or of one, which may have none.
func deleteTopicPermissions(c *call) error {
	if len(c.topicPermissions()) == 0 {
		return objectNotFound()
	}
	p := meta.TopicPermission{VHost: c.params[0], User: c.params[1], Exchange: c.params[2]}
	if _, err := c.do(resource{Kind: "user", VHost: p.VHost, Name: p.User}, meta.Command{Op: meta.OpDeleteTopicPermission, Topic: p}); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func writeTopicPermission(w *writer, p *meta.TopicPermission) {
	w.Str("user", p.User)
	w.Str("vhost", p.VHost)
	w.Str("exchange", p.Exchange)
	w.Str("write", p.Write)
	w.Str("read", p.Read)
}
