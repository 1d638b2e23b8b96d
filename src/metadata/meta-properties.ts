/**
 * meta.properties: whose directory this is. Version 1, written once and then left alone, so that a Kafka's own file
 * stays as it is. A copy of ours beside it, with a checksum, tells of an altered byte.
 */
import { randomBytes } from 'node:crypto';
import { parseProperties } from '../config/properties.ts';
import type { Files } from '../log/log.ts';
import { crc32c } from '../protocol/crc32c.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';

export interface MetaProperties {
  /** Any text; a base64url uuid when we made it. */
  readonly clusterId: string;
  /** The node that the records of this directory name; ours from the moment we open it. */
  readonly nodeId: number;
  /** Base64url uuid of 22 characters. */
  readonly directoryId: string;
}

/** Node id of a directory that we make. */
export const DEFAULT_NODE_ID = 1;

const ZERO_UUID = 'AAAAAAAAAAAAAAAAAAAAAA';
const UUID = /^[A-Za-z0-9_-]{21}[AQgw]$/;

/** Directory ids up to this one are reserved by Kafka for unassigned, lost and migrating directories. */
const RESERVED_IDS = 100n;

/** A random version 4 uuid as 22 characters of base64url. It never begins with a dash, as in Kafka, so that a command
 * line never takes it for an option. */
export function randomUuid(): string {
  for (;;) {
    const bytes = randomBytes(16);
    bytes[6] = (bytes[6]! & 0x0f) | 0x40;
    bytes[8] = (bytes[8]! & 0x3f) | 0x80;
    const text = bytes.toString('base64url');
    if (!text.startsWith('-')) return text;
  }
}

export function isUuid(text: string): boolean {
  return UUID.test(text);
}

export function isZeroUuid(text: string): boolean {
  return text === ZERO_UUID;
}

function isReservedUuid(text: string): boolean {
  return BigInt(`0x${Buffer.from(text, 'base64url').toString('hex')}`) < RESERVED_IDS;
}

export function formatMetaProperties(properties: MetaProperties): string {
  return [
    'version=1',
    `cluster.id=${properties.clusterId}`,
    `node.id=${properties.nodeId}`,
    `directory.id=${properties.directoryId}`,
    '',
  ].join('\n');
}

/** Throws CORRUPT with the path and what is wrong. */
export function parseMetaProperties(
  text: string,
  path: string,
): Omit<MetaProperties, 'directoryId'> & { directoryId: string | undefined } {
  const fail = (what: string) => new BroadsheetError('CORRUPT', `${path}: ${what}`);
  const values = parseProperties(text);
  const version = values.get('version');
  if (version !== '1') {
    throw fail(
      version === '0'
        ? 'version 0 belongs to a cluster that used ZooKeeper; migrate it to KRaft with Apache Kafka first'
        : `version is ${version ?? 'missing'}, expected 1`,
    );
  }
  const clusterId = values.get('cluster.id');
  if (clusterId === undefined || clusterId === '') throw fail('cluster.id is missing');
  const nodeText = values.get('node.id') ?? '';
  const nodeId = /^\d{1,10}$/.test(nodeText) ? Number(nodeText) : Number.NaN;
  if (!(nodeId <= 0x7fffffff)) throw fail(`node.id is ${nodeText === '' ? 'missing' : `"${nodeText}"`}`);
  const directoryId = values.get('directory.id');
  if (directoryId !== undefined && (!isUuid(directoryId) || isReservedUuid(directoryId))) {
    throw fail(`directory.id "${directoryId}" is not a uuid of 22 base64url characters`);
  }
  return { clusterId, nodeId, directoryId };
}

/** What a directory's file and its copy say together. */
export interface FoundMetaProperties extends MetaProperties {
  /** Puts right what is missing or damaged; to be called once it is known that the directory is ours. */
  mend(): Promise<void>;
}

export const META_PROPERTIES_FILE = 'meta.properties';
/** Our own, with a checksum: no log has the id of the cluster. */
export const META_PROPERTIES_COPY_FILE = `${META_PROPERTIES_FILE}.copy`;
const MAX_BYTES = 64 * 1024;

function copyText(properties: MetaProperties): string {
  const text = formatMetaProperties(properties);
  return `${text}#crc32c=${crc32c(Buffer.from(text))}\n`;
}

/** Throws CORRUPT with the path and what is wrong. */
export function parseMetaPropertiesCopy(text: string, path: string): MetaProperties {
  const { directoryId, ...found } = parseMetaProperties(text, path);
  if (directoryId === undefined || copyText({ ...found, directoryId }) !== text)
    throw new BroadsheetError('CORRUPT', `${path}: the checksum does not match`);
  return { ...found, directoryId };
}

/** For a file without a copy, by an earlier version or Apache Kafka: its ids are in the metadata log, but that of the cluster. */
const REMEDY =
  'put that of a backup in its place, or write version=1, cluster.id, node.id and directory.id into it, a line each ' +
  '(node.id and directory.id are brokerId and logDirs of the last RegisterBroker in __cluster_metadata-0, see "broadsheet dump")';

async function readCopy(files: Files, dataDir: string, logger: Logger): Promise<MetaProperties | undefined> {
  const path = `${dataDir}/${META_PROPERTIES_COPY_FILE}`;
  if (!(await files.exists(path))) return undefined;
  try {
    return parseMetaPropertiesCopy((await files.read(path, MAX_BYTES)).toString('utf8'), path);
  } catch (error) {
    if (!isDamage(error)) throw error;
  }
  logger.warn({ path }, 'the copy of meta.properties is damaged and is written again');
  return undefined;
}

function isDamage(error: unknown): boolean {
  return error instanceof BroadsheetError && (error.code === 'CORRUPT' || error.code === 'LIMIT');
}

/**
 * What the directory's file says, or its copy where the file is missing or differs: then a byte of it was altered, unless both ids
 * are others, as in the file of another directory. Undefined if there is neither. Kafka before 3.7 wrote no directory.id: one
 * is added, as newer ones do. Throws CORRUPT, IO.
 */
export async function readMetaProperties(
  files: Files,
  dataDir: string,
  logger: Logger,
): Promise<FoundMetaProperties | undefined> {
  const path = `${dataDir}/${META_PROPERTIES_FILE}`;
  const copy = await readCopy(files, dataDir, logger);
  let text: string | undefined;
  let found: ReturnType<typeof parseMetaProperties> | undefined;
  let fault: unknown;
  try {
    if (await files.exists(path)) text = (await files.read(path, MAX_BYTES)).toString('utf8');
    if (text !== undefined) found = parseMetaProperties(text, path);
  } catch (error) {
    if (!isDamage(error)) throw error;
    fault = error;
  }
  const isOther =
    found !== undefined && found.clusterId !== copy?.clusterId && found.directoryId !== copy?.directoryId;
  if (copy !== undefined && !(isOther && found?.directoryId !== undefined)) {
    const properties = formatMetaProperties(copy);
    const isWhole =
      found?.directoryId !== undefined &&
      formatMetaProperties({ ...found, directoryId: found.directoryId }) === properties;
    return {
      ...copy,
      mend: async () => {
        if (isWhole) return;
        logger.warn(
          { path, reason: (fault as Error | undefined)?.message },
          'meta.properties is missing or damaged, and is written again from its copy',
        );
        await files.writeAtomic(path, properties);
      },
    };
  }
  if (fault instanceof BroadsheetError) {
    const isOfZooKeeper = text !== undefined && parseProperties(text).get('version') === '0';
    throw isOfZooKeeper ? fault : new BroadsheetError(fault.code, `${fault.message}; ${REMEDY}`);
  }
  if (text === undefined || found === undefined) return undefined;
  const properties = { ...found, directoryId: found.directoryId ?? randomUuid() };
  return {
    ...properties,
    mend: async () => {
      if (found.directoryId === undefined)
        await files.writeAtomic(
          path,
          `${text.replace(/\n?$/, '\n')}directory.id=${properties.directoryId}\n`,
        );
      await files.writeAtomic(`${dataDir}/${META_PROPERTIES_COPY_FILE}`, copyText(properties));
    },
  };
}

/** Makes the file of a new directory, durable when resolved. */
export async function createMetaProperties(
  files: Files,
  dataDir: string,
  nodeId = DEFAULT_NODE_ID,
): Promise<FoundMetaProperties> {
  const properties = { clusterId: randomUuid(), nodeId, directoryId: randomUuid() };
  await files.mkdir(dataDir);
  await files.writeAtomic(`${dataDir}/${META_PROPERTIES_FILE}`, formatMetaProperties(properties));
  return {
    ...properties,
    mend: () => files.writeAtomic(`${dataDir}/${META_PROPERTIES_COPY_FILE}`, copyText(properties)),
  };
}
