package management

import (
	"net/http"

	"github.com/warrenmq/warren/meta"
)

// What tools ask about RabbitMQ's features and extensions.

// emptyList answers a list of what does not exist here.
func emptyList(c *call) error {
	w := c.answer(http.StatusOK)
	w.EmptyArray("")
	w.finish()
	return nil
}

// listArguments is GET /arguments: the table of arguments and policy keys.
func listArguments(c *call) error {
	return list(c, meta.ArgTable(), func(a meta.Arg) string { return a.Name }, func(w *writer, a meta.Arg) {
		w.Str("name", a.Name)
		writeName(w, "policy_key", a.PolicyKey)
		w.Strings("applies_to", a.Scopes())
		w.Str("type", a.Kind.String())
		w.Strings("choices", a.Choices())
		w.Str("merge", a.Merge.String())
		w.Bool("operator", a.Operator)
		w.Str("state", a.State())
		w.Str("description", a.Help())
	})
}

// features are the feature flags of RabbitMQ 4.x on which tools make themselves dependent.
var features = [...]string{
	"classic_mirrored_queue_version", "classic_queue_type_delivery_support", "detailed_queues_endpoint", "direct_exchange_routing_v2", "drop_unroutable_metric", "empty_basic_get_metric",
	"feature_flags_v2", "implicit_default_bindings", "listener_records_in_ets", "maintenance_mode_status", "message_containers", "quorum_queue", "quorum_queue_non_voters",
	"rabbitmq_4.0.0", "restart_streams", "stream_filtering", "stream_queue", "stream_sac_coordinator_unblock_group", "stream_single_active_consumer",
	"stream_update_config_command", "tracking_records_in_ets", "user_limits", "virtual_host_metadata",
}

// featureFlags is GET /feature-flags.
func featureFlags(c *call) error {
	return list(c, features[:], func(name string) string { return name }, func(w *writer, name string) {
		w.Str("name", name)
		w.Str("desc", "")
		w.Str("doc_url", "")
		w.Str("state", "enabled")
		w.Str("stability", "required")
		w.Str("provided_by", "rabbit")
	})
}

// authSettings is GET /auth: there is no way to log in but with a password.
func authSettings(c *call) error {
	return c.object(http.StatusOK, func(w *writer) {
		w.Bool("oauth_enabled", false)
		w.Bool("oauth_disable_basic_auth", false)
		w.Bool("enable_uaa", false)
		w.Str("uaa_client_id", "")
		w.Str("uaa_location", "")
	})
}
