// Package script runs the script tests of the pure packages: text files in which a story is told by commands and what they answer.
//
// A file is a list of blocks, parted by blank lines:
//
//	# Comments tell the story; they may stand before or inside the input.
//	put vhost a
//	declare queue a q1 durable
//	----
//	ok existed=false
//	queue 1024 created
//
// Input lines go to the package under test as one block; what it answers is compared with the lines below "----". `go test -rewrite` writes the
// answers into the file instead: read the change before committing it. Nothing outside tests imports this package.
package script
