// Package table prints rows as aligned columns without borders, and objects as aligned name and value lines.
//
// The commands fill it from answers of the HTTP API, behind it is only standard output. Invariants: nothing is cut unless a width is given
// (that is, on a terminal); cells cannot carry control characters to the terminal; numbers are right-aligned; lines have no trailing blanks.
package table
