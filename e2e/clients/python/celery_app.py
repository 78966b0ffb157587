"""The tasks of a Celery worker whose queues are a classic and a quorum queue; celery_steps.py runs and asks it."""
import os
import time

from celery import Celery
from kombu import Exchange, Queue

app = Celery("steps", broker=os.environ["AMQP_URL"], backend="rpc://")
app.conf.task_queues = [
    Queue(name, Exchange(name), routing_key=name, durable=True, queue_arguments={"x-queue-type": kind})
    for kind, name in (("classic", "celery-classic"), ("quorum", "celery-quorum")) if name in os.environ.get("CELERY_QUEUES", name)
]
app.conf.task_default_queue = "celery-classic"
app.conf.worker_prefetch_multiplier = 1
app.conf.task_acks_late = True
app.conf.broker_connection_retry = True
app.conf.broker_transport_options = {"confirm_publish": True}


@app.task
def add(x, y):
    return x + y


@app.task
def now():
    return time.time()


@app.task(bind=True, max_retries=5)
def third_time(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0.2)
    return self.request.retries
