// Package alarm decides when a node is short of memory or disk space, so that publishers are held back before it fails.
//
// Judge is the decision, without clock or files; Monitor asks the platform four times a second and tells what became of it. A node judges itself alone: quorum tells the others, and
// broker blocks publishers while any node that is up has an alarm.
//
// Invariants: an alarm that is raised is not taken back before there is some room (clearMargin), so that it does not flap; garbage alone raises none, nor does the page cache.
//
// Hop before: internal/node, which starts a Monitor, and management, which sets its thresholds. Hop after: quorum, which spreads the Set.
package alarm
