"""What every client does (steps_test.go), with pika."""
import json
import os
import ssl
import sys
import time
import urllib.parse
import urllib.request

import pika

URL = os.environ["AMQP_URL"]
QUEUES = {"classic": "pika-classic", "quorum": "pika-quorum"}


def connect(url=URL, name=None):
    parameters = pika.URLParameters(url)
    if url.startswith("amqps"):
        context = ssl.create_default_context(cafile=os.environ["AMQP_CA"])
        parameters.ssl_options = pika.SSLOptions(context, "localhost")
    if name:
        parameters.client_properties = {"connection_name": name}
    return pika.BlockingConnection(parameters)


def fresh(channel, queue="pika-steps", kind="classic"):
    channel.queue_delete(queue)
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
    return queue


def publish(channel, queue, *bodies):
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", queue, body.encode(), pika.BasicProperties(delivery_mode=2), mandatory=True)


def count(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def step_connect():
    connection = connect()
    assert connection.channel().is_open
    connection.close()


def step_tls():
    connection = connect(os.environ["AMQPS_URL"])
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    publish(channel, queue, "over TLS")
    assert channel.basic_get(queue, auto_ack=True)[2] == b"over TLS"
    connection.close()


def step_declare():
    connection = connect()
    channel = connection.channel()
    channel.exchange_declare("pika-exchange", "topic", durable=True)
    for kind, queue in QUEUES.items():
        fresh(channel, queue, kind)
        channel.queue_bind(queue, "pika-exchange", "a.*")
        assert count(channel, queue) == 0
    try:
        channel.queue_declare(QUEUES["classic"], durable=False)
        raise AssertionError("a queue was declared with another durability")
    except pika.exceptions.ChannelClosedByBroker as e:
        assert e.reply_code == 406 and "inequivalent arg 'durable'" in e.reply_text, e
    channel = connection.channel()
    for queue in QUEUES.values():
        channel.queue_delete(queue)
    channel.exchange_delete("pika-exchange")
    connection.close()


def step_confirm():
    connection = connect()
    channel = connection.channel()
    for kind in QUEUES:
        queue = fresh(channel, kind=kind)
        publish(channel, queue, *map(str, range(10)))
        assert count(channel, queue) == 10
    connection.close()


def step_consume():
    connection = connect()
    channel = connection.channel()
    for kind in QUEUES:
        queue = fresh(channel, kind=kind)
        publish(channel, queue, *map(str, range(10)))
        bodies = []
        for method, _, body in channel.consume(queue, inactivity_timeout=20):
            bodies.append(body)
            channel.basic_ack(method.delivery_tag)
            if len(bodies) == 10:
                break
        channel.cancel()
        assert bodies == [str(i).encode() for i in range(10)], bodies
        assert count(channel, queue) == 0
    connection.close()


def step_qos():
    connection = connect()
    channel = connection.channel()
    for kind in QUEUES:
        queue = fresh(channel, kind=kind)
        publish(channel, queue, "a", "b", "c", "d")
        channel.basic_qos(prefetch_count=2)
        tags = []
        consumer = channel.basic_consume(queue, lambda c, method, p, body: tags.append(method.delivery_tag))
        while len(tags) < 2:
            connection.process_data_events(1)
        assert count(channel, queue) == 2 and len(tags) == 2, tags
        channel.basic_ack(tags[0])
        while len(tags) < 3:
            connection.process_data_events(1)
        assert count(channel, queue) == 1 and len(tags) == 3, tags
        channel.basic_cancel(consumer)
    connection.close()


def step_tx():
    connection = connect()
    channel = connection.channel()
    queue = fresh(channel)
    channel.tx_select()
    channel.basic_publish("", queue, b"lost")
    channel.tx_rollback()
    channel.basic_publish("", queue, b"kept")
    assert count(channel, queue) == 0
    channel.tx_commit()
    method, _, body = channel.basic_get(queue)
    assert body == b"kept"
    channel.basic_ack(method.delivery_tag)
    channel.tx_commit()
    assert count(channel, queue) == 0
    connection.close()


def step_nack():
    connection = connect()
    channel = connection.channel()
    for kind in QUEUES:
        queue = fresh(channel, kind=kind)
        publish(channel, queue, "x", "y")
        method, _, body = channel.basic_get(queue)
        assert body == b"x" and not method.redelivered
        channel.basic_nack(method.delivery_tag, requeue=True)
        bodies = set()
        for _ in range(2):  # RabbitMQ's quorum queues bring it back later
            method, _, body = channel.basic_get(queue)
            bodies.add((body, method.redelivered))
            channel.basic_reject(method.delivery_tag, requeue=False)
        assert bodies == {(b"x", True), (b"y", False)}, bodies
        assert count(channel, queue) == 0
    connection.close()


def step_return():
    connection = connect()
    channel = connection.channel()
    channel.confirm_delivery()
    try:
        channel.basic_publish("amq.direct", "nowhere", b"back", mandatory=True)
        raise AssertionError("an unroutable message was not returned")
    except pika.exceptions.UnroutableError as e:
        returned = e.messages[0]
        assert (returned.method.reply_code, returned.method.reply_text, returned.body) == (312, "NO_ROUTE", b"back")
    connection.close()


def drop(name):
    """Closes the connection of that name over the HTTP API."""
    base = urllib.parse.urlsplit(os.environ["AMQP_HTTP"])
    root = f"{base.scheme}://{base.hostname}:{base.port}/api/connections"
    passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    passwords.add_password(None, root, base.username, base.password)
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(passwords))
    for _ in range(200):
        for c in json.load(opener.open(root)):
            if c.get("client_properties", {}).get("connection_name") == name:
                path = root + "/" + urllib.parse.quote(c["name"], safe="")
                opener.open(urllib.request.Request(path, method="DELETE", headers={"X-Reason": "made way"}))
                return
        time.sleep(0.05)
    raise AssertionError("the connection is not listed")


def step_reconnect():
    connection = connect(name="pika-steps")
    channel = connection.channel()
    queue = fresh(channel)
    drop("pika-steps")
    try:
        while True:
            connection.process_data_events(1)
    except pika.exceptions.ConnectionClosedByBroker as e:
        assert e.reply_code == 320 and "made way" in e.reply_text, e
    connection = connect()
    channel = connection.channel()
    publish(channel, queue, "after")
    assert channel.basic_get(queue, auto_ack=True)[2] == b"after"
    channel.queue_delete(queue)
    connection.close()


for step in sys.argv[1:]:
    globals()["step_" + step]()
    print(step, "ok", flush=True)
