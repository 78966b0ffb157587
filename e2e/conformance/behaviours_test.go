package conformance

import (
	"os"
	"strings"
)

// behaviours reads the list of what must have a case.
func behaviours() (rows []string) {
	data, err := os.ReadFile("testdata/behaviours.txt")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			rows = append(rows, line)
		}
	}
	return rows
}

// elsewhere has the behaviours that are held by tests of other packages, each "PACKAGE TEST". The reason why they are not here stands beside.
var elsewhere = map[string][]string{
	// The limit is too large to be reached over AMQP.
	"1.4 exchange.declare: limit": {"broker TestErrorTexts"},
	// No queue is protected.
	"1.4 queue.delete: protected queue": nil,
	// It takes a queue that does not answer.
	"1.4 queue without a leader": {"broker TestStartingQueue"},
	// Tests know the loopback interface only.
	"9.35 guest from elsewhere": {"broker TestLoopbackUsers", "management TestFailedLoginsSayLittle"},
	// It takes a broker with other settings.
	"9.37 blocked": {"e2e/limits TestDiskAlarm", "broker TestAlarmBlocksPublishers"},
	// Definitions come later.
	"9.40 definitions": nil,
}

// pendings has what cases may wait for, and why.
var pendings = map[string]string{}
