"""Work queues: hand out tasks; each dot in a task is work."""
import os
import sys

import pika

connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
channel = connection.channel()
channel.queue_declare(queue="task_queue", durable=True)
for task in sys.argv[1:]:
    channel.basic_publish(exchange="", routing_key="task_queue", body=task, properties=pika.BasicProperties(delivery_mode=2))
    print("sent", task)
connection.close()
