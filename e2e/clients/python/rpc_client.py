"""RPC: the client, with a reply queue of its own and a correlation id for each call."""
import os
import sys
import uuid

import pika


class Fibonacci:
    """Calls the server and waits for the reply."""

    def __init__(self):
        self.connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
        self.channel = self.connection.channel()
        self.replies = self.channel.queue_declare(queue="", exclusive=True).method.queue
        self.channel.basic_consume(queue=self.replies, on_message_callback=self.on_reply, auto_ack=True)

    def on_reply(self, ch, method, properties, body):
        if properties.correlation_id == self.correlation_id:
            self.reply = body

    def call(self, n):
        self.reply = None
        self.correlation_id = str(uuid.uuid4())
        self.channel.basic_publish(
            exchange="", routing_key="rpc_queue", body=str(n),
            properties=pika.BasicProperties(reply_to=self.replies, correlation_id=self.correlation_id))
        while self.reply is None:
            self.connection.process_data_events(time_limit=None)
        return int(self.reply)


fibonacci = Fibonacci()
for number in sys.argv[1:]:
    print(f"fib({number}) = {fibonacci.call(int(number))}", flush=True)
fibonacci.connection.close()
