package quorumtest

import (
	"github.com/warrenmq/warren/queue"
)

// transaction is messages of a publisher that come into the queue together or not at all. Its fields but n are the Books'.
type transaction struct {
	n       queue.TxNumber
	entries []*entry
	// committing says that a commit was submitted: from then on the messages may be delivered. refused says that the answer was that none of them will.
	committing, refused bool
}

// tokenTransaction marks the token of a commit; below it is the number of the transaction.
const tokenTransaction = 1 << 32

// Stage begins a transaction with n messages of some bytes and does not wait. Nobody may get them before Commit; a transaction that is not committed is given up by the next one.
func (p *Publisher) Stage(n, bytes int) {
	p.Abandon()
	p.mu.Lock()
	p.transactions++
	p.staged = &transaction{n: queue.TxNumber(p.transactions)}
	p.mu.Unlock()
	p.StageMore(n, bytes)
}

// StageMore adds messages to the transaction that Stage began.
func (p *Publisher) StageMore(n, bytes int) {
	for range n {
		p.mu.Lock()
		t := p.staged
		p.sent++
		id := messageID{p.id, p.sent}
		p.mu.Unlock()
		p.c.Books.stages(id, t)
		env := id.envelope(bytes)
		cmd := queue.Command{Op: queue.OpTxEnqueue, Tx: t.n, Flags: queue.FlagPersistent, BodyBytes: uint32(len(env)), Envelope: env}
		if p.session.Submit(p.id.queue, &cmd, 0) != nil {
			break // its commit fails, too: it counts one more than there are
		}
	}
	p.session.Flush()
}

// Commit commits what is staged and does not wait.
func (p *Publisher) Commit() {
	p.mu.Lock()
	t := p.staged
	p.staged = nil
	p.open[uint32(t.n)] = t
	p.mu.Unlock()
	p.c.Books.commits(t)
	cmd := queue.Command{Op: queue.OpTxCommit, Tx: t.n, To: uint64(len(t.entries))}
	if p.session.Submit(p.id.queue, &cmd, tokenTransaction|uint64(t.n)) != nil {
		p.mu.Lock()
		p.committed(uint32(t.n), queue.CodeStale) // nobody hears of it
		p.mu.Unlock()
		return
	}
	p.session.Flush()
}

// Abandon gives up what is staged, without a word to the queue.
func (p *Publisher) Abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.staged != nil {
		p.answered += uint32(len(p.staged.entries))
		p.staged = nil
	}
}

// committed takes the answer to a commit. Called with p.mu held.
func (p *Publisher) committed(n uint32, code queue.Code) (messages int) {
	t := p.open[n]
	if t == nil {
		p.c.Books.violate("an answer (%d) to commit %d of publisher %d, which was not asked or was answered", code, n, p.id.no)
		return 0
	}
	delete(p.open, n)
	p.c.Books.commitAnswered(t, code)
	p.answered += uint32(len(t.entries))
	return len(t.entries)
}

// stages notes a message of a transaction before it is submitted.
func (b *Books) stages(id messageID, t *transaction) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := &entry{id: id, tx: t}
	b.messages[id] = e
	t.entries = append(t.entries, e)
	b.published++
}

// commits notes that a transaction is about to be committed.
func (b *Books) commits(t *transaction) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.committing = true
}

// commitAnswered notes the answer to a commit.
func (b *Books) commitAnswered(t *transaction, code queue.Code) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answered += len(t.entries)
	for _, e := range t.entries {
		e.answered, e.confirmed = true, code == queue.CodeOK
	}
	switch code {
	case queue.CodeOK:
		b.confirmed += len(t.entries)
	case queue.CodeStale, queue.CodeRejected, queue.CodeNotOutstanding:
		t.refused = true
	case queue.CodeUnavailable, queue.CodeGone:
	default:
		b.violateLocked("the commit of %v was answered with code %d", t.entries[0].id, code)
	}
}

// checkWhole holds a transaction whose queue is empty now to all or nothing. Called with b.mu held.
func (b *Books) checkWhole(t *transaction) {
	came := 0
	for _, e := range t.entries {
		if e.seq != 0 {
			came++
		}
	}
	switch {
	case came > 0 && came < len(t.entries):
		b.violateLocked("%d of the %d messages of a transaction came, the first is %v", came, len(t.entries), t.entries[0].id)
	case came > 0 && t.refused:
		b.violateLocked("a transaction that was refused came, the first of its %d messages is %v", came, t.entries[0].id)
	}
}
