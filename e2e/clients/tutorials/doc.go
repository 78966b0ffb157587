// Command tutorials is the Go half of the programs written after RabbitMQ's six tutorials; the Python half stands in ../python under the same
// names. The test starts each as a process of its own, and lets senders of one language talk to receivers of the other.
//
//	tutorials hello_send | hello_receive
//	tutorials new_task TASK... | worker
//	tutorials emit_log TEXT... | receive_logs
//	tutorials emit_log_direct (SEVERITY TEXT)... | receive_logs_direct SEVERITY...
//	tutorials emit_log_topic (KEY TEXT)... | receive_logs_topic PATTERN...
//	tutorials rpc_client NUMBER... | rpc_server
//
// AMQP_URL says where the broker is. Receivers print "ready" when they consume, then a line for each message, and run until they are killed. The
// hop before is ../stock_test.go; behind is the broker, by way of amqp091-go used as its users use it.
package main
