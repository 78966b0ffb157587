// Package cluster runs several real nodes as one cluster and kills, stops, cuts and restarts them under confirmed load from clients on every node. What the clients were promised is
// held against what they got (e2e/harness/totalqueue): nothing confirmed is lost, nothing is invented, order per publisher holds, what came before comes again with the flag,
// and at rest the queues' unacknowledged messages are those of the channels.
//
// WARREN_E2E=full runs every order and number that the requirements name; otherwise few of each. The hop before is none; behind are the nodes that e2e/harness runs, with its proxies between
// them where a network is to fail.
package cluster
