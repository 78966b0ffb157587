package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"
)

func rpcClient(ch *amqp.Channel, numbers []string) error {
	q, err := ch.QueueDeclare("", false, false, true, false, nil)
	if err != nil {
		return err
	}
	replies, err := ch.Consume(q.Name, "", true, false, false, false, nil)
	if err != nil {
		return err
	}
	for i, number := range numbers {
		correlation := fmt.Sprintf("%s-%d", q.Name, i)
		err := ch.PublishWithContext(context.Background(), "", "rpc_queue", false, false, amqp.Publishing{
			ContentType: "text/plain", CorrelationId: correlation, ReplyTo: q.Name, Body: []byte(number),
		})
		if err != nil {
			return err
		}
		reply, ok := <-replies
		if !ok {
			return errors.New("the channel closed before the reply")
		}
		if reply.CorrelationId != correlation {
			return fmt.Errorf("a reply to %q instead of %q", reply.CorrelationId, correlation)
		}
		fmt.Printf("fib(%s) = %s\n", number, reply.Body)
	}
	return nil
}

func rpcServer(ch *amqp.Channel, _ []string) error {
	q, err := ch.QueueDeclare("rpc_queue", false, false, false, false, nil)
	if err != nil {
		return err
	}
	if err := ch.Qos(1, 0, false); err != nil {
		return err
	}
	requests, err := ch.Consume(q.Name, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	ready()
	for request := range requests {
		n, err := strconv.Atoi(string(request.Body))
		if err != nil {
			return err
		}
		err = ch.PublishWithContext(context.Background(), "", request.ReplyTo, false, false, amqp.Publishing{
			ContentType: "text/plain", CorrelationId: request.CorrelationId, Body: []byte(strconv.Itoa(fib(n))),
		})
		if err != nil {
			return err
		}
		if err := request.Ack(false); err != nil {
			return err
		}
	}
	return nil
}

func fib(n int) int {
	a, b := 0, 1
	for range n {
		a, b = b, a+b
	}
	return a
}
