/** Bit fields of what a client may do on a resource, as answers hold them; the bits are Kafka's AclOperation codes. Without
 * an authoriser a client may do all that there is. */

/** READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS. */
export const TOPIC_OPERATIONS = 0xdf8;
/** CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE. */
export const CLUSTER_OPERATIONS = 0x1fa0;
