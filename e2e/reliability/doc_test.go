// Package reliability kills brokers with SIGKILL at random moments under confirmed load and holds what is there afterwards against what the clients
// were promised (e2e/harness/totalqueue): nothing confirmed is lost, nothing is invented, order is kept, what came before comes again with the flag.
//
// WARREN_E2E_KILLS is the number of kills (default 20, 200 with WARREN_E2E=full), WARREN_E2E_SEED repeats the moments and sizes of a run; the schedule of the machine is not
// repeated. The hop before is none; behind is the broker that e2e/harness runs.
package reliability
