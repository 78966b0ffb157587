// Package progress shows on standard error how far a long command is: a line that is painted over on a terminal, a new line now and then
// elsewhere. The publish command starts it; it only reads a counter of the command.
package progress
