/**
 * Fetch (key 1), versions 4-18, without sessions: records from an offset on, up to the high watermark or, under
 * read_committed, the last stable offset. Waits until there are min bytes, or max wait has passed, or another request
 * arrives on the connection. The first batch found is always sent whole; the rest keeps to the client's limits and to
 * fetch.max.bytes.
 *
 * - v5 adds the log start offset, v7 sessions (this broker opens none: every fetch is answered in full with session id 0,
 *   which clients take for "no session"), v9 leader epochs, v11 the rack, v12 the last fetched epoch and what diverges.
 * - v13 names topics by id. v15 moves the replica id into a tagged field.
 *
 * Errors of the whole request: FETCH_SESSION_ID_NOT_FOUND (a session that goes on), INVALID_REQUEST (an unknown isolation
 * level). Per partition: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, OFFSET_OUT_OF_RANGE, FENCED_LEADER_EPOCH,
 * UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER (to replicas, of which there are none), and
 * UNSUPPORTED_VERSION for read_committed on a partition with transactional data, which this version cannot judge.
 */
