"""Gets the one message of a queue, then publishes one of so many bytes there and waits until it is confirmed. Prints the SHA-256 of both.

large_messages.py URL QUEUE BYTES
"""
import hashlib
import random
import sys

import pika

url, queue, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
connection = pika.BlockingConnection(pika.URLParameters(url + "?heartbeat=0"))
channel = connection.channel()
channel.confirm_delivery()
method, _, got = channel.basic_get(queue, auto_ack=True)
assert method is not None, "the queue is empty"
piece = random.Random(size).randbytes(1 << 20)
body = (piece * (size // len(piece) + 1))[:size]
channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2), mandatory=True)
print(hashlib.sha256(got).hexdigest(), hashlib.sha256(body).hexdigest())
connection.close()
