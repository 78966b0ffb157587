"""RPC: the server."""
import os

import pika


def fib(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def on_request(ch, method, properties, body):
    ch.basic_publish(
        exchange="", routing_key=properties.reply_to, body=str(fib(int(body))),
        properties=pika.BasicProperties(correlation_id=properties.correlation_id))
    ch.basic_ack(delivery_tag=method.delivery_tag)


connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
channel = connection.channel()
channel.queue_declare(queue="rpc_queue")
channel.basic_qos(prefetch_count=1)
channel.basic_consume(queue="rpc_queue", on_message_callback=on_request)
print("ready", flush=True)
channel.start_consuming()
