// Package config turns defaults, a configuration file, the environment and command-line flags into one typed Config.
//
// There is one table of keys (table.go). Everything else follows from it: what the file, WARREN_ variables, --set and the short flags may
// name, how a value is read, its default, what `Effective` lists and what docs/configuration.md says. A key carries RabbitMQ's name where
// RabbitMQ has the setting, and the file has the syntax of rabbitmq.conf, so that an existing file starts the broker.
//
// Invariants:
//   - Later sources win: defaults < file < environment < flags. Within one source the last assignment of a key wins.
//   - A key stands in the table only while something reads it. A key of RabbitMQ that does nothing here is listed in foreign.go with the reason:
//     ignored and reported when ignoring it changes no promise, refused when it would (TLS, authentication, definitions).
//   - No value is guessed. A key or value that is not understood is an Error that names file, line and key and says the way out.
//   - Secrets never leave by Effective, an Error or a log line.
//
// Hop before: cmd/warren collects Sources. Hop after: internal/node hands the parts of Config to storage, quorum, broker and management, none of
// which reads a file, a variable or a flag by itself. Values in Config never reach a replicated machine except by a command.
package config
