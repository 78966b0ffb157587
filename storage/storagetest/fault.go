package storagetest

import (
	"errors"
	"fmt"
)

// Kind is a kind of operation.
type Kind int

// The kinds of operations that SetFault sees.
const (
	OpOpen Kind = iota
	OpRename
	OpRemove
	OpMkdir
	OpList
	OpStat
	OpSyncDir
	OpRead
	OpWrite
	OpSync
	OpTruncate
	OpClose
)

// Op is an operation about to be done.
type Op struct {
	// N counts operations from 1 since New or SetFault.
	N int
	// Kind says what it is.
	Kind Kind
	// Name is the file or directory.
	Name string
	// Offset is where a read or write starts, or the size for a truncation.
	Offset int64
	// Bytes is the length of a read or write.
	Bytes int
}

// ErrInjected is the error of FailNth and FailFrom.
var ErrInjected = errors.New("storagetest: injected fault")

// TornWrite as the error of a write lets the first Bytes of it happen.
type TornWrite struct {
	// Bytes is how much is written.
	Bytes int
}

// Error says how much was written.
func (t *TornWrite) Error() string {
	return fmt.Sprintf("storagetest: only %d bytes were written", t.Bytes)
}

// SetFault has fault asked before every operation; an error it returns is the operation's, which does not happen (see TornWrite for writes). It may be
// called concurrently and must not use the file system. nil ends it.
func (m *Mem) SetFault(fault func(Op) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault, m.ops = fault, 0
}

// Ops returns the number of operations since New or SetFault.
func (m *Mem) Ops() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ops
}

// begin counts an operation and asks whether it fails.
func (m *Mem) begin(op Op) error {
	m.mu.Lock()
	m.ops++
	op.N = m.ops
	fault := m.fault
	m.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(op)
}

// FailNth fails the n-th operation only.
func FailNth(n int) func(Op) error {
	return func(op Op) error { return onlyIf(op.N == n, ErrInjected) }
}

// FailFrom fails the n-th operation and all after it.
func FailFrom(n int) func(Op) error {
	return func(op Op) error { return onlyIf(op.N >= n, ErrInjected) }
}
