package exchange

import (
	"github.com/warrenmq/warren/internal/cow"
	"github.com/warrenmq/warren/meta"
)

// topicNode is a place in the trie of the patterns of a topic exchange: the patterns that begin with the words on the way to it.
type topicNode struct {
	words cow.Hash[*topicNode]
	// star is the way on by "*" (one word), hash the one by "#" (any number of words, also none).
	star, hash *topicNode
	// end is what the patterns that end here lead to, nil if none does.
	end   *targets
	owner *update
}

// topicWalk is the walk of one routing key through the trie, word by word, at all places at once. A place is entered at most once per word, because
// its parent is; a "#" place stays open for all later words and is opened once, at the earliest word, which covers every later one. So the
// work is bounded by words x places, whatever the patterns are.
type topicWalk struct {
	at, next, open list[*topicNode]
}

func matchTopic[T cow.Text](w *hop, root *topicNode, key T) {
	var s topicWalk
	at, next := &s.at, &s.next
	at.add(root)
	s.openBelow(w, root)
	for more := len(key) > 0; more; {
		if at.len+s.open.len == 0 {
			return
		}
		var word T
		word, key, more = cutWord(key)
		next.clear()
		opened := s.open.len
		for i := range at.len {
			stepTopic(&s, w, at.at(i), word, next)
		}
		for i := range opened {
			stepTopic(&s, w, s.open.at(i), word, next)
		}
		at, next = next, at
	}
	for i := range at.len {
		if n := at.at(i); n.end != nil {
			w.add(n.end)
		}
	}
}

// cutWord takes the first word off a key; more tells whether another one follows, which may be empty.
func cutWord[T cow.Text](key T) (word, rest T, more bool) {
	for i := 0; i < len(key); i++ {
		if key[i] == '.' {
			return key[:i], key[i+1:], true
		}
	}
	return key, key[len(key):], false
}

// stepTopic goes from one place by one word.
func stepTopic[T cow.Text](s *topicWalk, w *hop, n *topicNode, word T, next *list[*topicNode]) {
	if n.words.Len() > 0 {
		if kid, ok := cow.Lookup(n.words, word); ok {
			next.add(kid)
			s.openBelow(w, kid)
		}
	}
	if n.star != nil {
		next.add(n.star)
		s.openBelow(w, n.star)
	}
}

// openBelow opens the "#" place below a place that was entered, and those below it. Patterns that end there match whatever follows.
func (s *topicWalk) openBelow(w *hop, n *topicNode) {
	for n = n.hash; n != nil && !has(&s.open, n); n = n.hash {
		s.open.add(n)
		if n.end != nil {
			w.add(n.end)
		}
	}
}

// ownNode returns a node that may be changed in place.
func (u *update) ownNode(n *topicNode) *topicNode {
	switch {
	case n == nil:
		return &topicNode{owner: u}
	case n.owner == u:
		return n
	}
	c := *n
	c.owner = u
	return &c
}

// withPattern returns the trie with a binding under the rest of its pattern; more tells whether a word is left.
func (u *update) withPattern(n *topicNode, pattern string, more bool, b *meta.Binding) *topicNode {
	n = u.ownNode(n)
	if !more {
		n.end = u.with(n.end, b)
		return n
	}
	word, rest, more := cutWord(pattern)
	switch word {
	case "*":
		n.star = u.withPattern(n.star, rest, more, b)
	case "#":
		n.hash = u.withPattern(n.hash, rest, more, b)
	default:
		old, _ := n.words.Get(word)
		if kid := u.withPattern(old, rest, more, b); kid != old {
			n.words = n.words.Set(word, kid)
		}
	}
	return n
}

// withoutPattern returns the trie without what a binding led to, nil if nothing is left.
func (u *update) withoutPattern(n *topicNode, pattern string, more bool, b *meta.Binding) *topicNode {
	if n == nil {
		return nil
	}
	n = u.ownNode(n)
	if !more {
		n.end = u.without(n.end, b)
	} else {
		word, rest, more := cutWord(pattern)
		switch word {
		case "*":
			n.star = u.withoutPattern(n.star, rest, more, b)
		case "#":
			n.hash = u.withoutPattern(n.hash, rest, more, b)
		default:
			old, _ := n.words.Get(word)
			if kid := u.withoutPattern(old, rest, more, b); kid == nil {
				n.words = n.words.Delete(word)
			} else if kid != old {
				n.words = n.words.Set(word, kid)
			}
		}
	}
	if n.end == nil && n.star == nil && n.hash == nil && n.words.Len() == 0 {
		return nil
	}
	return n
}
