// Package amqp is the wire of AMQP 0-9-1 with RabbitMQ's extensions: frames, methods, field tables, content properties, reply codes and SASL
// responses. Bytes go in and values come out, and the reverse. It knows the words of the protocol and none of a broker.
//
// The hop before is a socket: broker gives a Reader the bytes of one connection. The hop after is broker again, which dispatches methods to a
// channel, hands headers to exchange for routing, and appends frames to a connection's output. meta keeps arguments as Tables.
//
// # Protocol table
//
// spec/amqp0-9-1.table lists constants, reply codes, classes, methods, fields and properties; spec/gen.go makes the *_gen.go files of it
// (go generate ./amqp). A new method or reply code is a line there.
//
// # Invariants
//
//   - The package is pure: no clock, goroutine, lock, log line or map iteration; io is used by Reader alone.
//   - Whatever the input, decoding ends with a value or an *Error and never panics. It looks at a length before it allocates, and allocates at
//     most a small multiple of the input, which a frame's size bounds; limits.TableDepthMax and limits.TableEntriesMax bound tables.
//   - Decoding is strict as in RabbitMQ: a method that is too short or too long for its fields is 501, as is a short string that is not UTF-8;
//     a malformed table is 502.
//   - What a decoder accepted, appending gives back: decode(append(decode(x))) = decode(x).
//   - Decode of a method copies strings. Types named View, RawTable and RawValue, and a Frame's Payload, alias their input instead; they are
//     for the path of a message, which allocates nothing here.
package amqp

//go:generate go run spec/gen.go -table spec/amqp0-9-1.table -out .
