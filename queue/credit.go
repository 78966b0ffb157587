package queue

// A channel-wide prefetch over several queues is the sum of what each of them may have outstanding: the session's limit here. A limit, other than a number of tokens that are used up, lets an acknowledgement
// make room for the next message without a word from the channel, so that one queue alone works as with a prefetch of its own. The channel moves its parts between queues with OpCredit; that it has to, a session
// learns by KindReady, once, until its next OpCredit: what is told on every change of a queue would be told to every channel for every message.

// credit carries out OpCredit.
func (m *Machine) credit(p *pipeline, cmd *Command, out []Effect) (Reply, []Effect) {
	s := p.session(cmd.Session)
	if s == nil {
		return Reply{}, out
	}
	s.limit = cmd.Limit
	if mutant != mutantMarkStays {
		m.roster.mark(s, false)
	}
	m.roster.placeAll(s)
	out = m.distribute(out)
	reply := Reply{A: uint64(s.unsettled)}
	if s.isHungry() && m.ready.sums.n > 0 {
		m.roster.mark(s, true)
		reply.B = m.ready.sums.n
	}
	return reply, out
}

// tellHungry tells the sessions that want more that messages are ready, those of lower nodes first. It is called where there are both.
func (m *Machine) tellHungry(out []Effect) []Effect {
	for _, p := range m.pipelines {
		for _, s := range p.sessions {
			if s.isHungry() {
				m.roster.mark(s, true)
				out = append(out, Effect{
					Kind: KindReady, Node: p.id.Node, BootCounter: p.id.Boot.Counter, Session: s.id, Ready: uint32(min(m.ready.sums.n, 1<<32-1)),
				})
			}
		}
	}
	return out
}
