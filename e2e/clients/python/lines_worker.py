"""Prints the next COUNT bodies of a queue, one per line: the whole of a worker in ten lines."""
import os, sys, pika
queue, count = sys.argv[1], int(sys.argv[2])
channel = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"])).channel()
channel.basic_qos(prefetch_count=50)
for n, (method, _, body) in enumerate(channel.consume(queue), 1):
    sys.stdout.buffer.write(body + b"\n")
    channel.basic_ack(method.delivery_tag)
    if n == count:
        break
channel.connection.close()
