"""Kombu: logs in with AMQPLAIN; a headers exchange, bindings between exchanges, an alternate exchange, recover."""
import os

from kombu import Connection, Exchange, Queue

connection = Connection(os.environ["AMQP_URL"], login_method="AMQPLAIN")
channel = connection.channel()


def taken(queue, ack=True):
    """Gets what is ready, and returns the bodies; the ones delivered before carry a star."""
    bodies = []
    while message := queue.get(no_ack=ack):
        bodies.append(message.payload + ("*" if message.delivery_info["redelivered"] else ""))
    return " ".join(sorted(bodies)) or "nothing"


def private(name, exchange, **how):
    queue = Queue("kombu-" + name, exchange, exclusive=True, **how)(channel)
    queue.declare()
    return queue


headers = Exchange("kombu-headers", "headers", durable=True)(channel)
headers.declare()
every = private("all", headers, binding_arguments={"x-match": "all", "colour": "red", "size": 5})
some = private("any", headers, binding_arguments={"x-match": "any", "colour": "red", "size": 5})
producer = connection.Producer(channel)
producer.publish("both", exchange=headers, headers={"colour": "red", "size": 5, "more": 1.5})
producer.publish("one", exchange=headers, headers={"colour": "blue", "size": 5})
producer.publish("none", exchange=headers, headers={"colour": "blue"})
print("all", taken(every))
print("any", taken(some))

rest = Exchange("kombu-rest", "fanout", durable=True)(channel)
rest.declare()
main = Exchange("kombu-main", "direct", durable=True, arguments={"alternate-exchange": "kombu-rest"})(channel)
main.declare()
front = Exchange("kombu-front", "topic", durable=True)(channel)
front.declare()
main.bind_to(front, routing_key="k.*")
known, lost = private("known", main, routing_key="k.known"), private("lost", rest)
for key in ("k.known", "k.unknown", "other"):
    producer.publish(key, exchange=front, routing_key=key)
print("known", taken(known))
print("lost", taken(lost))
main.unbind_from(front, routing_key="k.*")
producer.publish("unbound", exchange=front, routing_key="k.known")
print("unbound", taken(known))

producer.publish("again", exchange=main, routing_key="k.known")
print("before", taken(known, ack=False))
channel.basic_recover(requeue=True)
print("after", taken(known))
for exchange in (front, main, rest, headers):
    exchange.delete()
connection.release()
