// Package argorder puts a command line into the order that the flag parser of urfave/cli v2 understands.
//
// That parser stops at the first word that is not a flag, so `queue purge orders --dry-run` would purge with --dry-run taken for a second
// queue. Reorder therefore walks the tree of commands itself, moves every flag behind the command that owns it, keeps the value with a flag
// that takes one, and refuses what no command knows. Before it stands os.Args, behind it cli.App.Run.
// Invariants: a word after `--` is never a flag; the order of the words is kept; nothing is dropped.
package argorder
