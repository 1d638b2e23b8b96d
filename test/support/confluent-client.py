"""confluent-kafka (librdkafka) against a broker: `write ADDRESS COUNT` produces with every codec and every acks, `read
ADDRESS COUNT` reads all of it with assigned partitions and compares, `admin ADDRESS` creates and deletes topics. What is
not as it should be is an AssertionError."""

import sys
import time

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
ACKS = ["0", "1", "all"]
PARTITIONS = 3
BASE_TIME = 1_700_000_000_000
WAIT_S = 120


def topics():
    """Name and settings of the producer for each topic."""
    for codec in CODECS:
        yield f"python-{codec}", {"compression.type": codec, "enable.idempotence": True}
    for acks in ACKS:
        yield f"python-acks-{acks}", {"acks": acks}


def record(topic, n):
    """The n-th record of a topic: key, value, headers, timestamp."""
    key = None if n % 7 == 0 else f"key-{n % 100}".encode()
    value = None if n % 11 == 0 else f"{topic} {n} ".encode() * (1 + n % 5)
    headers = [] if n % 3 == 0 else [("kind", b"test"), ("number", str(n).encode()), ("none", None)]
    return key, value, headers, BASE_TIME + n // PARTITIONS * 10


def write(address, count):
    admin = AdminClient({"bootstrap.servers": address})
    names = [name for name, _ in topics()]
    for future in admin.create_topics([NewTopic(name, PARTITIONS) for name in names]).values():
        future.result(WAIT_S)
    for topic, settings in topics():
        producer = Producer({"bootstrap.servers": address, **settings})
        delivered = []

        def on_delivery(error, message):
            assert error is None, f"{topic}: {error}"
            delivered.append((message.partition(), message.offset()))

        for n in range(count):
            key, value, headers, timestamp = record(topic, n)
            options = {"partition": n % PARTITIONS, "headers": headers, "timestamp": timestamp, "on_delivery": on_delivery}
            while True:
                try:
                    producer.produce(topic, value, key, **options)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(WAIT_S) == 0, f"{topic}: not all was delivered"
        assert len(delivered) == count, f"{topic}: {len(delivered)} deliveries of {count}"
        if settings.get("acks") != "0":
            for partition in range(PARTITIONS):
                offsets = sorted(offset for at, offset in delivered if at == partition)
                assert offsets == list(range(len(offsets))), f"{topic}-{partition}: offsets are not dense"


def read(address, count):
    settings = {"bootstrap.servers": address, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    for topic, _ in topics():
        each = [len(range(partition, count, PARTITIONS)) for partition in range(PARTITIONS)]
        for partition, expected in enumerate(each):
            marks = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=WAIT_S)
            assert marks == (0, expected), f"{topic}-{partition}: watermarks {marks}, not {(0, expected)}"
            middle = expected // 2
            asked = {
                BASE_TIME - 5: 0,
                BASE_TIME: 0,
                BASE_TIME + middle * 10: middle,
                BASE_TIME + middle * 10 - 9: middle,
                BASE_TIME + expected * 10: OFFSET_END,
            }
            for timestamp, offset in asked.items():
                found = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], timeout=WAIT_S)[0]
                assert found.error is None and found.offset == offset, f"{topic}-{partition}: {timestamp}: {found}"
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        next_offset = [0] * PARTITIONS
        ended = set()
        deadline = time.monotonic() + WAIT_S
        while len(ended) < PARTITIONS:
            assert time.monotonic() < deadline, f"{topic}: stopped at {next_offset} of {each}"
            message = consumer.poll(1)
            if message is None:
                continue
            partition = message.partition()
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(partition)
                continue
            offset = next_offset[partition]
            next_offset[partition] += 1
            expected = record(topic, offset * PARTITIONS + partition)
            found = (message.key(), message.value(), message.headers() or [], message.timestamp()[1])
            assert message.offset() == offset and found == expected, f"{topic}-{partition}@{offset}: {found}, not {expected}"
        assert next_offset == each, f"{topic}: ends at {next_offset}, not {each}"
    consumer.close()


def refusal(future):
    try:
        future.result(WAIT_S)
    except KafkaException as error:
        return error.args[0].code()
    return None


def admin(address):
    client = AdminClient({"bootstrap.servers": address})
    name = "python-admin"

    def create(partitions, **config):
        return client.create_topics([NewTopic(name, partitions, config=config)])[name]

    for partitions in (5, 2):
        assert refusal(create(partitions, **{"retention.ms": "-1"})) is None
        found = client.list_topics(name, timeout=WAIT_S).topics[name]
        assert found.error is None and len(found.partitions) == partitions, found
        assert refusal(create(1)) == KafkaError.TOPIC_ALREADY_EXISTS
        # The name is free when the answer arrives: the second round creates it again at once.
        assert refusal(client.delete_topics([name])[name]) is None
        assert name not in client.list_topics(timeout=WAIT_S).topics
    assert refusal(create(1, **{"segment.bytes": "nonsense"})) == KafkaError.INVALID_CONFIG
    assert refusal(client.delete_topics([name])[name]) == KafkaError.UNKNOWN_TOPIC_OR_PART


if __name__ == "__main__":
    command, address, *rest = sys.argv[1:]
    {"write": write, "read": read, "admin": admin}[command](address, *map(int, rest))
    print(command, "passed")
