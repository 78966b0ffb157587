package management

import (
	"encoding/json"
	"net/http"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
)

// putArguments is PUT /queues/VHOST/NAME/arguments: changes arguments of a queue that was declared, instead of all changes before. null has one count as not given, and {} makes the queue again what
// was declared. It needs what a declaration needs.
func putArguments(c *call) error {
	vhost, name := c.params[0], c.params[1]
	if err := c.changeVHost(vhost); err != nil {
		return err
	}
	what := queueResource(vhost, name)
	q := c.view.Queue(vhost, name)
	if q == nil {
		return objectNotFound()
	}
	if err := c.may(meta.Configure, what); err != nil {
		return err
	}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	if err := b.require("arguments"); err != nil {
		return err
	}
	t, err := b.changes("arguments")
	if err != nil {
		return err
	}
	changed := *q
	changed.Arguments = meta.NewArguments(t)
	if err := c.mayDeadLetter(&changed, what); err != nil {
		return err
	}
	if _, err := c.do(what, meta.Command{Op: meta.OpChangeArguments, Queue: meta.Queue{ID: q.ID, Changes: changed.Arguments}}); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

// changes reads a table in which null stands for no value.
func (b body) changes(key string) (amqp.Table, error) {
	var entries map[string]json.RawMessage
	if json.Unmarshal(b[key], &entries) != nil {
		return nil, badRequestf("%s must be an object", key)
	}
	rest := make(map[string]json.RawMessage)
	var t amqp.Table
	for _, name := range sortedKeys(entries) {
		if string(entries[name]) == "null" {
			t = append(t, amqp.Field{Key: name, Value: amqp.Void()})
		} else {
			rest[name] = entries[name]
		}
	}
	text, err := json.Marshal(rest)
	if err != nil {
		return nil, badRequest("not_json")
	}
	set, err := body{key: text}.table(key)
	if err != nil {
		return nil, err
	}
	t = append(t, set...)
	if t.Check() != nil {
		return nil, badRequestf("%s: a key is too long", key)
	}
	return t, nil
}
