"""Publish/subscribe: the receiver."""
import os

import pika


def callback(ch, method, properties, body):
    print(f"received {method.routing_key}:{body.decode()}", flush=True)


connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
channel = connection.channel()
channel.exchange_declare(exchange="logs", exchange_type="fanout", durable=True)
queue = channel.queue_declare(queue="", exclusive=True).method.queue
channel.queue_bind(exchange="logs", queue=queue)
channel.basic_consume(queue=queue, on_message_callback=callback, auto_ack=True)
print("ready", flush=True)
channel.start_consuming()
