package meta

// argHelp says in a sentence what each argument does.
var argHelp = map[string]string{
	"x-expires":                       "The queue is deleted when it was not used for that many milliseconds: not consumed, got from or declared.",
	"x-message-ttl":                   "Messages expire that many milliseconds after they became ready; the least of this and a message's own expiration counts.",
	argDeadLetterExchange:             "Messages that die go to this exchange.",
	argDeadLetterKey:                  "They go with this routing key instead of their own.",
	"x-dead-letter-strategy":          "at-least-once keeps a dead letter until a queue takes it, at-most-once drops one that no queue takes.",
	"x-max-length":                    "How many messages may be ready.",
	"x-max-length-bytes":              "How many bytes the bodies of ready messages may have.",
	"x-max-in-memory-length":          "Of old versions; memory is bounded per node.",
	"x-max-in-memory-bytes":           "Of old versions; memory is bounded per node.",
	"x-max-priority":                  "The highest priority; higher ones count as this one. Without it 31 for quorum queues and none for classic ones.",
	"x-priority-aging-ms":             "A ready message counts as one priority higher for each so many milliseconds since it was enqueued, up to the highest, so that none waits for ever; 0 is never.",
	"x-overflow":                      "What gives way when the queue is full: the oldest message of the lowest priority, the new one, or the new one as a dead letter.",
	"x-single-active-consumer":        "One consumer at a time gets messages.",
	argQueueType:                      "The type of the queue.",
	"x-queue-leader-locator":          "Where the leader begins.",
	"x-quorum-initial-group-size":     "How many replicas the queue begins with.",
	"x-quorum-target-group-size":      "How many replicas it is to have.",
	"x-member-placement-tag":          "Replicas stand on nodes with this tag.",
	"x-delivery-limit":                "How often a message may fail before it dies; negative: as often as it likes. 20 for quorum queues, none for classic ones.",
	"x-delivery-limit-counts":         "What counts as a failure: failures (reject, loss of channel, connection or node) or all returns.",
	"x-delayed-retry-type":            "Which messages wait before they are tried again.",
	"x-delayed-retry-min":             "How many milliseconds a message waits for its first failure. Without it nothing waits, unless there is a schedule.",
	"x-delayed-retry-max":             "How many milliseconds it waits at most.",
	"x-delayed-retry-multiplier":      "The wait grows by this factor with each try; 1 is constant. Without it by the least wait for each failure.",
	"x-delayed-retry-jitter":          "By how many percent a wait may be shorter, by chance.",
	"x-retry-schedule":                "How long each try waits, the last one for all others: milliseconds, or text like 1s,10s,1m. It goes before least, most and multiplier.",
	"x-consumer-timeout":              "A consumer that keeps a delivery for more milliseconds is cancelled, and what is overdue returns. 30 minutes for quorum queues, none for classic ones; 0 is none.",
	"x-consumer-disconnected-timeout": "How long a queue waits for a node that is not attached to it.",
	"x-confirm-replicas":              "Confirms wait for a majority of the replicas, or for all in sync.",
	"x-message-deduplication":         "Messages with the same header x-deduplication-header are taken once.",
	"x-cache-size":                    "How many ids deduplication remembers with x-cache-ttl, and an exchange.",
	"x-cache-ttl":                     "For how many milliseconds it remembers one; without it as long as the message is in the queue.",
	"x-cache-persistence":             "Of the plugin; ids are always in the log.",
	"x-queue-mode":                    "Of old versions; memory is bounded per node.",
	"x-queue-version":                 "Of old versions; there is one storage.",
	"x-queue-master-locator":          "Of old versions; see x-queue-leader-locator.",
	"x-max-age":                       "How long a stream keeps messages.",
	"x-stream-max-segment-size-bytes": "How large a segment of a stream may be.",
	"x-stream-filter-size-bytes":      "How large the filter of a segment is.",
	"x-initial-cluster-size":          "How many replicas a stream begins with.",
	argAlternateExchange:              "Messages that the exchange leads nowhere go to this exchange.",
	"x-priority":                      "Consumers of a higher priority get messages first.",
	"x-cancel-on-ha-failover":         "Of old versions; consumers outlive changes of the leader.",
	"x-stream-offset":                 "Where in a stream the consumer begins.",
	"x-stream-filter":                 "Which messages of a stream it wants.",
	"x-stream-match-unfiltered":       "Whether it wants messages without a filter value, too.",
}

// Help says in a sentence what the argument does.
func (a *Arg) Help() string { return argHelp[a.Name] }

// scopeWords name the scopes of arguments.
var scopeWords = [...]struct {
	scope ArgScope
	word  string
}{{QueueScope, "queue"}, {StreamScope, "stream"}, {ConsumerScope, "consumer"}, {StreamConsumerScope, "stream consumer"}, {ExchangeScope, "exchange"}}

// Scopes names what the argument belongs to.
func (a *Arg) Scopes() (words []string) {
	for _, s := range scopeWords {
		if a.Scope&s.scope != 0 {
			words = append(words, s.word)
		}
	}
	return words
}

// String names a kind for the API and the documentation.
func (k ArgKind) String() string {
	switch k {
	case IntArg:
		return "integer"
	case MillisArg:
		return "milliseconds"
	case BoolArg:
		return "boolean"
	case LooseBoolArg:
		return "boolean, 0, 1, true or false"
	case TextArg:
		return "string"
	case WordArg:
		return "word"
	case AgeArg:
		return "age"
	case LooseIntArg:
		return "integer, or its digits"
	case ScheduleArg:
		return "list of milliseconds, or text like 1s,10s,1m"
	}
	return "any"
}

// String says which value counts where argument and policy differ.
func (m Merge) String() string {
	switch m {
	case PolicyWins:
		return "policy"
	case PolicyWinsOnQuorum:
		return "policy on quorum queues, argument on classic ones"
	case LeastWins:
		return "lower"
	case GreatestWins:
		return "higher"
	case LeastLimitWins:
		return "lower limit"
	}
	return "argument"
}

// State says whether the argument has an effect in this release: served, not served (it is checked, kept and shown) or ignored.
func (a *Arg) State() string {
	switch {
	case a.Ignored:
		return "ignored"
	case !a.Served:
		return "not served"
	}
	return "served"
}

// Choices are the words that a WordArg takes, but for those that stand for none.
func (a *Arg) Choices() []string {
	var words []string
	for _, w := range a.Words {
		if w != "" && w != "undefined" {
			words = append(words, w)
		}
	}
	return words
}
