"""Work queues: take one task at a time and acknowledge it when it is done."""
import os
import time

import pika


def callback(ch, method, properties, body):
    task = body.decode()
    print(f"received {task} redelivered={'true' if method.redelivered else 'false'}", flush=True)
    time.sleep(0.02 * task.count("."))
    print("done", task, flush=True)
    ch.basic_ack(delivery_tag=method.delivery_tag)


connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
channel = connection.channel()
channel.queue_declare(queue="task_queue", durable=True)
channel.basic_qos(prefetch_count=1)
channel.basic_consume(queue="task_queue", on_message_callback=callback)
print("ready", flush=True)
channel.start_consuming()
