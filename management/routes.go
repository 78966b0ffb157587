package management

import "net/http"

const (
	get  = http.MethodGet
	put  = http.MethodPut
	post = http.MethodPost
	del  = http.MethodDelete
)

// addRoutes is the list of all paths, without /api.
func (s *Server) addRoutes() {
	add := s.routes.add
	add("login", methods{post: login, del: logout}).open = true
	add("overview", methods{get: overview})
	add("whoami", methods{get: whoami})
	add("version", methods{get: version})
	add("cluster-name", methods{get: clusterName, put: administrator(putClusterName)})
	add("nodes", methods{get: monitor(listNodes)})
	add("nodes/*", methods{get: monitor(getNode)})
	add("aliveness-test/*", methods{get: aliveness})
	add("health/checks/alarms", methods{get: alarms})
	add("health/checks/local-alarms", methods{get: alarms})

	add("connections", methods{get: listConnections})
	add("connections/*", methods{get: getConnection, del: deleteConnection})
	add("connections/*/channels", methods{get: listConnectionChannels})
	add("connections/username/*", methods{get: listUserConnections, del: deleteUserConnections})
	add("vhosts/*/connections", methods{get: listVHostConnections})
	add("channels", methods{get: listChannels})
	add("channels/*", methods{get: getChannel})
	add("vhosts/*/channels", methods{get: listVHostChannels})
	add("consumers", methods{get: listConsumers})
	add("consumers/*", methods{get: listVHostConsumers})

	add("exchanges", methods{get: listExchanges})
	add("exchanges/*", methods{get: listVHostExchanges})
	add("exchanges/*/*", methods{get: getExchange, put: putExchange, del: deleteExchange})
	add("exchanges/*/*/publish", methods{post: publish})
	add("exchanges/*/*/bindings/source", methods{get: listBindingsFrom})
	add("exchanges/*/*/bindings/destination", methods{get: listBindingsToExchange})

	add("queues", methods{get: listQueues})
	add("queues/detailed", methods{get: listQueues})
	add("queues/*", methods{get: listVHostQueues})
	add("queues/*/*", methods{get: getQueue, put: putQueue, del: deleteQueue})
	add("queues/quorum/*/*/status", methods{get: queueReplicas})
	add("queues/quorum/*/*/replicas/add", methods{post: administrator(addReplica)})
	add("queues/quorum/*/*/replicas/delete", methods{del: administrator(deleteReplica)})
	add("queues/*/*/bindings", methods{get: listBindingsToQueue})
	add("queues/*/*/contents", methods{del: purge})
	add("queues/*/*/get", methods{post: getMessages})
	add("queues/*/*/peek", methods{post: peek})
	add("queues/*/*/unacked", methods{get: listUnacked})

	add("bindings", methods{get: listBindings})
	add("bindings/*", methods{get: listVHostBindings})
	add("bindings/*/e/*/q/*", methods{get: listBindingsBetween, post: bindQueue})
	add("bindings/*/e/*/e/*", methods{get: listBindingsBetweenExchanges, post: bindExchange})
	add("bindings/*/e/*/q/*/*", methods{get: getQueueBinding, del: unbindQueue})
	add("bindings/*/e/*/e/*/*", methods{get: getExchangeBinding, del: unbindExchange})

	add("vhosts", methods{get: listVHosts})
	add("vhosts/*", methods{get: getVHost, put: administrator(putVHost), del: administrator(deleteVHost)})
	add("vhosts/*/permissions", methods{get: administrator(listVHostPermissions)})
	add("users", methods{get: administrator(listUsers)})
	add("users/*", methods{get: administrator(getUser), put: administrator(putUser), del: administrator(deleteUser)})
	add("users/*/permissions", methods{get: administrator(listUserPermissions)})
	add("permissions", methods{get: administrator(listPermissions)})
	add("permissions/*/*", methods{get: administrator(getPermission), put: administrator(putPermission), del: administrator(deletePermission)})
}
