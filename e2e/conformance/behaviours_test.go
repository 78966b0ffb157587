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

// elsewhere has the behaviours that are no exchange of frames, with the test that holds them.
var elsewhere = map[string]string{
	"1.4 exchange.declare: limit":       "TestErrorTexts of package broker: the limit is too large to be reached over AMQP",
	"1.4 queue.delete: protected queue": "no queue is protected",
	"1.4 queue without a leader":        "e2e/cluster TestPartition: a queue whose majority is away answers 404 after a time",
	"9.35 guest from elsewhere":         "TestLoopbackUsers of packages broker and management",
	"9.37 blocked":                      "TestDiskAlarm and TestMemoryAlarm of package limits",
	"9.40 definitions":                  "comes with definitions",
}

// pendings has what cases may wait for, and why.
var pendings = map[string]string{
	"single active": "single active consumers come later",
	"policies":      "policies come later",
	"delay":         "delayed messages come later",
	"timeout":       "consumer timeouts come later",
	"definitions":   "definitions come later",
}
