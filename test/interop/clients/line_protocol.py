"""The drivers' side of the line protocol, for Python: docs in README.md beside this file."""

import json
import sys


def write(message):
    # One write per line: threads of a client may speak at once.
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def tell_assignment(partitions):
    """All partitions that the member holds now, as pairs of topic and number."""
    write({"event": "assignment", "partitions": [f"{topic}-{number}" for topic, number in partitions]})


def tell_record(topic, partition, offset, key, value, headers):
    write(
        {
            "event": "record",
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "key": text(key),
            "value": text(value),
            "headers": {name: text(to) for name, to in headers or ()},
        }
    )


def tell_error(error):
    """What an application would be told."""
    write({"event": "error", "message": repr(error)})


def reply(number, result=None, error=None):
    write({"reply": number, "result": result or {}} if error is None else {"reply": number, "error": error})


def text(data):
    return None if data is None else data.decode()


class Inbox:
    """Records that the member was told of and that are in no committed transaction."""

    def __init__(self):
        self.records = []
        self.next = {}
        self.taken = 0

    def add(self, topic, partition, offset, key, value, headers):
        # Of a record that comes again, after a rebalance, only the first counts.
        if offset >= self.next.get((topic, partition), 0):
            self.next[topic, partition] = offset + 1
            self.records.append((topic, partition, offset, key, value, headers))

    def take(self):
        """All, for the transaction that is open."""
        self.taken = len(self.records)
        return list(self.records)

    def ended(self, committed):
        """What an aborted transaction had is there again for the next one."""
        if committed:
            del self.records[: self.taken]
        self.taken = 0


def offsets_after(records):
    """The positions after records, by topic and partition."""
    return {(topic, partition): offset + 1 for topic, partition, offset, *_ in records}


def transformed(value):
    """What a transform command makes of a value."""
    return value.decode().upper().encode()


def padded(start, size):
    return start + ("=+" * (size // 2 + 1))[: max(0, size - len(start))]


def records_of(count, prefix, size=0, nulls=False):
    """Key, value and headers of each record that a produce command asks for."""
    for n in range(count):
        key = None if nulls and n % 10 == 9 else f"{prefix}key {n}".encode()
        value = None if nulls and n % 10 == 8 else padded(f"{prefix}{n} ", size).encode()
        yield key, value, [("n", str(n).encode()), ("from", prefix.encode())]
