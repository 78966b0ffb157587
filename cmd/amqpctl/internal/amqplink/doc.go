// Package amqplink knows where an AMQP broker is: it derives, checks and takes apart AMQP URLs.
//
// The commands stand before it, internal/lean, which opens the connection, behind it. Invariant: no error text holds the password of a URL.
package amqplink
