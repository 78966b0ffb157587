// Package invariant marks the places that only a bug can reach.
//
// A pure machine that finds itself in an impossible state calls Failf. The shell that runs the machine recovers the Violation, stops that one
// group (never the process) and shows the queue as down with the reason: see quorum.
package invariant

import "fmt"

// Violation is the value that Failf panics with; the runner of a machine recovers it.
type Violation struct {
	// Reason says in one line which invariant is broken.
	Reason string
}

// Error makes a Violation usable where an error is wanted.
func (v *Violation) Error() string { return "invariant violated: " + v.Reason }

// Failf reports a bug: it panics with a *Violation.
func Failf(format string, args ...any) {
	panic(&Violation{Reason: fmt.Sprintf(format, args...)})
}

// Check calls Failf when ok is false.
func Check(ok bool, format string, args ...any) {
	if !ok {
		Failf(format, args...)
	}
}
