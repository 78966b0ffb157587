package main

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

func helloSend(ch *amqp.Channel, _ []string) error {
	q, err := ch.QueueDeclare("hello", false, false, false, false, nil)
	if err != nil {
		return err
	}
	body := "Hello World!"
	err = ch.PublishWithContext(context.Background(), "", q.Name, false, false, amqp.Publishing{ContentType: "text/plain", Body: []byte(body)})
	if err == nil {
		fmt.Println("sent", body)
	}
	return err
}

func helloReceive(ch *amqp.Channel, _ []string) error {
	q, err := ch.QueueDeclare("hello", false, false, false, false, nil)
	if err != nil {
		return err
	}
	messages, err := ch.Consume(q.Name, "", true, false, false, false, nil)
	if err != nil {
		return err
	}
	ready()
	for m := range messages {
		fmt.Printf("received %s\n", m.Body)
	}
	return nil
}
