"""Hello world: the receiver."""
import os

import pika


def callback(ch, method, properties, body):
    print("received", body.decode(), flush=True)


connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
channel = connection.channel()
channel.queue_declare(queue="hello")
channel.basic_consume(queue="hello", on_message_callback=callback, auto_ack=True)
print("ready", flush=True)
channel.start_consuming()
