// Package tlsconf is what the broker knows of TLS: certificate files become the configuration of a listener, and what a handshake learnt becomes RabbitMQ's words.
//
// Hop before: internal/node opens a Store for each set of files that the configuration names; package config holds their Options. Hop after: the listeners of AMQP and HTTP take the Store's present
// configuration for every new connection; package broker asks for the names in a client's certificate.
//
// Invariants:
//   - A Store always has a configuration that works: files that cannot be used leave the one before in force and are told of loudly.
//   - No connection is older or newer than it looks: a configuration is never changed, only replaced, and what lives keeps the one that it began with.
//   - Nothing older than TLS 1.2, and of that only ciphers with forward secrecy and authenticated encryption or Go's own defaults.
//   - A client's certificate counts only if a chain from it to one of the configured authorities was verified in this very handshake: sessions are not resumed where clients are verified.
package tlsconf
