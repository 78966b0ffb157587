package meta

import (
	"iter"
	"regexp"
	"strings"
)

// TopicPermission returns what bounds the routing keys that the user may use with an exchange, nil if nothing does.
func (v *View) TopicPermission(user, vhostName, exchange string) *TopicPermission {
	h, ok := v.vhosts.Get(vhostName)
	if !ok || h.topics.Len() == 0 {
		return nil
	}
	p, _ := h.topics.Get(topicKey(user, exchange))
	return p
}

// TopicPermissions yields the topic permissions in a virtual host by user and exchange.
func (v *View) TopicPermissions(vhostName string) iter.Seq[*TopicPermission] {
	h, ok := v.vhosts.Get(vhostName)
	if !ok {
		return none[*TopicPermission]
	}
	return valuesOf(h.topics.All())
}

// TopicPermissionsOf yields the topic permissions of a user by virtual host and exchange.
func (v *View) TopicPermissionsOf(user string) iter.Seq[*TopicPermission] {
	return func(yield func(*TopicPermission) bool) {
		for _, h := range v.vhosts.All() {
			for _, p := range withPrefix(h.topics, topicPrefix(user)) {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// Pattern returns the regular expression of one access, Write or Read, with the names of user and virtual host put in for the variables. They are put in as
// text, not as regular expressions: a name must not widen what it is allowed.
func (p *TopicPermission) Pattern(a Access) string {
	pattern := p.Read
	if a == Write {
		pattern = p.Write
	}
	return expandTopic(pattern, p.User, p.VHost)
}

func expandTopic(pattern, user, vhostName string) string {
	if !strings.Contains(pattern, "{") {
		return pattern
	}
	return strings.NewReplacer("{username}", regexp.QuoteMeta(user), "{vhost}", regexp.QuoteMeta(vhostName)).Replace(pattern)
}

// topicKey orders topic permissions by user and exchange.
func topicKey(user, exchange string) string { return topicPrefix(user) + exchange }

func topicPrefix(user string) string { return string(appendPart(nil, user)) }

// topicKeys lists the keys of a user's topic permissions in a virtual host.
func topicKeys(h *vhost, user string) (keys []string) {
	for key := range withPrefix(h.topics, topicPrefix(user)) {
		keys = append(keys, key)
	}
	return keys
}

func (m *Machine) putTopicPermission(in *TopicPermission) Reply {
	if m.v.User(in.User) == nil {
		return Reply{Reason: ReasonNoUser}
	}
	h, ok := m.v.vhosts.Get(in.VHost)
	if !ok {
		return Reply{Reason: ReasonNoVHost}
	}
	p, key := *in, topicKey(in.User, in.Exchange)
	_, existed := h.topics.Get(key)
	if !existed && h.topics.Len() >= TopicPermissionsMax {
		return limit("topic_permissions", TopicPermissionsMax)
	}
	next := *h
	next.topics = h.topics.Set(key, &p)
	m.setVHost(&next)
	m.emit(Effect{Kind: PermissionChanged, User: p.User, VHost: p.VHost})
	return Reply{Existed: existed}
}

func (m *Machine) deleteTopicPermission(p *TopicPermission) Reply {
	h, ok := m.v.vhosts.Get(p.VHost)
	if !ok {
		return Reply{}
	}
	keys := []string{topicKey(p.User, p.Exchange)}
	if p.Exchange == "" {
		keys = topicKeys(h, p.User)
	}
	next := *h
	for _, key := range keys {
		next.topics = next.topics.Delete(key)
	}
	removed := h.topics.Len() - next.topics.Len()
	if removed > 0 {
		m.setVHost(&next)
		m.emit(Effect{Kind: PermissionChanged, User: p.User, VHost: p.VHost})
	}
	return Reply{Existed: removed > 0, Count: uint64(removed)}
}
