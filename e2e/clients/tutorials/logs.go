package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Publish/subscribe, routing and topics differ in the type of exchange and in their keys only.

// emit publishes texts, each behind its routing key.
func emit(ch *amqp.Channel, exchange, kind string, keysAndTexts ...string) error {
	if err := ch.ExchangeDeclare(exchange, kind, kind != amqp.ExchangeTopic, false, false, false, nil); err != nil {
		return err
	}
	for pair := range slices.Chunk(keysAndTexts, 2) {
		if len(pair) < 2 {
			return errors.New("a key without a text")
		}
		err := ch.PublishWithContext(context.Background(), exchange, pair[0], false, false, amqp.Publishing{ContentType: "text/plain", Body: []byte(pair[1])})
		if err != nil {
			return err
		}
		fmt.Println("sent", pair[1])
	}
	return nil
}

func receive(ch *amqp.Channel, exchange, kind string, keys ...string) error {
	if err := ch.ExchangeDeclare(exchange, kind, kind != amqp.ExchangeTopic, false, false, false, nil); err != nil {
		return err
	}
	q, err := ch.QueueDeclare("", false, false, true, false, nil)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := ch.QueueBind(q.Name, key, exchange, false, nil); err != nil {
			return err
		}
	}
	messages, err := ch.Consume(q.Name, "", true, false, false, false, nil)
	if err != nil {
		return err
	}
	ready()
	for m := range messages {
		fmt.Printf("received %s:%s\n", m.RoutingKey, m.Body)
	}
	return nil
}

func emitLog(ch *amqp.Channel, texts []string) error {
	var pairs []string
	for _, text := range texts {
		pairs = append(pairs, "", text)
	}
	return emit(ch, "logs", amqp.ExchangeFanout, pairs...)
}

func receiveLogs(ch *amqp.Channel, _ []string) error {
	return receive(ch, "logs", amqp.ExchangeFanout, "")
}

func emitLogDirect(ch *amqp.Channel, args []string) error {
	return emit(ch, "direct_logs", amqp.ExchangeDirect, args...)
}

func receiveLogsDirect(ch *amqp.Channel, severities []string) error {
	return receive(ch, "direct_logs", amqp.ExchangeDirect, severities...)
}

func emitLogTopic(ch *amqp.Channel, args []string) error {
	return emit(ch, "topic_logs", amqp.ExchangeTopic, args...)
}

func receiveLogsTopic(ch *amqp.Channel, patterns []string) error {
	return receive(ch, "topic_logs", amqp.ExchangeTopic, patterns...)
}
