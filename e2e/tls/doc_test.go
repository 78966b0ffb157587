// Package tls has clients arrive at a broker in every way but the plain one: over TLS, with a certificate as login, through a proxy; and those that do it wrong.
//
// The hop before is none; behind is the broker that e2e/harness runs, with certificates that tlstest makes for each test.
package tls
