// Package ui shows the web UI to a real browser: the built app out of a real broker with traffic, driven by playwright-core in Chromium. What is done and wanted in the browser stands in
// management-ui/test/browser; this package is the stage.
//
// The hop before is none; behind is the broker that e2e/harness runs.
package ui
