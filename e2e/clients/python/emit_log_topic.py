"""Topics: the sender."""
import os
import sys

import pika

connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
channel = connection.channel()
channel.exchange_declare(exchange="topic_logs", exchange_type="topic")
for key, text in zip(sys.argv[1::2], sys.argv[2::2]):
    channel.basic_publish(exchange="topic_logs", routing_key=key, body=text)
    print("sent", text)
connection.close()
