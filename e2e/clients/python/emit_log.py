"""Publish/subscribe: the sender."""
import os
import sys

import pika

connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
channel = connection.channel()
channel.exchange_declare(exchange="logs", exchange_type="fanout", durable=True)
for text in sys.argv[1:]:
    channel.basic_publish(exchange="logs", routing_key="", body=text)
    print("sent", text)
connection.close()
