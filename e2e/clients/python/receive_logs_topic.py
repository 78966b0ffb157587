"""Topics: the receiver."""
import os
import sys

import pika


def callback(ch, method, properties, body):
    print(f"received {method.routing_key}:{body.decode()}", flush=True)


connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
channel = connection.channel()
channel.exchange_declare(exchange="topic_logs", exchange_type="topic")
queue = channel.queue_declare(queue="", exclusive=True).method.queue
for pattern in sys.argv[1:]:
    channel.queue_bind(exchange="topic_logs", queue=queue, routing_key=pattern)
channel.basic_consume(queue=queue, on_message_callback=callback, auto_ack=True)
print("ready", flush=True)
channel.start_consuming()
