/**
 * meta.properties: whose directory this is. Version 1, written once and then left alone, so that a Kafka's own file
 * stays as it is.
 */
import { randomBytes } from 'node:crypto';
import { parseProperties } from '../config/properties.ts';
import type { Files } from '../log/log.ts';
import { BroadsheetError } from '../runtime/errors.ts';

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

/**
 * The directory's file, or undefined if there is none. Kafka before 3.7 wrote no directory.id: one is added, as newer
 * ones do. Throws CORRUPT, IO.
 */
export async function readMetaProperties(files: Files, dataDir: string): Promise<MetaProperties | undefined> {
  const path = `${dataDir}/meta.properties`;
  if (!(await files.exists(path))) return undefined;
  const text = (await files.read(path, 64 * 1024)).toString('utf8');
  const found = parseMetaProperties(text, path);
  if (found.directoryId !== undefined) return { ...found, directoryId: found.directoryId };
  const directoryId = randomUuid();
  await files.writeAtomic(path, `${text.replace(/\n?$/, '\n')}directory.id=${directoryId}\n`);
  return { ...found, directoryId };
}

/** Makes the file of a new directory, durable when resolved. */
export async function createMetaProperties(
  files: Files,
  dataDir: string,
  nodeId = DEFAULT_NODE_ID,
): Promise<MetaProperties> {
  const properties = { clusterId: randomUuid(), nodeId, directoryId: randomUuid() };
  await files.mkdir(dataDir);
  await files.writeAtomic(`${dataDir}/meta.properties`, formatMetaProperties(properties));
  return properties;
}
