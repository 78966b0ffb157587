package config

import "strings"

// foreign is a key of RabbitMQ that has no row in the table. A name that ends in "." stands for all names that begin with it.
type foreign struct {
	name string
	// reason says why it is not needed, or what is missing.
	reason string
	// only is the value that says what holds here anyway; any other value is refused. Empty with refuse unset: any value is ignored.
	only string
	// refuse makes every value an error, since to ignore it would break a promise.
	refuse bool
}

const (
	noErlang    = "there is no Erlang runtime to tune"
	noMemory    = "memory is what the process has in RAM, measured four times a second"
	fixedTLS    = "what is safe is fixed"
	noLimit     = "this version does not enforce that limit"
	noStats     = "statistics are read when asked for"
	noFormation = "nodes find each other by cluster.join"
	noProtocol  = "this version speaks AMQP 0-9-1 only"
	logsStderr  = "logs go to standard error"
	allRaft     = "every durable queue is a Raft group with its own settings"
)

var foreigners = []foreign{
	{name: "num_acceptors.", reason: "the runtime accepts connections without a pool"},
	{name: "tcp_listen_options.", reason: "socket options are fixed"},
	{name: "socket_writer.", reason: noErlang},
	{name: "vm_memory_high_watermark_paging_ratio", reason: "messages are written to disk anyway"},
	{name: "vm_memory_calculation_strategy", reason: noMemory},
	{name: "memory_monitor_interval", reason: noMemory},
	{name: "cluster_partition_handling", reason: "a queue serves where a majority of its replicas is"},
	{name: "cluster_partition_handling.", reason: "a queue serves where a majority of its replicas is"},
	{name: "cluster_keepalive_interval", reason: noFormation},
	{name: "cluster_formation.", reason: noFormation},
	{name: "queue_index_embed_msgs_below", reason: allRaft},
	{name: "queue_master_locator", reason: noFormation},
	{name: "queue_leader_locator", reason: noFormation},
	{name: "classic_queue.", reason: allRaft},
	{name: "quorum_queue.", reason: allRaft},
	{name: "raft.", reason: allRaft},
	{name: "msg_store_file_size_limit", reason: allRaft},
	{name: "mirroring_sync_batch_size", reason: allRaft},
	{name: "mnesia_table_loading_retry_timeout", reason: noErlang},
	{name: "mnesia_table_loading_retry_limit", reason: noErlang},
	{name: "distribution.", reason: noErlang},
	{name: "erlang.", reason: noErlang},
	{name: "net_ticktime", reason: noErlang},
	{name: "delegate_count", reason: noErlang},
	{name: "background_gc_enabled", reason: noErlang},
	{name: "background_gc_target_interval", reason: noErlang},
	{name: "reverse_dns_lookups", reason: "peers are shown by address"},
	{name: "collect_statistics", reason: noStats},
	{name: "collect_statistics_interval", reason: noStats},
	{name: "management.rates_mode", reason: noStats},
	{name: "management.sample_retention_policies.", reason: noStats},
	{name: "management_agent.", reason: noStats},
	{name: "prometheus.return_per_object_metrics", reason: noStats},
	{name: "deprecated_features.", reason: "features that RabbitMQ deprecates stay usable"},
	{name: "consumer_timeout", reason: "the policy key consumer-timeout sets it, for the queues that it names"},
	{name: "default_queue_type", reason: "a durable queue is a Raft group whatever its type"},
	{name: "log.file", reason: logsStderr},
	{name: "log.file.", reason: logsStderr},
	{name: "log.dir", reason: logsStderr},
	{name: "log.syslog", reason: logsStderr},
	{name: "log.syslog.", reason: logsStderr},
	{name: "log.exchange", reason: logsStderr},
	{name: "log.exchange.", reason: logsStderr},
	{name: "log.connection.level", reason: "log.console.level holds for every category"},
	{name: "log.channel.level", reason: "log.console.level holds for every category"},
	{name: "log.queue.level", reason: "log.console.level holds for every category"},
	{name: "log.default.level", reason: "log.console.level holds for every category"},
	{name: "ssl_options.honor_cipher_order", reason: fixedTLS},
	{name: "ssl_options.honor_ecc_order", reason: fixedTLS},
	{name: "ssl_options.secure_renegotiate", reason: fixedTLS},
	{name: "ssl_options.reuse_sessions", reason: fixedTLS},
	{name: "ssl_options.log_level", reason: fixedTLS},
	{name: "ssl_options.log_alert", reason: fixedTLS},
	{name: "management.ssl.honor_cipher_order", reason: fixedTLS},
	{name: "management.ssl.honor_ecc_order", reason: fixedTLS},
	{name: "management.ssl.secure_renegotiate", reason: fixedTLS},
	{name: "management.ssl.reuse_sessions", reason: fixedTLS},
	{name: "management.ssl.log_level", reason: fixedTLS},
	{name: "management.ssl.log_alert", reason: fixedTLS},
	{name: "prometheus.ssl.honor_cipher_order", reason: fixedTLS},
	{name: "prometheus.ssl.honor_ecc_order", reason: fixedTLS},
	{name: "prometheus.ssl.secure_renegotiate", reason: fixedTLS},
	{name: "prometheus.ssl.reuse_sessions", reason: fixedTLS},
	{name: "prometheus.ssl.log_level", reason: fixedTLS},
	{name: "prometheus.ssl.log_alert", reason: fixedTLS},

	{name: "log.console", reason: logsStderr, only: "true"},
	{name: "log.console.formatter", reason: "log lines are text", only: "plaintext"},
	{name: "ssl_options.client_renegotiation", reason: "clients cannot renegotiate", only: "false"},
	{name: "management.ssl.client_renegotiation", reason: "clients cannot renegotiate", only: "false"},
	{name: "prometheus.ssl.client_renegotiation", reason: "clients cannot renegotiate", only: "false"},
	{name: "auth_backends.1", reason: "users are kept in the broker's own catalogue", only: "internal"},
	{name: "password_hashing_module", reason: "passwords are kept as salted SHA-256", only: "rabbit_password_hashing_sha256"},
	{name: "default_user_tags.administrator", reason: "the first user is an administrator", only: "true"},
	{name: "default_permissions.configure", reason: "the first user has every permission", only: ".*"},
	{name: "default_permissions.read", reason: "the first user has every permission", only: ".*"},
	{name: "default_permissions.write", reason: "the first user has every permission", only: ".*"},
	{name: "prometheus.path", reason: "metrics are served at /metrics", only: "/metrics"},
	{name: "prometheus.authentication.enabled", reason: "metrics need no password", only: "false"},

	{name: "ssl_options.", reason: "this version has no such setting of TLS", refuse: true},
	{name: "management.ssl.", reason: "this version has no such setting of TLS", refuse: true},
	{name: "prometheus.ssl.", reason: "this version has no such setting of TLS", refuse: true},
	{name: "auth_backends.", reason: "users are kept in the broker's own catalogue only", refuse: true},
	{name: "auth_http.", reason: "users are kept in the broker's own catalogue only", refuse: true},
	{name: "auth_ldap.", reason: "users are kept in the broker's own catalogue only", refuse: true},
	{name: "auth_oauth2.", reason: "users are kept in the broker's own catalogue only", refuse: true},
	{name: "auth_cache.", reason: "users are kept in the broker's own catalogue only", refuse: true},
	{name: "credential_validator.", reason: "this version does not check new passwords", refuse: true},
	{name: "default_user_tags.", reason: "the first user has the tag administrator only", refuse: true},
	{name: "default_users.", reason: "this version makes one user only", refuse: true},
	{name: "default_policies.", reason: "policies are made over the HTTP API or with amqpctl", refuse: true},
	{name: "load_definitions", reason: "this version cannot import definitions", refuse: true},
	{name: "management.load_definitions", reason: "this version cannot import definitions", refuse: true},
	{name: "definitions.", reason: "this version cannot import definitions", refuse: true},
	{name: "default_limits.", reason: noLimit, refuse: true},
	{name: "mqtt.", reason: noProtocol, refuse: true},
	{name: "stomp.", reason: noProtocol, refuse: true},
	{name: "stream.", reason: noProtocol, refuse: true},
	{name: "web_mqtt.", reason: noProtocol, refuse: true},
	{name: "web_stomp.", reason: noProtocol, refuse: true},
}

// findForeign returns the entry for a name: an exact one, else the longest prefix.
func findForeign(name string) (*foreign, bool) {
	var best *foreign
	for i := range foreigners {
		f := &foreigners[i]
		switch {
		case f.name == name:
			return f, true
		case strings.HasSuffix(f.name, ".") && strings.HasPrefix(name, f.name) && (best == nil || len(f.name) > len(best.name)):
			best = f
		}
	}
	return best, best != nil
}

// judge says whether a value may be ignored.
func (f *foreign) judge(value string) *problem {
	switch {
	case f.refuse:
		return problemf("remove the setting", "%s", f.reason)
	case f.only != "" && f.only != value:
		return problemf("remove the setting", "%s; only %s = %s is possible", f.reason, f.name, f.only)
	}
	return nil
}
