import asyncio
import json
import logging
import re
import sys

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
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
        self.inbox = Inbox()
        self.transactional = None

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

    async def init(self, transactionalId, timeoutMs):
        self.transactional = AIOKafkaProducer(
            bootstrap_servers=address,
            transactional_id=transactionalId,
            transaction_timeout_ms=timeoutMs,
            linger_ms=20,
        )
        await self.transactional.start()

    async def begin(self):
        await self.transactional.begin_transaction()

    async def send(self, topic, partitions, **what):
        sent = [
            await self.transactional.send(
                topic, partition=n % partitions, key=key, value=value, headers=headers
            )
            for n, (key, value, headers) in enumerate(records_of(**what))
        ]
        await asyncio.gather(*sent)

    async def transform(self, topic, count):
        while len(self.inbox.records) < count:
            await asyncio.sleep(0.005)
        records = self.inbox.take()
        sent = [
            await self.transactional.send(
                topic, partition=partition, key=key, value=transformed(value), headers=list(headers)
            )
            for _, partition, _, key, value, headers in records
        ]
        await asyncio.gather(*sent)
        offsets = {TopicPartition(*where): at for where, at in offsets_after(records).items()}
        await self.transactional.send_offsets_to_transaction(offsets, self.group)

    async def end(self, commit):
        producer = self.transactional
        await (producer.commit_transaction() if commit else producer.abort_transaction())
        self.inbox.ended(commit)

    async def join(
        self,
        group,
        protocol,
        sessionTimeoutMs,
        topics=None,
        pattern=None,
        instanceId=None,
        isolation="read_uncommitted",
    ):
        self.group = group
        self.inbox = Inbox()
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
            isolation_level=isolation,
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
                told = *where, record.offset, record.key, record.value, record.headers
                tell_record(*told)
                self.inbox.add(*told)
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
            "features": ["idempotent", "transactions", "static", "regex", "regex-later"],
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
