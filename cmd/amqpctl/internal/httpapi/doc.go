// Package httpapi is a small client of the RabbitMQ-compatible management HTTP API.
//
// The commands stand before it, a broker's /api behind it. It knows paths, authentication, errors and paging, and leaves the objects as the
// broker sent them: they are passed on unchanged with -o json, and read with dotted names otherwise.
// Invariants: every path segment reaches the server exactly as url.PathEscape makes it (the default virtual host is %2F); an answer is read
// up to a named limit; an error carries the reason text of the broker.
package httpapi
