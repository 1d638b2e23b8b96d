"""Two consumers of confluent-kafka in one group: they share the partitions of a topic, read it all, commit; one leaves,
the other takes all; a third that comes later begins where they stopped. Usage: ADDRESS TOPIC COUNT PARTITIONS GROUP"""

import sys
import time

from confluent_kafka import Consumer

address, topic, count, partitions, group = sys.argv[1:]
DEADLINE = time.monotonic() + 60


def consumer(**more):
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            **more,
        }
    )


def poll(who, values):
    assert time.monotonic() < DEADLINE, f"only {len(values)} records came"
    message = who.poll(0.05)
    if message is not None:
        assert message.error() is None, message.error()
        values.append(message.value())


def until(condition, consumers, values):
    while not condition():
        for who in consumers:
            poll(who, values)


first, second = consumer(), consumer(**{"group.instance.id": "second"})
values = []
for who in (first, second):
    who.subscribe([topic])
half = int(partitions) // 2
until(lambda: len(first.assignment()) == half and len(second.assignment()) == half, (first, second), values)
until(lambda: len(set(values)) >= int(count), (first, second), values)
assert len(set(values)) == int(count)
for who in (first, second):
    who.commit(asynchronous=False)
first.close()
# A static member that goes is not missed until its session ends.
second.close()
third = consumer()
third.subscribe([topic])
late = []
until(lambda: len(third.assignment()) == int(partitions), (third,), late)
for _ in range(20):
    poll(third, late)
assert late == [], late
third.close()
print("group passed")
