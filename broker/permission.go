package broker

import (
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum"
)

// accessCache remembers what the user of a channel was allowed, until the permission itself changes. The catalogue changes much more often.
type accessCache struct {
	catalogue  *quorum.Catalogue
	permission *meta.Permission
	patterns   [3]meta.Pattern // by accessIndex, compiled when first wanted
	compiled   [3]bool
	granted    map[grant]bool
}

type grant struct {
	access meta.Access
	name   string
}

// grantsMax bounds an accessCache; a full one starts over.
const grantsMax = 64

func accessIndex(a meta.Access) int {
	switch a {
	case meta.Configure:
		return 0
	case meta.Write:
		return 1
	}
	return 2
}

// may checks that the connection's user has access to a queue or exchange.
func (ch *channel) may(access meta.Access, r resource) error {
	name := r.Name
	if r.Kind == "exchange" {
		name = meta.PermissionName(name)
	}
	if ch.access.allows(ch.c, access, name) {
		return nil
	}
	r.Name = name
	return errRefused(access, r, ch.c.user)
}

func (a *accessCache) allows(c *conn, access meta.Access, name string) bool {
	if cat := c.b.host.Catalogue(); cat != a.catalogue {
		a.catalogue = cat
		if p := cat.View.Permission(c.user, c.vhost); p != a.permission {
			*a = accessCache{catalogue: cat, permission: p}
		}
	}
	if a.permission == nil {
		return false
	}
	if ok, known := a.granted[grant{access, name}]; known {
		return ok
	}
	i := accessIndex(access)
	if !a.compiled[i] {
		// A pattern that does not compile allows nothing. It was refused when the permission was made, so only another release can have let it in.
		a.patterns[i], _ = meta.CompilePattern(a.permission.Pattern(access))
		a.compiled[i] = true
	}
	ok := a.patterns[i].Allows(name)
	if a.granted == nil || len(a.granted) >= grantsMax {
		a.granted = make(map[grant]bool)
	}
	a.granted[grant{access, name}] = ok
	return ok
}
