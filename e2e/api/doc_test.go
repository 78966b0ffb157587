// Package api tests what the management API shows of a broker that works: looks at queues beside consumers, names that are made to break something, lists of ten thousand queues under load.
//
// The hop before is none; behind are the brokers and clusters that e2e/harness runs.
package api
