import json
import queue
import sys
import threading

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from line_protocol import (
    Inbox,
    offsets_after,
    records_of,
    reply,
    tell_assignment,
    tell_error,
    tell_record,
    transformed,
    write,
)

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
        self.inbox = Inbox()
        self.transactional = None

    def producer(self, codec, idempotent):
        if (codec, idempotent) not in self.producers:
            more = {"compression.type": codec, "enable.idempotence": idempotent, "linger.ms": 20}
            self.producers[codec, idempotent] = Producer({**COMMON, **more})
        return self.producers[codec, idempotent]

    def produce(self, topic, codec="none", idempotent=False, **what):
        records = [(-1, *record) for record in records_of(**what)]
        self.deliver(self.producer(codec, idempotent), topic, records)

    def deliver(self, producer, topic, records):
        failures = []

        def delivered(error, _message):
            if error is not None:
                failures.append(error)

        for partition, key, value, headers in records:
            producer.produce(
                topic, partition=partition, key=key, value=value, headers=headers, on_delivery=delivered
            )
            producer.poll(0)
        if producer.flush(60) > 0:
            raise RuntimeError("not all records were delivered in time")
        if failures:
            raise KafkaException(failures[0])

    def init(self, transactionalId, timeoutMs):
        more = {"transactional.id": transactionalId, "transaction.timeout.ms": timeoutMs, "linger.ms": 20}
        self.transactional = Producer({**COMMON, **more})
        self.patiently(self.transactional.init_transactions)

    def patiently(self, call, *args):
        """What the library says may be tried again, it is for the application to try again."""
        while True:
            try:
                return call(*args, 30)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def begin(self):
        self.transactional.begin_transaction()

    def send(self, topic, partitions, **what):
        records = [(n % partitions, *record) for n, record in enumerate(records_of(**what))]
        self.deliver(self.transactional, topic, records)

    def transform(self, topic, count):
        while len(self.inbox.records) < count:
            self.poll()
        records = self.inbox.take()
        made = [
            (partition, key, transformed(value), headers) for _, partition, _, key, value, headers in records
        ]
        self.deliver(self.transactional, topic, made)
        offsets = [TopicPartition(*where, at) for where, at in offsets_after(records).items()]
        group = self.consumer.consumer_group_metadata()
        self.patiently(self.transactional.send_offsets_to_transaction, offsets, group)

    def end(self, commit):
        producer = self.transactional
        self.patiently(producer.commit_transaction if commit else producer.abort_transaction)
        self.inbox.ended(commit)

    def join(
        self,
        group,
        protocol,
        sessionTimeoutMs,
        topics=None,
        pattern=None,
        instanceId=None,
        isolation="read_uncommitted",
    ):
        config = {
            **COMMON,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 500,
            "isolation.level": isolation,
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
        self.inbox = Inbox()
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
        record = *where, message.offset(), message.key(), message.value(), message.headers()
        tell_record(*record)
        self.inbox.add(*record)
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
            "features": ["idempotent", "transactions", "transactions-consumer", "static", "static-consumer", "regex", "regex-later"],
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
