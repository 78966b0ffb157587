package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// effort is how long a worker is busy for each dot in a task.
const effort = 20 * time.Millisecond

func taskQueue(ch *amqp.Channel) (amqp.Queue, error) {
	return ch.QueueDeclare("task_queue", true, false, false, false, nil)
}

func newTask(ch *amqp.Channel, tasks []string) error {
	q, err := taskQueue(ch)
	if err != nil {
		return err
	}
	for _, task := range tasks {
		err := ch.PublishWithContext(context.Background(), "", q.Name, false, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, ContentType: "text/plain", Body: []byte(task),
		})
		if err != nil {
			return err
		}
		fmt.Println("sent", task)
	}
	return nil
}

func worker(ch *amqp.Channel, _ []string) error {
	q, err := taskQueue(ch)
	if err != nil {
		return err
	}
	if err := ch.Qos(1, 0, false); err != nil {
		return err
	}
	messages, err := ch.Consume(q.Name, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	ready()
	for m := range messages {
		fmt.Printf("received %s redelivered=%t\n", m.Body, m.Redelivered)
		time.Sleep(time.Duration(bytes.Count(m.Body, []byte("."))) * effort)
		fmt.Printf("done %s\n", m.Body)
		if err := m.Ack(false); err != nil {
			return err
		}
	}
	return nil
}
