// Package proxyproto reads the PROXY protocol, versions 1 and 2: the header with which a load balancer says whose connection it passes on.
//
// Hop before: package broker, for a connection that came from an address that may speak for others. Hop after: the bytes behind the header, which are the client's own.
//
// Invariants: not one byte behind the header is read; a header takes no more memory than its fixed buffer, whatever it announces; what is not a header is an error, never a guess.
package proxyproto
