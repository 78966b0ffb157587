// Package ui holds the built files of the web UI, compiled into the broker.
//
// The app is built by npm into dist; the only committed file there is a placeholder, so that `go build` needs no npm. Whether a real app is
// present shows in dist/index.html.
//
// Hop before: the app's own build. Hop after: management serves FS.
package ui

import "embed"

// FS has the files below "dist". Without a built app that is dist/placeholder.html alone.
//
//go:embed all:dist
var FS embed.FS
