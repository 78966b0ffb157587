"""What every client does (steps_test.go), with kombu on py-amqp."""
import json
import os
import socket
import sys
import time
import urllib.parse
import urllib.request

from amqp.exceptions import ConnectionForced, PreconditionFailed
from kombu import Connection, Consumer, Exchange, Producer, Queue

QUEUE = "kombu-steps"
KINDS = ("classic", "quorum")


def connect(**options):
    return Connection(os.environ["AMQP_URL"], transport_options={"confirm_publish": True, **options})


def fresh(channel, kind="classic", exchange=None, key=QUEUE):
    channel.queue_delete(QUEUE)
    queue = Queue(QUEUE, exchange, routing_key=key, durable=True, queue_arguments={"x-queue-type": kind})(channel)
    queue.declare()
    return queue


def publish(channel, *bodies):
    producer = Producer(channel)
    for body in bodies:
        producer.publish(body, routing_key=QUEUE, delivery_mode=2)


def count(channel):
    return channel.queue_declare(QUEUE, passive=True).message_count


def step_connect():
    with connect() as connection:
        assert connection.connect().connected


def step_tls():
    with Connection(os.environ["AMQPS_URL"], ssl={"ca_certs": os.environ["AMQP_CA"], "server_hostname": "localhost"}) as connection:
        channel = connection.channel()
        queue = Queue("", exclusive=True)(channel)
        queue.declare()
        Producer(channel).publish("over TLS", routing_key=queue.name)
        assert queue.get(no_ack=True).payload == "over TLS"


def step_declare():
    with connect() as connection:
        channel = connection.channel()
        exchange = Exchange("kombu-exchange", "topic", durable=True)(channel)
        for kind in KINDS:
            fresh(channel, kind, exchange, "a.*")
            assert count(channel) == 0
        try:
            connection.channel().queue_declare(QUEUE, durable=False, auto_delete=False)
            raise AssertionError("a queue was declared with another durability")
        except PreconditionFailed as e:
            assert "inequivalent arg 'durable'" in str(e), e
        channel.queue_delete(QUEUE)
        exchange.delete()


def step_confirm():
    with connect() as connection:
        channel = connection.channel()
        for kind in KINDS:
            fresh(channel, kind)
            publish(channel, *range(10))
            assert count(channel) == 10


def step_consume():
    with connect() as connection:
        for kind in KINDS:
            channel = connection.channel()
            queue = fresh(channel, kind)
            publish(channel, *range(10))
            bodies = []
            with Consumer(channel, [queue], callbacks=[lambda body, m: (bodies.append(body), m.ack())]):
                while len(bodies) < 10:
                    connection.drain_events(timeout=20)
            assert bodies == list(range(10)), bodies
            assert count(channel) == 0


def step_qos():
    with connect() as connection:
        for kind in KINDS:
            channel = connection.channel()
            queue = fresh(channel, kind)
            publish(channel, *range(4))
            got = []
            with Consumer(channel, [queue], callbacks=[lambda body, m: got.append(m)], prefetch_count=2):
                while len(got) < 2:
                    connection.drain_events(timeout=20)
                assert count(channel) == 2 and len(got) == 2
                got[0].ack()
                while len(got) < 3:
                    connection.drain_events(timeout=20)
                assert count(channel) == 1 and len(got) == 3


def step_tx():
    with connect(confirm_publish=False) as connection:
        channel = connection.channel()
        queue = fresh(channel)
        channel.tx_select()
        publish(channel, "lost")
        channel.tx_rollback()
        publish(channel, "kept")
        assert count(channel) == 0
        channel.tx_commit()
        message = queue.get()
        assert message.payload == "kept"
        message.ack()
        channel.tx_commit()
        assert count(channel) == 0


def step_nack():
    with connect() as connection:
        channel = connection.channel()
        for kind in KINDS:
            queue = fresh(channel, kind)
            publish(channel, "x")
            message = queue.get()
            assert not message.delivery_info["redelivered"]
            message.requeue()
            message = queue.get()
            assert message.delivery_info["redelivered"]
            message.reject()
            assert queue.get() is None


def step_return():
    with connect(confirm_publish=False) as connection:
        returned = []
        producer = Producer(connection.channel(), on_return=lambda e, exchange, key, m: returned.append((e.reply_code, m.body)))
        producer.publish("back", exchange="amq.direct", routing_key="nowhere", mandatory=True)
        while not returned:
            connection.drain_events(timeout=20)
        assert returned[0][0] == 312, returned


def drop(local):
    """Closes the connection of a local address over the HTTP API."""
    base = urllib.parse.urlsplit(os.environ["AMQP_HTTP"])
    root = f"{base.scheme}://{base.hostname}:{base.port}/api/connections"
    passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    passwords.add_password(None, root, base.username, base.password)
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(passwords))
    for _ in range(200):
        for c in json.load(opener.open(root)):
            if c["name"].startswith(local + " -> "):
                path = root + "/" + urllib.parse.quote(c["name"], safe="")
                opener.open(urllib.request.Request(path, method="DELETE", headers={"X-Reason": "made way"}))
                return
        time.sleep(0.05)
    raise AssertionError("the connection is not listed")


def step_reconnect():
    with connect() as connection:
        queue = fresh(connection.channel())
        drop("%s:%d" % connection.connection.transport.sock.getsockname()[:2])
        try:
            while True:
                try:
                    connection.drain_events(timeout=1)
                except socket.timeout:
                    pass
        except ConnectionForced as e:
            assert "made way" in str(e), e
        connection.ensure_connection(max_retries=10, interval_start=0)
        channel = connection.channel()
        publish(channel, "after")
        assert queue(channel).get(no_ack=True).payload == "after"
        channel.queue_delete(QUEUE)


for step in sys.argv[1:]:
    globals()["step_" + step]()
    print(step, "ok", flush=True)
