// Package terminal answers what amqpctl must know of a file it reads or writes: whether a person sits behind it, how wide the screen is,
// and whether colour is wanted. It is a leaf; the commands ask it before they print, prompt or show progress.
package terminal
