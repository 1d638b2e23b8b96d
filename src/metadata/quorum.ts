/**
 * The quorum of one: what the control records of the metadata log say of its voters, and the records that a new epoch
 * begins with.
 */
import {
  readKRaftVersionRecord,
  readLeaderChangeMessage,
  readVotersRecord,
  type VotersRecordVoter,
  writeKRaftVersionRecord,
  writeLeaderChangeMessage,
  writeVotersRecord,
} from '../protocol/generated/control.ts';
import { Reader } from '../protocol/reader.ts';
import { ControlType } from '../protocol/records/control.ts';
import { Writer } from '../protocol/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { JournalRecord } from './journal.ts';

const KEY_VERSION = 0;
/** Every control record is written at version 0: version 1 of LeaderChange is fatal to Kafka (seen). */
const VALUE_VERSION = 0;

/** The type in a control record's key. Throws CORRUPT. */
export function controlTypeOf(key: Uint8Array | null): number {
  const reader = new Reader(key ?? undefined);
  if (reader.remaining < 4) throw new BroadsheetError('CORRUPT', 'a control record has no type');
  reader.int16();
  return reader.int16();
}

/** A control record of a type, its value as written. */
export function control(type: number, write: (writer: Writer) => void): JournalRecord {
  const key = new Writer(4);
  key.int16(KEY_VERSION);
  key.int16(type);
  const value = new Writer(128);
  write(value);
  return { key: key.bytes(), value: value.bytes() };
}

export class Quorum {
  readonly #nodeId: number;
  readonly #directoryId: string;
  /** 0 when the voters are named by configuration alone. */
  kraftVersion = 0;
  voters: VotersRecordVoter[] = [];
  /** Node ids that the last election named. */
  #electors: readonly number[] = [];

  constructor(nodeId: number, directoryId: string) {
    this.#nodeId = nodeId;
    this.#directoryId = directoryId;
  }

  /** Takes one control record of the log or a snapshot; returns its type. Throws CORRUPT. */
  apply(key: Uint8Array | null, value: Uint8Array | null): number {
    const type = controlTypeOf(key);
    const reader = new Reader(value ?? undefined);
    switch (type) {
      case ControlType.LEADER_CHANGE:
        this.#electors = readLeaderChangeMessage(reader, VALUE_VERSION).voters.map(({ voterId }) => voterId);
        break;
      case ControlType.KRAFT_VERSION:
        this.kraftVersion = readKRaftVersionRecord(reader, VALUE_VERSION).kRaftVersion;
        break;
      case ControlType.KRAFT_VOTERS:
        this.voters = readVotersRecord(reader, VALUE_VERSION).voters;
        break;
      case ControlType.SNAPSHOT_HEADER:
      case ControlType.SNAPSHOT_FOOTER:
        break;
      default:
        throw new BroadsheetError('CORRUPT', `a control record of unknown type ${type}`);
    }
    return type;
  }

  /** Node ids of voters other than this node, from the log or, if it names none, from quorum-state, which has no checksum. */
  strangers(stateVoters: readonly number[] | undefined): number[] {
    const known = this.#electors.length > 0 ? this.#electors : (stateVoters ?? []);
    const voters = this.voters.length > 0 ? this.voters.map((voter) => voter.voterId) : known;
    return voters.filter((id) => id !== this.#nodeId);
  }

  /**
   * The control batch that begins an epoch: who leads, and the voters where the log does not name this directory yet.
   * A log whose voters are named by configuration (kraft.version 0) stays so, unless it is new.
   */
  beginEpoch(isNew: boolean): JournalRecord[] {
    const records = [
      control(ControlType.LEADER_CHANGE, (writer) =>
        writeLeaderChangeMessage(writer, VALUE_VERSION, {
          version: VALUE_VERSION,
          leaderId: this.#nodeId,
          voters: [{ voterId: this.#nodeId }],
          grantingVoters: [{ voterId: this.#nodeId }],
        }),
      ),
    ];
    const own = this.voters[0];
    const named = own !== undefined && own.voterDirectoryId === this.#directoryId;
    if (isNew || (this.kraftVersion >= 1 && !named)) {
      records.push(...this.nameVoters(Math.max(this.kraftVersion, 1)));
    }
    return records;
  }

  /** What a snapshot begins with besides its header. */
  snapshotRecords(): JournalRecord[] {
    return this.kraftVersion >= 1 ? this.nameVoters(this.kraftVersion) : [];
  }

  /** The control records that name this node as the one voter, under a kraft.version of 1 or more. */
  nameVoters(kraftVersion: number): JournalRecord[] {
    const own = this.voters[0];
    return [
      control(ControlType.KRAFT_VERSION, (writer) =>
        writeKRaftVersionRecord(writer, VALUE_VERSION, {
          version: VALUE_VERSION,
          kRaftVersion: kraftVersion,
        }),
      ),
      control(ControlType.KRAFT_VOTERS, (writer) =>
        writeVotersRecord(writer, VALUE_VERSION, {
          version: VALUE_VERSION,
          voters: [
            {
              voterId: this.#nodeId,
              voterDirectoryId: this.#directoryId,
              endpoints: own?.endpoints ?? [],
              kRaftVersionFeature: own?.kRaftVersionFeature ?? {
                minSupportedVersion: 0,
                maxSupportedVersion: 1,
              },
            },
          ],
        }),
      ),
    ];
  }
}
