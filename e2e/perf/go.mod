module github.com/warrenmq/warren/e2e/perf

go 1.26.0

require github.com/warrenmq/warren v0.0.0

require github.com/rabbitmq/amqp091-go v1.16.0 // indirect

replace github.com/warrenmq/warren => ../..
