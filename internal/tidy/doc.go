// Package tidy holds the rules of the repository as tests, so that plain `go test ./...` enforces them without a network and without a linter.
//
// A rule is a function from the tree of committed files to findings (rules.go lists them all). Each is itself tested by a planted file that it
// must find (planted_test.go); a rule without one fails the tests. To add a rule: a function, a row in Rules, a planted case.
//
// lattice.txt is the policy on imports. It is the data of a rule: change it when the design changes, not to make a build pass.
//
// Invariants: a rule reads the tree and nothing else; findings come in the order of the files; a rule that cannot judge says so as a finding
// and never stays silent.
//
// Hop before: `go test`. Hop after: none; nothing imports this package.
package tidy
