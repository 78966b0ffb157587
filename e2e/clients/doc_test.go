// Package clients lets stock clients of other people talk to the broker: amqp091-go and pika through programs written after RabbitMQ's six
// tutorials, Debian's amqp-tools, and amqpctl beside a pika worker. No client is adapted to Warren in any way.
//
// Further clients do the steps of steps_test.go: kombu, Celery, amqplib, rabbitmq-client, bunny, php-amqplib; amqp091-go also runs the tests it has of its own.
//
// Each program is a process of its own. The hop before is none; behind is the broker that e2e/harness runs.
package clients
