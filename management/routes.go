package management

import (
	"net/http"
	"strings"
)

const (
	get  = http.MethodGet
	put  = http.MethodPut
	post = http.MethodPost
	del  = http.MethodDelete
)

// access says who may call an operation; handlers check what depends on the object.
type access uint8

const (
	// managers are all who may use the API.
	managers access = iota
	// monitors see the whole cluster.
	monitors
	// administrators change it.
	administrators
	// anybody needs no login.
	anybody
)

// takes says which of the usual query parameters an operation has.
type takes uint8

const (
	// columned: the answer may be cut down to columns; every list is.
	columned takes = 1 << iota
	// paged: a list that can be sorted, filtered and cut into pages.
	paged
	// charted: numbers come with samples.
	charted
	// plain: the numbers of queues may be left out.
	plain
	// local: a change of this node alone, which needs not to know what others were told.
	local
)

// operation is one method of one path: what the router, the checks before a handler, and the OpenAPI document are made of.
type operation struct {
	method, path string // the path without /api; {name} is a segment
	access       access
	handle       handler
	summary      string
	takes        takes
	// query and body are parameters and the fields of the request's object: "name type, ...", with ! behind a name that must be there.
	query, body string
	// status is the answer's, if it is not 200 of GET, 201 or 204 of PUT, 204 of DELETE and POST.
	status int
}

// isHeavy tells whether an answer may be large, or takes messages.
func (op *operation) isHeavy() bool {
	return op.takes&paged != 0 || strings.HasSuffix(op.path, "/get") || strings.HasSuffix(op.path, "/peek") || strings.HasSuffix(op.path, "/unacked") || strings.HasSuffix(op.path, "/delayed")
}

// trusts tells whether the operation changes what others may have been told of: the node must know all of that.
func (op *operation) trusts() bool {
	return op.method != get && op.access != anybody && op.takes&local == 0
}

// operations is the list of all.
var operations = []operation{
	{get, "openapi.json", anybody, openAPI, "This document", 0, "", "", 0},
	{post, "login", anybody, login, "Begins a session: a cookie, and a token that changes by cookie must show in the header X-CSRF-Token", 0, "", "username! string, password! string", 200},
	{del, "login", anybody, logout, "Ends the session of the cookie", 0, "", "", 0},
	{get, "auth", anybody, authSettings, "How one may log in", 0, "", "", 0},
	{get, "auth/hash_password/{password}", managers, hashPassword, "A hash that PUT /users takes", 0, "", "", 0},
	{get, "auth/attempts/{node}", monitors, listAttempts, "Logins at a node by protocol", paged, "", "", 0},
	{del, "auth/attempts/{node}", monitors, resetAttempts, "Begins to count the logins at a node anew", local, "", "", 0},
	{get, "auth/attempts/{node}/source", monitors, listAttemptSources, "Logins at a node by where they came from: not counted", 0, "", "", 0},
	{del, "auth/attempts/{node}/source", monitors, resetAttempts, "Begins to count the logins at a node anew", local, "", "", 0},
	{get, "whoami", managers, whoami, "The user of the request", columned, "", "", 0},
	{get, "overview", managers, overview, "Versions, totals, rates and listeners of the cluster", columned | charted, "", "", 0},
	{get, "version", managers, version, "The version of RabbitMQ whose API this is", 0, "", "", 0},
	{get, "extensions", managers, emptyList, "Extensions of RabbitMQ's web UI: none", 0, "", "", 0},
	{get, "feature-flags", administrators, featureFlags, "Features that tools ask for, all enabled", columned, "", "", 0},
	{get, "deprecated-features", administrators, emptyList, "Deprecated features: none", 0, "", "", 0},
	{get, "deprecated-features/used", administrators, emptyList, "Deprecated features in use: none", 0, "", "", 0},
	{get, "cluster-name", managers, clusterName, "The name of the cluster", columned, "", "", 0},
	{put, "cluster-name", administrators, putClusterName, "Names the cluster", 0, "", "name! string", 204},
	{get, "nodes", monitors, listNodes, "Nodes with what they use", paged | charted, "", "", 0},
	{get, "nodes/{node}", monitors, getNode, "A node", columned | charted, "", "", 0},
	{get, "nodes/{node}/memory", monitors, nodeMemory, "The memory of a node, in RabbitMQ's terms", columned, "", "", 0},
	{
		put, "nodes/{node}/limits", administrators, setNodeLimits, "Sets the memory and disk limits of a node until it stops, as the settings of these names", 0, "",
		"vm_memory_high_watermark.relative any, vm_memory_high_watermark.absolute any, disk_free_limit.absolute any, disk_free_limit.relative any", 204,
	},
	{get, "nodes/{node}/memory/relative", monitors, nodeMemoryShares, "The same in percent", columned, "", "", 0},

	{get, "connections", managers, listConnections, "Connections", paged, "", "", 0},
	{get, "connections/{connection}", managers, getConnection, "A connection", columned | charted, "", "", 0},
	{del, "connections/{connection}", managers, deleteConnection, "Closes a connection; the header X-Reason says why", local, "", "", 0},
	{get, "connections/{connection}/channels", managers, listConnectionChannels, "Channels of a connection", paged, "", "", 0},
	{get, "connections/username/{user}", managers, listUserConnections, "Connections of a user", paged, "", "", 0},
	{del, "connections/username/{user}", managers, deleteUserConnections, "Closes the connections of a user; the header X-Reason says why", local, "", "", 0},
	{get, "vhosts/{vhost}/connections", managers, listVHostConnections, "Connections to a virtual host", paged, "", "", 0},
	{get, "channels", managers, listChannels, "Channels", paged, "", "", 0},
	{get, "channels/{channel}", managers, getChannel, "A channel", columned | charted, "", "", 0},
	{get, "vhosts/{vhost}/channels", managers, listVHostChannels, "Channels in a virtual host", paged, "", "", 0},
	{get, "consumers", managers, listConsumers, "Consumers", paged, "", "", 0},
	{get, "consumers/{vhost}", managers, listVHostConsumers, "Consumers in a virtual host", paged, "", "", 0},

	{get, "exchanges", managers, listExchanges, "Exchanges", paged, "", "", 0},
	{get, "exchanges/{vhost}", managers, listVHostExchanges, "Exchanges of a virtual host", paged, "", "", 0},
	{get, "exchanges/{vhost}/{exchange}", managers, getExchange, "An exchange; the default one is amq.default", columned | charted, "", "", 0},
	{put, "exchanges/{vhost}/{exchange}", managers, putExchange, "Declares an exchange", 0, "", "type string, durable bool, auto_delete bool, internal bool, arguments object", 0},
	{del, "exchanges/{vhost}/{exchange}", managers, deleteExchange, "Deletes an exchange", 0, "if-unused bool", "", 0},
	{get, "exchanges/{vhost}/{exchange}/delayed", managers, listDelayed(true), "Messages of an exchange that are to be ready later, in that order", columned, "count int, after string", "", 0},
	{get, "exchanges/{vhost}/{exchange}/delayed/{id}", managers, getDelayed(true), "A message of an exchange that is to be ready later", columned, "truncate int, encoding string", "", 0},
	{del, "exchanges/{vhost}/{exchange}/delayed/{id}", managers, deleteDelayed(true), "Cancels a message that is to be ready later", 0, "", "", 0},
	{post, "exchanges/{vhost}/{exchange}/delayed/cancel", managers, pickDelayed(true, false), "Cancels messages that are to be ready later", columned, "", "ids strings, all bool", 200},
	{post, "exchanges/{vhost}/{exchange}/delayed/deliver", managers, pickDelayed(true, true), "Makes messages ready now that are to be later", columned, "", "ids strings, all bool", 200},
	{
		post, "exchanges/{vhost}/{exchange}/publish", managers, publish, "Publishes a message", 0, "",
		"routing_key! string, properties! object, payload! string, payload_encoding! string", 200,
	},
	{get, "exchanges/{vhost}/{exchange}/bindings/source", managers, listBindingsFrom, "Bindings from an exchange", paged, "", "", 0},
	{get, "exchanges/{vhost}/{exchange}/bindings/destination", managers, listBindingsToExchange, "Bindings to an exchange", paged, "", "", 0},

	{get, "queues", managers, listQueues, "Queues", paged | charted | plain, "", "", 0},
	{get, "queues/detailed", managers, listQueues, "Queues", paged | charted | plain, "", "", 0},
	{get, "queues/{vhost}", managers, listVHostQueues, "Queues of a virtual host", paged | charted | plain, "", "", 0},
	{get, "queues/{vhost}/{queue}", managers, getQueue, "A queue, as it is now", columned | charted | plain, "", "", 0},
	{put, "queues/{vhost}/{queue}", managers, putQueue, "Declares a queue", 0, "", "durable bool, auto_delete bool, arguments object, node string", 0},
	{del, "queues/{vhost}/{queue}", managers, deleteQueue, "Deletes a queue", 0, "if-unused bool, if-empty bool", "", 0},
	{
		put, "queues/{vhost}/{queue}/arguments", managers, putArguments, "Changes arguments that a policy could set, too; null has one count as not given, {} has those of the declaration count", 0, "",
		"arguments! object", 204,
	},
	{get, "queues/{vhost}/{queue}/bindings", managers, listBindingsToQueue, "Bindings to a queue", paged, "", "", 0},
	{del, "queues/{vhost}/{queue}/contents", managers, purge, "Drops the ready messages of a queue", 0, "", "", 0},
	{
		post, "queues/{vhost}/{queue}/get", managers, getMessages, "Takes messages and, by ackmode, puts them back marked as redelivered", 0, "",
		"count! int, ackmode! string, encoding! string, truncate int", 200,
	},
	{
		post, "queues/{vhost}/{queue}/peek", managers, peek, "Looks at messages; nothing changes that consumers can see", columned, "",
		"offset int, count int, state string, truncate int, encoding string", 200,
	},
	{get, "queues/{vhost}/{queue}/delayed", managers, listDelayed(false), "Messages that are to be ready later, in that order", columned, "count int, after string", "", 0},
	{get, "queues/{vhost}/{queue}/delayed/{id}", managers, getDelayed(false), "A message that is to be ready later", columned, "truncate int, encoding string", "", 0},
	{del, "queues/{vhost}/{queue}/delayed/{id}", managers, deleteDelayed(false), "Cancels a message that is to be ready later", 0, "", "", 0},
	{post, "queues/{vhost}/{queue}/delayed/cancel", managers, pickDelayed(false, false), "Cancels messages that are to be ready later", columned, "", "ids strings, all bool", 200},
	{post, "queues/{vhost}/{queue}/delayed/deliver", managers, pickDelayed(false, true), "Makes messages ready now that are to be later", columned, "", "ids strings, all bool", 200},
	{get, "queues/{vhost}/{queue}/unacked", managers, listUnacked, "Looks at messages that wait for an acknowledgement", columned, "offset int, count int, truncate int, encoding string", "", 0},
	{
		post, "queues/{vhost}/{queue}/redrive", managers, startRedrive, "Moves dead letters back to the queues where they died last, or to one; it goes on in the background if it takes long", columned, "",
		"to string, from string, reason string, routing_key string, message_ids strings, older_than int, limit int, rate int, dry_run bool", 200,
	},
	{
		post, "queues/{vhost}/{queue}/move", managers, startMove, "Moves messages to another queue; it goes on in the background if it takes long", columned, "",
		"to! string, from string, reason string, routing_key string, message_ids strings, older_than int, limit int, rate int, dry_run bool", 200,
	},
	{get, "draining", managers, listDraining, "Deleted queues from which messages are still on their way to others", paged, "", "", 0},
	{del, "draining/{id}", administrators, dropDraining, "Removes a deleted queue though messages have not left it yet, and tells how many are dropped", columned, "", "", 200},
	{get, "dead-letters", managers, listDeadLetters, "Queues that dead letters go to, and where the first of their messages died and why", paged, "", "", 0},
	{get, "dead-letters/{vhost}", managers, listVHostDeadLetters, "The same of a virtual host", paged, "", "", 0},
	{get, "dead-letters/{vhost}/{queue}", managers, getDeadLetters, "Where the first messages of a queue died and why", columned, "", "", 0},
	{get, "redrives", managers, listRedrives, "Redrives and moves that run or ran, on all nodes since these started", paged, "", "", 0},
	{get, "redrives/{redrive}", managers, getRedrive, "A redrive or move", columned, "", "", 0},
	{del, "redrives/{redrive}", managers, stopRedrive, "Stops a redrive or move of one's own; what has moved stays where it is", 0, "", "", 0},
	{post, "queues/{vhost}/{queue}/actions", managers, queueAction, "sync and cancel_sync, which have nothing to do here", 0, "", "action! string", 0},

	{get, "queues/quorum/{vhost}/{queue}/status", managers, queueReplicas, "Replicas of a durable queue", 0, "", "", 0},
	{post, "queues/quorum/{vhost}/{queue}/replicas/add", administrators, addReplica, "Adds a replica on a node", 0, "", "node! string", 0},
	{del, "queues/quorum/{vhost}/{queue}/replicas/delete", administrators, deleteReplica, "Removes the replica on a node", 0, "", "node! string", 202},
	{post, "queues/quorum/{vhost}/{queue}/leader", administrators, moveLeader, "Makes the replica on a node the leader", 0, "", "node! string", 0},
	{
		post, "queues/quorum/replicas/on/{node}/grow", administrators, growReplicas, "Adds replicas on a node to all queues that match", 0, "",
		"vhost_pattern string, queue_pattern string, strategy string", 0,
	},
	{del, "queues/quorum/replicas/on/{node}/shrink", administrators, shrinkReplicas, "Removes the replicas on a node from all queues that have others", 0, "", "", 202},

	{get, "bindings", managers, listBindings, "Bindings", paged, "", "", 0},
	{get, "bindings/{vhost}", managers, listVHostBindings, "Bindings of a virtual host", paged, "", "", 0},
	{get, "bindings/{vhost}/e/{source}/q/{destination}", managers, listBindingsBetween, "Bindings of an exchange and a queue", paged, "", "", 0},
	{post, "bindings/{vhost}/e/{source}/q/{destination}", managers, bindQueue, "Binds a queue", 0, "", "routing_key string, arguments object", 201},
	{get, "bindings/{vhost}/e/{source}/e/{destination}", managers, listBindingsBetweenExchanges, "Bindings of two exchanges", paged, "", "", 0},
	{post, "bindings/{vhost}/e/{source}/e/{destination}", managers, bindExchange, "Binds an exchange", 0, "", "routing_key string, arguments object", 201},
	{get, "bindings/{vhost}/e/{source}/q/{destination}/{properties_key}", managers, getQueueBinding, "A binding of a queue", columned, "", "", 0},
	{del, "bindings/{vhost}/e/{source}/q/{destination}/{properties_key}", managers, unbindQueue, "Takes a binding of a queue away", 0, "", "", 0},
	{get, "bindings/{vhost}/e/{source}/e/{destination}/{properties_key}", managers, getExchangeBinding, "A binding of an exchange", columned, "", "", 0},
	{del, "bindings/{vhost}/e/{source}/e/{destination}/{properties_key}", managers, unbindExchange, "Takes a binding of an exchange away", 0, "", "", 0},

	{get, "vhosts", managers, listVHosts, "Virtual hosts", paged, "", "", 0},
	{get, "vhosts/{vhost}", managers, getVHost, "A virtual host", columned, "", "", 0},
	{
		put, "vhosts/{vhost}", administrators, putVHost, "Makes or changes a virtual host", 0, "",
		"description string, tags any, tracing bool, default_queue_type string", 0,
	},
	{del, "vhosts/{vhost}", administrators, deleteVHost, "Deletes a virtual host with all that it has", 0, "", "", 0},
	{get, "vhosts/{vhost}/permissions", administrators, listVHostPermissions, "Permissions in a virtual host", paged, "", "", 0},
	{get, "vhosts/{vhost}/topic-permissions", administrators, listVHostTopicPermissions, "Topic permissions in a virtual host", 0, "", "", 0},
	{post, "vhosts/{vhost}/start/{node}", administrators, startVHost, "Starts a virtual host, which runs already", 0, "", "", 0},
	{get, "users", administrators, listUsers, "Users", paged, "", "", 0},
	{get, "users/without-permissions", administrators, listUsersWithoutPermissions, "Users without a permission in any virtual host", paged, "", "", 0},
	{post, "users/bulk-delete", administrators, deleteUsers, "Deletes users", 0, "", "users! strings", 0},
	{get, "users/{user}", administrators, getUser, "A user", columned, "", "", 0},
	{
		put, "users/{user}", administrators, putUser, "Makes or changes a user, without a password one that cannot log in with one", 0, "",
		"tags! any, password string, password_hash string, hashing_algorithm string, limits object", 0,
	},
	{del, "users/{user}", administrators, deleteUser, "Deletes a user", 0, "", "", 0},
	{get, "users/{user}/permissions", administrators, listUserPermissions, "Permissions of a user", paged, "", "", 0},
	{get, "users/{user}/topic-permissions", administrators, listUserTopicPermissions, "Topic permissions of a user", 0, "", "", 0},
	{get, "permissions", administrators, listPermissions, "Permissions", paged, "", "", 0},
	{get, "permissions/{vhost}/{user}", administrators, getPermission, "A user's permission in a virtual host", columned, "", "", 0},
	{
		put, "permissions/{vhost}/{user}", administrators, putPermission, "Gives a user a permission in a virtual host", 0, "",
		"configure! string, write! string, read! string", 0,
	},
	{del, "permissions/{vhost}/{user}", administrators, deletePermission, "Takes a user's permission away", 0, "", "", 0},
	{get, "topic-permissions", administrators, listTopicPermissions, "Topic permissions", paged, "", "", 0},
	{get, "topic-permissions/{vhost}/{user}", administrators, getTopicPermissions, "A user's topic permissions in a virtual host", paged, "", "", 0},
	{
		put, "topic-permissions/{vhost}/{user}", administrators, putTopicPermission, "Bounds the routing keys that a user may use with an exchange", 0, "",
		"exchange! string, write! string, read! string", 0,
	},
	{del, "topic-permissions/{vhost}/{user}", administrators, deleteTopicPermissions, "Takes all topic permissions of a user in a virtual host away", 0, "", "", 0},
	{get, "topic-permissions/{vhost}/{user}/{exchange}", administrators, getTopicPermissions, "A user's topic permissions in a virtual host, whatever the exchange", paged, "", "", 0},
	{
		put, "topic-permissions/{vhost}/{user}/{exchange}", administrators, putTopicPermission, "Bounds the routing keys that a user may use with the exchange of the body", 0, "",
		"exchange! string, write! string, read! string", 0,
	},
	{del, "topic-permissions/{vhost}/{user}/{exchange}", administrators, deleteTopicPermissions, "Takes a user's topic permission for an exchange away", 0, "", "", 0},
	{get, "vhost-limits", managers, listVHostLimits, "Limits of virtual hosts: max-connections and max-queues", paged, "", "", 0},
	{get, "vhost-limits/{vhost}", managers, getVHostLimits, "Limits of a virtual host", paged, "", "", 0},
	{put, "vhost-limits/{vhost}/{name}", administrators, putVHostLimit, "Sets a limit of a virtual host; a negative one bounds nothing", 0, "", "value! int", 204},
	{del, "vhost-limits/{vhost}/{name}", administrators, deleteVHostLimit, "Takes a limit of a virtual host away", 0, "", "", 0},
	{get, "user-limits", managers, listUserLimits, "Limits of users: max-connections and max-channels", paged, "", "", 0},
	{get, "user-limits/{user}", managers, getUserLimits, "Limits of a user", paged, "", "", 0},
	{put, "user-limits/{user}/{name}", administrators, putUserLimit, "Sets a limit of a user; a negative one bounds nothing", 0, "", "value! int", 204},
	{del, "user-limits/{user}/{name}", administrators, deleteUserLimit, "Takes a limit of a user away", 0, "", "", 0},
	{get, "policies", managers, userPolicies.all, "Policies", paged, "", "", 0},
	{get, "policies/{vhost}", managers, userPolicies.ofVHost, "Policies of a virtual host", paged, "", "", 0},
	{get, "policies/{vhost}/{name}", managers, userPolicies.get, "A policy; for policymakers", columned, "", "", 0},
	{
		put, "policies/{vhost}/{name}", managers, userPolicies.put, "Makes or changes a policy, which the queues and exchanges that match follow at once; for policymakers", 0, "",
		"pattern! string, definition! object, priority int, apply-to string", 0,
	},
	{del, "policies/{vhost}/{name}", managers, userPolicies.delete, "Deletes a policy; for policymakers", 0, "", "", 0},
	{get, "operator-policies", managers, operatorPolicies.all, "Operator policies", paged, "", "", 0},
	{get, "operator-policies/{vhost}", managers, operatorPolicies.ofVHost, "Operator policies of a virtual host", paged, "", "", 0},
	{get, "operator-policies/{vhost}/{name}", administrators, operatorPolicies.get, "An operator policy", columned, "", "", 0},
	{
		put, "operator-policies/{vhost}/{name}", administrators, operatorPolicies.put, "Makes or changes an operator policy, which bounds what policies and arguments give", 0, "",
		"pattern! string, definition! object, priority int, apply-to string", 0,
	},
	{get, "arguments", managers, listArguments, "The table of arguments and policy keys: what they take, which value counts, what they do", paged, "", "", 0},
	{get, "parameters", managers, listParameters, "Parameters of components; for policymakers", paged, "", "", 0},
	{get, "parameters/{component}", managers, listParameters, "Parameters of a component; for policymakers", paged, "", "", 0},
	{get, "parameters/{component}/{vhost}", managers, listComponentIn, "Parameters of a component in a virtual host; for policymakers", paged, "", "", 0},
	{get, "parameters/{component}/{vhost}/{name}", managers, getParameter, "A parameter; for policymakers", columned, "", "", 0},
	{put, "parameters/{component}/{vhost}/{name}", managers, putParameter, "Sets a parameter; for policymakers", 0, "", "value! any", 0},
	{del, "parameters/{component}/{vhost}/{name}", managers, deleteParameter, "Removes a parameter; for policymakers", 0, "", "", 0},
	{get, "global-parameters", managers, listGlobalParameters, "Parameters of the whole cluster; for policymakers", paged, "", "", 0},
	{get, "global-parameters/{name}", managers, getGlobalParameter, "A parameter of the whole cluster; for policymakers", columned, "", "", 0},
	{put, "global-parameters/{name}", managers, putGlobalParameter, "Sets a parameter of the whole cluster; for policymakers", 0, "", "value! any", 0},
	{del, "global-parameters/{name}", managers, deleteGlobalParameter, "Removes a parameter of the whole cluster; for policymakers", 0, "", "", 0},
	{del, "operator-policies/{vhost}/{name}", administrators, operatorPolicies.delete, "Deletes an operator policy", 0, "", "", 0},

	{get, "aliveness-test/{vhost}", managers, aliveness, "Always well, if the virtual host is there", 0, "", "", 0},
	{get, "healthchecks/node", managers, healthy, "Always well, as in RabbitMQ", 0, "", "", 0},
	{get, "healthchecks/node/{node}", managers, healthyNode, "Well, if the node is there", 0, "", "", 0},
	{get, "health/checks/alarms", managers, checkAlarms, "No node has an alarm", 0, "", "", 0},
	{get, "health/checks/local-alarms", managers, checkLocalAlarms, "This node has no alarm", 0, "", "", 0},
	{get, "health/checks/certificate-expiration/{within}/{unit}", managers, checkCertificates, "No certificate expires within that time", 0, "", "", 0},
	{get, "health/checks/port-listener/{port}", managers, checkPort, "This node listens on the port", 0, "", "", 0},
	{get, "health/checks/protocol-listener/{protocols}", managers, checkProtocols, "This node listens for the protocols, with commas between", 0, "", "", 0},
	{get, "health/checks/virtual-hosts", managers, healthy, "All virtual hosts run", 0, "", "", 0},
	{get, "health/checks/node-is-quorum-critical", managers, checkQuorumCritical, "No queue would lose its majority with this node", 0, "", "", 0},
	{get, "health/checks/node-is-mirror-sync-critical", managers, healthy, "There are no mirrors", 0, "", "", 0},
	{get, "health/checks/quorum-queues-without-elected-leaders/all-vhosts", managers, checkLeaders, "All queues with replicas have a leader", 0, "", "", 0},
	{
		get, "health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}", managers, checkMatchingLeaders,
		"All queues with replicas whose names match have a leader", 0, "", "", 0,
	},
	{get, "health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}", managers, checkVHostLeaders, "All queues with replicas of a virtual host have a leader", 0, "", "", 0},
	{
		get, "health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}", managers, checkVHostMatchingLeaders,
		"All queues with replicas of a virtual host whose names match have a leader", 0, "", "", 0,
	},
	{get, "health/checks/metadata-store/initialized", managers, healthy, "The catalogue is loaded", 0, "", "", 0},
	{get, "health/checks/metadata-store/initialized/with-data", managers, healthy, "The catalogue is loaded and not empty", 0, "", "", 0},
	{get, "health/checks/is-in-service", managers, checkReady, "This node serves clients", 0, "", "", 0},
	{get, "health/checks/ready-to-serve-clients", managers, checkReady, "This node serves clients", 0, "", "", 0},
	{get, "health/checks/below-node-connection-limit", managers, checkConnections, "This node may have more connections", 0, "", "", 0},
	{get, "health/checks/reached-target-cluster-size", managers, healthy, "There is no target size, so it is reached", 0, "", "", 0},
}
