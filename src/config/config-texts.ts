/** One line on each configuration key, for DescribeConfigs with documentation. Loaded when a client first asks. */

const TOPIC_TEXTS: Readonly<Record<string, string>> = {
  'cleanup.policy':
    'delete drops old segments whole, compact keeps the newest record of each key; both may be set.',
  'compression.gzip.level':
    'Level 1 (fast) to 9 (small) for batches that are compressed anew with gzip; -1 is its default.',
  'compression.lz4.level': 'Level 1 to 17 for batches that are compressed anew with lz4.',
  'compression.type': 'Codec in which batches are stored; producer leaves them as they came.',
  'compression.zstd.level':
    'Level up to 22 for batches that are compressed anew with zstd; below 1 is faster and larger.',
  'delete.retention.ms': 'How long compaction keeps a tombstone, in ms.',
  'errors.deadletterqueue.group.enable':
    'Whether share groups may use this topic as their dead letter queue.',
  'file.delete.delay.ms': 'How long the files of what was deleted stay on disk, in ms.',
  'flush.messages':
    'Records after which the log is flushed to disk; 1 has every acknowledgement wait for the disk.',
  'flush.ms': 'Longest time that an appended record stays unflushed, in ms.',
  'follower.replication.throttled.replicas': 'Replicas whose copying is slowed down on the following side.',
  'index.interval.bytes': 'Bytes of log between two entries of an index.',
  'internal.segment.bytes': 'Size of a segment below the minimum of segment.bytes, for tests.',
  'leader.replication.throttled.replicas': 'Replicas whose copying is slowed down on the leading side.',
  'local.retention.bytes':
    'Bytes kept on local disk of a topic with tiered storage; -2 follows retention.bytes.',
  'local.retention.ms':
    'Time that records stay on local disk with tiered storage, in ms; -2 follows retention.ms.',
  'max.compaction.lag.ms': 'Longest time that a record waits to be compacted, in ms.',
  'max.decompressed.message.bytes': 'Most bytes that one batch may unpack to.',
  'max.message.bytes': 'Most bytes of one batch, as it was sent.',
  'message.timestamp.after.max.ms': 'How far ahead of the broker a timestamp may be, in ms.',
  'message.timestamp.before.max.ms': 'How far behind the broker a timestamp may be, in ms.',
  'message.timestamp.type': "CreateTime keeps the producer's timestamps, LogAppendTime stores the broker's.",
  'min.cleanable.dirty.ratio': 'Share of a log that must be uncompacted before compaction begins.',
  'min.compaction.lag.ms': 'Shortest time that a record stays uncompacted, in ms.',
  'min.insync.replicas': 'Replicas that must be in sync for a write with acks=all to be taken.',
  preallocate: 'Whether a new segment takes its full size on disk at once.',
  'remote.copy.lag.bytes': 'Bytes that a closed segment may lag before it is copied to tiered storage.',
  'remote.copy.lag.ms': 'Time that a closed segment may lag before it is copied to tiered storage, in ms.',
  'remote.log.copy.disable': 'Whether copying to tiered storage stops and what is there only expires.',
  'remote.log.delete.on.disable': 'Whether turning tiered storage off deletes what is in it.',
  'remote.storage.enable': 'Whether closed segments go to tiered storage.',
  'retention.bytes': 'Bytes kept of one partition before its oldest segments go; -1 is no limit.',
  'retention.ms': 'How long records are kept, in ms; -1 is forever.',
  'segment.bytes': 'Bytes after which a new segment file begins.',
  'segment.index.bytes': 'Most bytes of one index file.',
  'segment.jitter.ms':
    'Random part that segment.ms is shortened by, in ms, so that segments do not all roll at once.',
  'segment.ms': 'Age after which a new segment file begins, in ms.',
  'unclean.leader.election.enable':
    'Whether a replica that is out of sync may become leader, at the price of lost records.',
};

const GROUP_TEXTS: Readonly<Record<string, string>> = {
  'consumer.assignment.interval.ms': 'Shortest time between two assignments of a consumer group, in ms.',
  'consumer.assignor.offload.enable': 'Whether assignments are computed beside the coordinator.',
  'consumer.heartbeat.interval.ms': 'Time between two heartbeats of a member, in ms.',
  'consumer.session.timeout.ms': 'Silence after which a member is removed, in ms.',
  'errors.deadletterqueue.copy.record.enable': 'Whether a dead letter holds the whole record.',
  'errors.deadletterqueue.topic.name': "Topic of the share group's dead letters; empty is none.",
  'share.assignment.interval.ms': 'Shortest time between two assignments of a share group, in ms.',
  'share.assignor.offload.enable': 'Whether assignments are computed beside the coordinator.',
  'share.auto.offset.reset':
    'Where a share group begins to read: latest, earliest or by_duration and an ISO 8601 duration.',
  'share.delivery.count.limit': 'How often one record is delivered at most.',
  'share.heartbeat.interval.ms': 'Time between two heartbeats of a member, in ms.',
  'share.isolation.level': 'Whether members see records of transactions that are not committed.',
  'share.partition.max.record.locks': 'Most records of one partition that may be out for delivery.',
  'share.record.lock.duration.ms': 'How long a member may hold a record, in ms.',
  'share.renew.acknowledge.enable': 'Whether a member may ask to hold a record longer.',
  'share.session.timeout.ms': 'Silence after which a member is removed, in ms.',
  'streams.acceptable.recovery.lag': 'Most records that a task may lag behind to count as caught up.',
  'streams.assignment.interval.ms': 'Shortest time between two assignments of a streams group, in ms.',
  'streams.assignor.name': 'Which assignor places the tasks.',
  'streams.assignor.offload.enable': 'Whether assignments are computed beside the coordinator.',
  'streams.heartbeat.interval.ms': 'Time between two heartbeats of a member, in ms.',
  'streams.initial.rebalance.delay.ms': 'How long a new streams group waits for more members, in ms.',
  'streams.num.standby.replicas': 'Standby copies of each task.',
  'streams.num.warmup.replicas': 'Most extra copies that warm up at a time.',
  'streams.rack.aware.assignment.tags': 'Tags of clients over which standby copies are spread.',
  'streams.session.timeout.ms': 'Silence after which a member is removed, in ms.',
  'streams.task.offset.interval.ms': 'Time between two reports of task offsets, in ms.',
};

const CLIENT_METRICS_TEXTS: Readonly<Record<string, string>> = {
  'interval.ms': 'How often a matching client is to push its metrics, in ms.',
  match: 'Which clients are meant: attribute=regular expression, separated by commas.',
  metrics: 'Prefixes of the names of the metrics wanted.',
};

const BROKER_TEXTS: Readonly<Record<string, string>> = {
  'advertised.listeners': 'Addresses that clients are told to connect to, where they differ from listeners.',
  'auto.create.topics.enable': 'Whether a topic that a client names and that is missing is made.',
  'broker.id': 'Number of this broker; node.id wins.',
  'broker.rack': 'Rack of this broker, as clients are told it.',
  'connection.max.queued.bytes':
    'Bytes of requests of one connection that may wait before it is not read any more.',
  'group.member.removal.on.disconnect':
    'Whether a dynamic member of a group is removed as soon as its connection to the broker closes, instead of when its session times out.',
  'connection.max.queued.requests':
    'Requests of one connection that may wait before it is not read any more.',
  'connections.max.idle.ms': 'Silence after which a connection is closed, in ms.',
  'controller.listener.names': 'Listeners that are for controllers; no client is told of them.',
  'delete.topic.enable': 'Whether topics may be deleted.',
  engine: 'What keeps the logs: native (the addon) or js; auto is native where the addon loads.',
  'fetch.max.bytes': 'Most bytes of one fetch answer; the first batch comes whole.',
  'fetch.path': 'How fetched bytes leave: by sendfile, by copy, or as fits best.',
  'group.consumer.assignors': 'Assignors that consumer groups may use, the default first.',
  'group.consumer.max.size': 'Most members of one consumer group.',
  'group.consumer.migration.policy':
    'In which direction groups may move between the classic and the consumer protocol.',
  'group.coordinator.rebalance.protocols': 'Protocols that groups may use.',
  'group.initial.rebalance.delay.ms': 'How long a new classic group waits for more members, in ms.',
  'group.max.session.timeout.ms': 'Longest session timeout that a classic member may ask for, in ms.',
  'group.max.size': 'Most members of one classic group.',
  'group.min.session.timeout.ms': 'Shortest session timeout that a classic member may ask for, in ms.',
  'listener.security.protocol.map': 'Security protocol of each listener name.',
  listeners: 'Where the broker listens: NAME://host:port, separated by commas.',
  'log.cleaner.backoff.ms': 'How long the log cleaner rests when no log needs it, in ms.',
  'log.cleaner.dedupe.buffer.size': 'Memory of the map of keys of one compaction, in bytes: 24 a key.',
  'log.cleaner.enable': 'Whether topics with cleanup.policy=compact are compacted.',
  'log.cleaner.io.buffer.load.factor': 'How full the map of keys gets.',
  'log.cleaner.io.max.bytes.per.second':
    'What the log cleaner reads and writes at most, in bytes per second.',
  'log.cleaner.threads': 'Threads of the log cleaner; taken and shown, of no effect here.',
  'log.dir': 'Directory of the data; log.dirs wins.',
  'log.dirs': 'Directory of the data.',
  'log.disk.max.bytes':
    'Bytes that the segments of all topics together may take before the oldest closed ones go, those of compacted topics aside; -1 is no limit.',
  'log.disk.reserve.bytes':
    'Bytes of the file system below which records are refused, so that commits and deletes go on; -1: 64 MiB, or a twentieth of it where that is less.',
  'log.flush.dirty.bytes':
    'Bytes written to all logs together since the last flush after which a flush of them begins.',
  'log.flush.offset.checkpoint.interval.ms': 'Time between two writes of the recovery points, in ms.',
  'log.initial.task.delay.ms': 'Time from a start to the first search for segments to delete, in ms.',
  'log.retention.check.interval.ms': 'Time between two searches for segments to delete or to close, in ms.',
  'log.flush.scheduler.interval.ms':
    'Longest time that an appended record stays unflushed where log.flush.interval.ms is not set, in ms.',
  'log.flush.start.offset.checkpoint.interval.ms': 'Time between two writes of the log start offsets, in ms.',
  'log.retention.hours':
    'How long records are kept, in hours; log.retention.minutes and log.retention.ms win.',
  'log.retention.minutes': 'How long records are kept, in minutes; log.retention.ms wins.',
  'log.roll.hours': 'Age after which a new segment file begins, in hours; log.roll.ms wins.',
  'log.roll.jitter.hours':
    'Random part that log.roll.hours is shortened by, in hours; log.roll.jitter.ms wins.',
  'max.connections': 'Most connections at a time; more wait to be accepted.',
  'max.connections.per.ip': 'Most connections from one address.',
  'max.connections.per.ip.overrides':
    'Other limits for single addresses: address:count, separated by commas.',
  'max.incremental.fetch.session.cache.slots': 'Most fetch sessions kept at a time.',
  'max.request.partition.size.limit': 'Most partitions that one DescribeTopicPartitions answer holds.',
  'metadata.log.dir': 'Directory of the metadata log; here always that of the data.',
  'metadata.log.max.record.bytes.between.snapshots':
    'Bytes of new records in the metadata log after which a snapshot of it is made.',
  'metadata.log.max.snapshot.interval.ms':
    'Most time between two snapshots of a metadata log that grows, in ms; 0: none by time.',
  'metadata.log.segment.bytes': 'Largest segment file of the metadata log, in bytes.',
  'metadata.log.segment.ms': 'Age after which the metadata log begins a new segment file, in ms.',
  'metadata.max.retention.bytes':
    'Size of the metadata log with its snapshots above which the oldest of both are deleted, in bytes.',
  'metadata.max.retention.ms': 'Age above which old snapshots of the metadata log are deleted, in ms.',
  'node.id': 'Number of this node.',
  'num.partitions': 'Partitions of a topic that is made without saying how many.',
  'offset.metadata.max.bytes': 'Most bytes of text that may be committed with an offset.',
  'offsets.retention.check.interval.ms': 'Time between two searches for offsets to expire, in ms.',
  'offsets.retention.minutes':
    'How long the offsets of an empty group, or of a topic it left, are kept, in minutes.',
  'offsets.topic.compression.codec': 'Codec in which committed offsets are stored, by its number.',
  'offsets.topic.num.partitions': 'Partitions of __consumer_offsets when it is made.',
  'offsets.topic.segment.bytes': 'segment.bytes of __consumer_offsets when it is made.',
  'process.roles': 'What this node does; here always both broker and controller.',
  'producer.id.expiration.check.interval.ms': 'Time between two searches for producers to forget, in ms.',
  'producer.id.expiration.ms': 'Silence after which a producer is forgotten, in ms.',
  'replica.high.watermark.checkpoint.interval.ms': 'Time between two writes of the high watermarks, in ms.',
  'socket.receive.buffer.bytes': "Receive buffer of a connection in bytes; -1 is the system's own.",
  'socket.request.max.bytes': 'Most bytes of one request.',
  'socket.send.buffer.bytes': "Send buffer of a connection in bytes; -1 is the system's own.",
  'transaction.abort.timed.out.transaction.cleanup.interval.ms':
    'Time between looks for transactions whose timeout is over, in ms; where it is not set, each is aborted on time.',
  'transaction.partition.verification.enable':
    'Whether partitions of a transactional produce must have been added to the transaction.',
  'transaction.remove.expired.transaction.cleanup.interval.ms':
    'Time between looks for transactional ids to forget, in ms.',
  'transaction.state.log.min.isr': 'min.insync.replicas of __transaction_state when it is made.',
  'transaction.state.log.num.partitions': 'Partitions of __transaction_state when it is made.',
  'transaction.state.log.segment.bytes': 'segment.bytes of __transaction_state when it is made.',
  'transactional.id.expiration.ms': 'Time without use after which a transactional id is forgotten, in ms.',
  transport: 'What serves the sockets: native (the addon) or js; auto is as the engine.',
  'transaction.max.timeout.ms': 'Longest timeout that a transaction may ask for, in ms.',
};

/** ConfigResource codes. */
const [TOPIC, BROKER, CLIENT_METRICS, GROUP] = [2, 4, 16, 32];

/** The text on a key, null where there is none. A broker key that gives topics or groups their default is explained by
 * theirs. */
export function configText(
  resourceType: number,
  key: string,
  inheritedBy: (brokerKey: string) => string | undefined,
): string | null {
  switch (resourceType) {
    case TOPIC:
      return TOPIC_TEXTS[key] ?? null;
    case GROUP:
      return GROUP_TEXTS[key] ?? null;
    case CLIENT_METRICS:
      return CLIENT_METRICS_TEXTS[key] ?? null;
    case BROKER: {
      const own = BROKER_TEXTS[key];
      const heir = own === undefined ? inheritedBy(key) : undefined;
      if (heir === undefined) return own ?? null;
      return `Default of ${heir}: ${TOPIC_TEXTS[heir] ?? GROUP_TEXTS[heir] ?? ''}`;
    }
    default:
      return null;
  }
}
