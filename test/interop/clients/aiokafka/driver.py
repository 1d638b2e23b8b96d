import asyncio
import json
import logging
import re
import sys

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from line_protocol import records_of, reply, tell_assignment, tell_error, tell_record, write

address = sys.argv[1]
logging.disable(logging.CRITICAL)


class Watch(ConsumerRebalanceListener):
    def __init__(self, driver):
        self.driver = driver

    async def on_partitions_revoked(self, revoked):
        pass

    async def on_partitions_assigned(self, assigned):
        self.driver.positions = {key: at for key, at in self.driver.positions.items() if key in assigned}
        tell_assignment(assigned)


class Driver:
    def __init__(self):
        self.producers = {}
        self.consumer = None
        self.positions = {}

    async def producer(self, codec, idempotent):
        if (codec, idempotent) not in self.producers:
            producer = AIOKafkaProducer(
                bootstrap_servers=address,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                linger_ms=20,
            )
            await producer.start()
            self.producers[codec, idempotent] = producer
        return self.producers[codec, idempotent]

    async def produce(self, topic, codec="none", idempotent=False, **what):
        producer = await self.producer(codec, idempotent)
        sent = [
            await producer.send(topic, key=key, value=value, headers=headers)
            for key, value, headers in records_of(**what)
        ]
        await asyncio.gather(*sent)

    async def join(self, group, protocol, sessionTimeoutMs, topics=None, pattern=None, instanceId=None):
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=address,
            group_id=group,
            group_instance_id=instanceId,
            session_timeout_ms=sessionTimeoutMs,
            heartbeat_interval_ms=250,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            metadata_max_age_ms=1000,
            fetch_max_wait_ms=500,
        )
        listener = Watch(self)
        if pattern is None:
            self.consumer.subscribe(topics, listener=listener)
        else:
            # The client matches from the start of a name; the pattern is to hold for all of it.
            self.consumer.subscribe(pattern=re.compile(f"(?:{pattern})$").pattern, listener=listener)
        await self.consumer.start()
        self.reading = asyncio.create_task(self.read())

    async def read(self):
        try:
            async for record in self.consumer:
                where = record.topic, record.partition
                tell_record(*where, record.offset, record.key, record.value, record.headers)
                self.positions[TopicPartition(*where)] = record.offset + 1
        except Exception as error:
            tell_error(error)

    async def commit(self):
        await self.consumer.commit(self.positions)

    async def committed(self, topics):
        held = [partition for partition in self.consumer.assignment() if partition.topic in topics]
        found = {f"{at.topic}-{at.partition}": await self.consumer.committed(at) for at in held}
        return {name: -1 if offset is None else offset for name, offset in found.items()}

    async def leave(self):
        await self.consumer.stop()
        await self.reading


async def main():
    driver = Driver()
    reader = asyncio.StreamReader(limit=1 << 24)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    write(
        {
            "event": "ready",
            "client": f"aiokafka {aiokafka.__version__}",
            "codecs": ["none", "gzip", "snappy", "lz4", "zstd"],
            "protocols": ["classic"],
            "features": ["idempotent", "static", "regex", "regex-later"],
        }
    )
    while line := await reader.readline():
        command = json.loads(line)
        number, name = command.pop("id"), command.pop("cmd")
        try:
            reply(number, await getattr(driver, name)(**command))
        except Exception as error:
            reply(number, error=repr(error))


asyncio.run(main())
