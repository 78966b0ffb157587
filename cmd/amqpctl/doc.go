// Command amqpctl is the command line of the operator: it shows and changes what a broker has, publishes and consumes messages, and measures
// a broker.
//
// It has no private door. Everything goes over the RabbitMQ-compatible management HTTP API (internal/httpapi) and AMQP 0-9-1
// (internal/amqplink, internal/lean), so it works against any broker that offers these. One file holds one noun; the files only read flags,
// call the packages below internal, and print. What nouns share stands once: list.go is every `ls`, with filter.go and watch.go; noun.go has the names in messages,
// the confirmation and dry run of what destroys; complete.go answers the shells' completion from the commands themselves.
//
// Invariants: standard output carries data only and standard error the rest; a failure is one line with the broker's reason and an exit code of
// internal/exit; a flag means the same before and after the arguments (internal/argorder); -o json prints the API's objects unchanged.
package main
