import json
import queue
import sys
import threading

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from line_protocol import records_of, reply, tell_assignment, tell_error, tell_record, write

address = sys.argv[1]
COMMON = {
    "bootstrap.servers": address,
    "topic.metadata.refresh.interval.ms": 1000,
    "reconnect.backoff.max.ms": 500,
    "log_level": 0,
}
# Errors that librdkafka gets over by itself; it tells of them for information.
PASSING = ("_TRANSPORT", "_ALL_BROKERS_DOWN")


class Driver:
    def __init__(self):
        self.producers = {}
        self.consumer = None
        self.positions = {}

    def producer(self, codec, idempotent):
        if (codec, idempotent) not in self.producers:
            more = {"compression.type": codec, "enable.idempotence": idempotent, "linger.ms": 20}
            self.producers[codec, idempotent] = Producer({**COMMON, **more})
        return self.producers[codec, idempotent]

    def produce(self, topic, codec="none", idempotent=False, **what):
        producer, failures = self.producer(codec, idempotent), []

        def delivered(error, _message):
            if error is not None:
                failures.append(error)

        for key, value, headers in records_of(**what):
            producer.produce(topic, key=key, value=value, headers=headers, on_delivery=delivered)
            producer.poll(0)
        if producer.flush(60) > 0:
            raise RuntimeError("not all records were delivered in time")
        if failures:
            raise KafkaException(failures[0])

    def join(self, group, protocol, sessionTimeoutMs, topics=None, pattern=None, instanceId=None):
        config = {
            **COMMON,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 500,
            "error_cb": lambda error: None if error.name() in PASSING else tell_error(error),
        }
        if protocol == "consumer":
            config["group.protocol"] = "consumer"
        else:
            config["session.timeout.ms"] = sessionTimeoutMs
            config["heartbeat.interval.ms"] = 250
            assignor = "cooperative-sticky" if protocol == "cooperative" else "range"
            config["partition.assignment.strategy"] = assignor
        if instanceId is not None:
            config["group.instance.id"] = instanceId
        self.consumer = Consumer(config)
        self.told = []
        self.consumer.subscribe(topics if pattern is None else [pattern])

    def commit(self):
        offsets = [TopicPartition(topic, number, at) for (topic, number), at in self.positions.items()]
        self.consumer.commit(offsets=offsets, asynchronous=False)

    def committed(self, topics):
        wanted = [held for held in self.consumer.assignment() if held.topic in topics]
        found = self.consumer.committed(wanted, timeout=10)
        return {f"{at.topic}-{at.partition}": at.offset for at in found}

    def leave(self):
        self.consumer.close()
        self.consumer = None

    def poll(self):
        """Lets the member live for a moment."""
        message = self.consumer.poll(0.02)
        held = sorted((partition.topic, partition.partition) for partition in self.consumer.assignment())
        if held != self.told:
            self.told = held
            self.positions = {key: at for key, at in self.positions.items() if key in held}
            tell_assignment(held)
        if message is None:
            return
        if message.error() is not None:
            if message.error().name() not in PASSING:
                tell_error(message.error())
            return
        where = message.topic(), message.partition()
        tell_record(*where, message.offset(), message.key(), message.value(), message.headers())
        self.positions[where] = message.offset() + 1


def main():
    driver, lines = Driver(), queue.Queue()

    def read():
        for line in sys.stdin:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    write(
        {
            "event": "ready",
            "client": f"confluent-kafka {confluent_kafka.__version__}, "
            f"librdkafka {confluent_kafka.libversion()[0]}, for Python",
            "codecs": ["none", "gzip", "snappy", "lz4", "zstd"],
            "protocols": ["classic", "cooperative", "consumer"],
            "features": ["idempotent", "static", "static-consumer", "regex", "regex-later"],
        }
    )
    while True:
        try:
            line = lines.get(block=driver.consumer is None)
        except queue.Empty:
            driver.poll()
            continue
        if line is None:
            return
        command = json.loads(line)
        number, name = command.pop("id"), command.pop("cmd")
        try:
            reply(number, getattr(driver, name)(**command))
        except Exception as error:
            reply(number, error=repr(error))


main()
