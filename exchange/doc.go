// Package exchange routes: it compiles the bindings of a meta.View into a Router and finds the queues of a message.
//
// A Router is immutable. The shell holds the present one behind a pointer and swaps it whole when the catalogue changed: Update makes the next one
// from the differences between two Views and shares everything else, so binding the n-th queue costs as much as binding the first. Routing takes no lock and, but for
// topic patterns in unusual numbers, allocates nothing.
//
// Types that lead a message to one destination of several ask the Node for chance and place; all else depends on the View and the message alone, so that every node
// routes alike.
//
// What an x-recent-history exchange keeps goes to its history (meta/history.go). Histories are told apart from queues, for they make nothing routable.
//
// Hop before: broker took exchange and routing key off a basic.publish and checked the permission. Hop after: broker enqueues in the queues whose ids it got.
//
// Invariants: each queue stands at most once in a result, in ascending order of ids; exchange-to-exchange bindings may form cycles, an exchange is passed once per
// message; a Router made by Update routes as one made by Compile from the same View.
package exchange
