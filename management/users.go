package management

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"

	"github.com/warrenmq/warren/meta"
)

// listUsers is GET /users.
func listUsers(c *call) error {
	var rows []*meta.User
	for u := range c.view.Users() {
		rows = append(rows, u)
	}
	return list(c, rows, func(u *meta.User) string { return u.Name }, writeUser)
}

// getUser is GET /users/NAME.
func getUser(c *call) error {
	u := c.view.User(c.params[0])
	if u == nil {
		return objectNotFound()
	}
	return c.object(http.StatusOK, func(w *writer) { writeUser(w, u) })
}

// putUser is PUT /users/NAME: tags, and a password, its hash, or neither for a user who cannot log in with one.
func putUser(c *call) error {
	b, err := c.readBody()
	if err != nil {
		return err
	}
	u := meta.User{Name: c.params[0], HashingAlgorithm: meta.DefaultHashing}
	if _, ok := b["tags"]; !ok {
		return badRequest("tags_not_present")
	}
	tags, err := b.tags("tags")
	if err != nil {
		return err
	}
	u.Tags = sortedSet(tags)
	if b.has("password_hash") {
		if u.PasswordHash, u.HashingAlgorithm, err = b.passwordHash(); err != nil {
			return err
		}
	} else if password, err := b.text("password", ""); err != nil {
		return err
	} else if password != "" {
		var salt [4]byte
		_, _ = rand.Read(salt[:])
		u.PasswordHash = meta.HashPassword(salt, []byte(password))
	}
	what := resource{kind: "user", name: u.Name}
	existed := c.view.User(u.Name) != nil
	if _, err := c.do(what, meta.Command{Op: meta.OpPutUser, User: u}); err != nil {
		return err
	}
	return c.made(existed)
}

// passwordHash reads a hash as RabbitMQ's definitions have it.
func (b body) passwordHash() (hash []byte, algorithm string, err error) {
	text, err := b.text("password_hash", "")
	if err != nil {
		return nil, "", err
	}
	if hash, err = base64.StdEncoding.DecodeString(text); err != nil {
		return nil, "", badRequestWords("not_base64", plainJSON(b["password_hash"]))
	}
	if algorithm, err = b.text("hashing_algorithm", meta.DefaultHashing); err != nil {
		return nil, "", err
	}
	if !meta.KnownHashing(algorithm) {
		return nil, "", badRequestWords("unknown_hashing_algorithm", plainJSON(b["hashing_algorithm"]))
	}
	return hash, algorithm, nil
}

// deleteUser is DELETE /users/NAME.
func deleteUser(c *call) error {
	name := c.params[0]
	if c.view.User(name) == nil {
		return objectNotFound()
	}
	if _, err := c.do(resource{kind: "user", name: name}, meta.Command{Op: meta.OpDeleteUser, User: meta.User{Name: name}}); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func writeUser(w *writer, u *meta.User) {
	w.Str("name", u.Name)
	w.Str("password_hash", base64.StdEncoding.EncodeToString(u.PasswordHash))
	algorithm := u.HashingAlgorithm
	if algorithm == "" {
		algorithm = meta.DefaultHashing
	}
	w.Str("hashing_algorithm", algorithm)
	w.Strings("tags", u.Tags)
	w.EmptyObject("limits")
}
