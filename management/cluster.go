package management

import (
	"net/http"

	"github.com/warrenmq/warren/meta"
)

// whoami is GET /whoami. Who is known by a cookie is told what changes must show beside it.
func whoami(c *call) error {
	return c.object(http.StatusOK, func(w *writer) {
		w.Str("name", c.user.Name)
		w.Strings("tags", c.user.Tags)
		w.Bool("is_internal_user", true)
		if c.session != nil {
			w.Str("csrf_token", c.s.sessions.csrf(c.session))
		}
	})
}

// version is GET /version: the version of RabbitMQ that is spoken, as one JSON string.
func version(c *call) error {
	w := c.answer(http.StatusOK)
	w.Str("", RabbitMQVersion)
	w.finish()
	return nil
}

// clusterName is GET /cluster-name.
func clusterName(c *call) error {
	return c.object(http.StatusOK, func(w *writer) { w.Str("name", c.view.ClusterName()) })
}

// putClusterName is PUT /cluster-name.
func putClusterName(c *call) error {
	b, err := c.readBody()
	if err != nil {
		return err
	}
	if err := b.require("name"); err != nil {
		return err
	}
	name, err := b.text("name", "")
	if err != nil {
		return err
	}
	if name == "" {
		return badRequest("the name is empty")
	}
	if _, err := c.do(resource{Kind: "cluster", Name: name}, meta.Command{Op: meta.OpSetClusterName, Name: name}); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}
