// Package rawamqp is an AMQP 0-9-1 client that is allowed to misbehave: it writes frames octet by octet, so that a test can send what no library
// sends, and reads frames so that the test sees exactly what the broker answers.
//
// It shares no code with the broker's own package amqp: a mistake there must not hide itself here. The hop before is a test; behind is a socket.
package rawamqp
