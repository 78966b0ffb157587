package management

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"

	"github.com/warrenmq/warren/meta"
)

// listUsers is GET /users.
func listUsers(c *call) error {
	var rows []*meta.User
	for u := range c.view.Users() {
		rows = append(rows, u)
	}
	return list(c, rows, func(u *meta.User) string { return u.Name }, c.writeUser)
}

// getUser is GET /users/NAME.
func getUser(c *call) error {
	u := c.view.User(c.params[0])
	if u == nil {
		return objectNotFound()
	}
	return c.object(http.StatusOK, func(w *writer) { c.writeUser(w, u) })
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
		u.PasswordHash = newHash(password)
	}
	what := userResource(u.Name)
	existed := c.view.User(u.Name) != nil
	limits, err := b.userLimits(u.Name)
	if err != nil {
		return err
	}
	if _, err := c.do(what, append([]meta.Command{{Op: meta.OpPutUser, User: u}}, limits...)...); err != nil {
		return err
	}
	return c.made(existed)
}

// listUsersWithoutPermissions is GET /users/without-permissions.
func listUsersWithoutPermissions(c *call) error {
	var rows []*meta.User
	for u := range c.view.Users() {
		may := false
		for range c.view.PermissionsOf(u.Name) {
			may = true
			break
		}
		if !may {
			rows = append(rows, u)
		}
	}
	return list(c, rows, func(u *meta.User) string { return u.Name }, c.writeUser)
}

// deleteUsers is POST /users/bulk-delete with {"users":[NAME...]}: all or, if one does not exist, none.
func deleteUsers(c *call) error {
	b, err := c.readBody()
	if err != nil {
		return err
	}
	if err := b.require("users"); err != nil {
		return err
	}
	var names []string
	if json.Unmarshal(b["users"], &names) != nil {
		return badRequest("users must be a list of strings")
	}
	names = sortedSet(names)
	cmds := make([]meta.Command, len(names))
	for i, name := range names {
		if c.view.User(name) == nil {
			return badRequestWords("no_such_user", name)
		}
		cmds[i] = meta.Command{Op: meta.OpDeleteUser, User: meta.User{Name: name}}
	}
	for len(cmds) > 0 {
		n := min(len(cmds), deletesAtOnce)
		if _, err := c.do(userResource(cmds[0].User.Name), cmds[:n]...); err != nil {
			return err
		}
		cmds = cmds[n:]
	}
	return c.empty(http.StatusNoContent)
}

// deletesAtOnce is how many users one entry of the catalogue's log deletes.
const deletesAtOnce = 100

// hashPassword is GET /auth/hash_password/PASSWORD.
func hashPassword(c *call) error {
	return c.object(http.StatusOK, func(w *writer) {
		w.Str("ok", base64.StdEncoding.EncodeToString(newHash(c.params[0])))
	})
}

// newHash hashes a password with a new salt.
func newHash(password string) []byte {
	var salt [4]byte
	_, _ = rand.Read(salt[:])
	return meta.HashPassword(salt, []byte(password))
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
	if _, err := c.do(userResource(name), meta.Command{Op: meta.OpDeleteUser, User: meta.User{Name: name}}); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func (c *call) writeUser(w *writer, u *meta.User) {
	w.Str("name", u.Name)
	w.Str("password_hash", base64.StdEncoding.EncodeToString(u.PasswordHash))
	algorithm := u.HashingAlgorithm
	if algorithm == "" {
		algorithm = meta.DefaultHashing
	}
	w.Str("hashing_algorithm", algorithm)
	w.Strings("tags", u.Tags)
	writeLimits(w, "limits", c.view.UserLimits(u.Name))
}
