package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// bounds are the limits that clients meet: by which names an operator or a reader finds each, and which tests show what happens at it. A test stands as the directory of its package and its name.
var bounds = []struct {
	what  string
	names []string // constants, and keys in the table of package config
	tests []string
}{
	{"time for the protocol header and the handshake", []string{"HeaderTimeoutMillis", "HandshakeTimeoutMillis", "handshake_timeout"}, []string{"broker TestHandshakeTimeouts", "e2e/limits TestSlowClientsAreCut"}},
	{"time for the TLS handshake", []string{"TLSHandshakeTimeoutMillis", "ssl_handshake_timeout"}, []string{"broker TestHandshakeOfTLS"}},
	{"frame before connection.tune-ok: 501", []string{"UntunedFrameBytesMax", "initial_frame_max"}, []string{"broker TestFrameTooLargeBeforeTune", "e2e/limits TestBadInput"}},
	{"frame: 501", []string{"FrameBytesMax", "FrameBytesMin", "frame_max"}, []string{"amqp TestFrameSizeLimit", "broker TestConnectionErrors", "broker TestHandshakeErrors"}},
	{"connections without a login", []string{"UnauthenticatedConnectionsMax"}, []string{"broker TestUnauthenticatedConnectionsMax", "e2e/limits TestHalfOpenSocketsAreSmall"}},
	{"connections per second and per address", []string{"connection_max_per_second", "connection_max_per_address"}, []string{"broker TestConnectionsPerSecond", "broker TestConnectionsPerAddress"}},
	{"failed logins", []string{"LoginFailuresFree", "LoginDelayMillisMax"}, []string{"broker TestGuessing", "management TestWrongPasswordsWait"}},
	{"connections of a node: 530", []string{"OwnFilesShare", "connection_max"}, []string{"broker TestConnectionMax", "internal/node TestConnectionMax"}},
	{"connections of a user or virtual host: 530", nil, []string{"broker TestConnectionLimits", "e2e/conformance TestLimits"}},
	{"channels of a connection: 530", []string{"ChannelMax", "channel_max"}, []string{"broker TestAllChannelsUsed", "e2e/limits TestBadInput"}},
	{"channels of a node: 530", []string{"channel_max_per_node"}, []string{"broker TestChannelsPerNodeMax"}},
	{"consumers of a channel: 530", []string{"ConsumersPerChannelMax", "consumer_max_per_channel"}, []string{"broker TestConsumersPerChannelMax", "broker TestConsumeErrors"}},
	{"body: 406 at the content header, 501 beyond what a message can have", []string{"BodyBytesMax", "max_message_size"}, []string{"broker TestAnnouncedBodies", "e2e/limits TestMessageTooLarge"}},
	{"bodies that have begun: 506", []string{"InflightBodyBytesMax"}, []string{"broker TestUnfinishedBodiesAreBounded"}},
	{"time for a started frame and for a write", []string{"FrameStallMillis"}, []string{"broker TestHalfSentFrame", "broker TestSlowConsumerIsBounded"}},
	{"silence of a client", []string{"HeartbeatSeconds", "heartbeat"}, []string{"broker TestHeartbeats", "broker TestNoHeartbeats"}},
	{"field table: 502", []string{"TableDepthMax", "TableEntriesMax", "DecimalScaleMax"}, []string{"amqp TestTableLimits", "amqp TestAnnouncedLengthsDoNotAllocate"}},
	{"deaths that a message remembers", []string{"DeathsMax"}, []string{"message TestDeathsAreBounded"}},
	{"names", []string{"ShortStringBytesMax"}, []string{"meta TestLengthsAreChecked"}},
	{"unacknowledged bytes of a channel", []string{"ChannelUnackedPercent", "ChannelUnackedBytesMin"}, []string{"broker TestUnackedBytesAreBounded", "internal/node TestUnackedMax", "e2e/limits TestUnackedBytes"}},
	{"deliveries on their way to a connection", []string{"ConnectionWindowBytes"}, []string{"broker TestWindowsShareTheBudget", "broker TestSlowConsumerIsBounded"}},
	{"publishes without an answer", []string{"UnconfirmedBytesMax", "UnconfirmedPublishesMax"}, []string{"broker TestPublishersAreHeldBack", "broker TestUnconfirmedPublishesMax"}},
	{"publishes without an answer and windows of deliveries, of all connections", []string{"PublishPercent", "PublishBytesMin", "PublishReserveBytes", "WindowPercent", "WindowBytesMin"}, []string{"broker TestConnectionsShareThePublishBudget", "broker TestLongBodiesWaitForMemory", "broker TestConsumersShareTheWindowBudget", "internal/alarm TestBudgetFits", "e2e/limits TestMemoryIsBounded"}},
	{"bodies in memory", []string{"BodiesPercent", "BodiesBytesMin", "BodiesExcessBytes"}, []string{"quorum TestManySmallQueuesLeaveMemory", "e2e/limits TestMemoryIsBounded"}},
	{"transaction: 406", []string{"TxBytesMax", "TxCommandsMax"}, []string{"broker TestTxLimits"}},
	{"bindings of a queue, or to an exchange: 406", []string{"BindingsPerDestinationMax"}, []string{"quorum TestBindingsPerDestination", "meta TestBindingsAreCounted", "broker TestErrorTexts"}},
	{"queues that a publish reaches: 506", []string{"TargetsPerPublishMax"}, []string{"broker TestErrorTexts"}},
	{"words of a binding key: 406", []string{"TopicWordsMax"}, []string{"quorum TestCeilings", "exchange TestHashPatternsDoNotExplode"}},
	{"queues, exchanges and virtual hosts of the cluster: 406", []string{"cluster_queue_limit", "cluster_exchange_limit", "vhost_max"}, []string{"quorum TestCeilings", "broker TestErrorTexts", "e2e/conformance TestLimits"}},
	{"other things of the catalogue", nil, []string{"meta TestLimitsOfTheCatalogue"}},
	{"patterns of permissions", nil, []string{"meta TestPatterns"}},
	{"header of an HTTP request: 431", []string{"HTTPHeaderBytesMax", "HTTPReadTimeoutMillis", "HTTPIdleTimeoutMillis"}, []string{"management TestServerLimits"}},
	{"body of an HTTP request: 413, compressed 415", []string{"HTTPBodyBytesMax"}, []string{"management TestBodyLimit", "management TestCompressedRequestsAreRefused"}},
	{"HTTP requests for lists and messages: 503", []string{"HTTPHeavyMax"}, []string{"management TestHeavyRequests"}},
	{"page of a list: 400", []string{"PageItemsMax"}, []string{"management TestPageSizeLimit"}},
	{"samples of a request: 400", []string{"SamplesMax"}, []string{"management TestSamplesOfEverything"}},
	{"messages of a look", []string{"PeekMessagesMax", "PeekBytesMax"}, []string{"management TestPeekIsBounded"}},
	{"memory and disk space", []string{"MemoryHighPercent", "vm_memory_high_watermark.relative", "DiskFreeBytes", "disk_free_limit.absolute", "DiskFloorBytes"}, []string{"broker TestAlarmBlocksPublishers", "broker TestDiskFloorNacks", "e2e/limits TestDiskAlarm"}},
}

// TestEveryBoundHasATest: each bound exists under its names, and so do the tests that show it.
func TestEveryBoundHasATest(t *testing.T) {
	constants, keys := source(t, "limits", false), source(t, ".", false)
	tests := make(map[string]string)
	for _, b := range bounds {
		for _, name := range b.names {
			constant := regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(name) + ` +=`)
			if !constant.MatchString(constants) && !strings.Contains(keys, `Name: "`+name+`"`) {
				t.Errorf("%s: %s is neither a constant nor a key", b.what, name)
			}
		}
		for _, test := range b.tests {
			dir, name, _ := strings.Cut(test, " ")
			if tests[dir] == "" {
				tests[dir] = source(t, filepath.Join("..", dir), true)
			}
			if !strings.Contains(tests[dir], "\nfunc "+name+"(") {
				t.Errorf("%s: there is no test %s in %s", b.what, name, dir)
			}
		}
	}
}

// source is the text of a package, or of its tests.
func source(t *testing.T, dir string, tests bool) string {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") == tests {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(b)
		}
	}
	return text.String()
}
