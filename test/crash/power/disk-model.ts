/**
 * What a disk may hold when the power goes: the journal of a process's file work is played up to that moment, and what no sync
 * covers is kept, dropped or torn by a seed.
 *
 * - A sync covers what was written to its file before it began. That of a file says nothing about its name: names are made
 *   durable by a sync of their folder.
 * - Of a file's writes without a sync, each sector of 512 bytes (or page of 4096) lies on the disk as it was at some moment since
 *   the last sync, and so does the file's length; where neither wrote, there are zeros.
 * - After a sync that failed, what it was to cover is covered by none that comes later.
 * - Of the changes of names in a folder without a sync, any may be there and any may be missing.
 */
import fs from 'node:fs';
import { join } from 'node:path';
import type { Random } from '../../support/random.ts';
import type { FileEvent } from './file-journal.ts';

const SECTOR = 512;
const PAGE = 4096;

type DataChange = { readonly at: number; forgotten: boolean } & (
  | { readonly kind: 'write'; readonly position: number; readonly bytes: Buffer }
  | { readonly kind: 'truncate'; readonly length: number }
);

interface NameChange {
  readonly at: number;
  readonly from: string | undefined;
  /** undefined: the name goes. */
  readonly to: string | undefined;
  readonly node: Node;
}

type Node = FileNode | FolderNode;

/** How much of what is not synced the disk has. */
export type Survival = 'all' | 'none' | 'until' | 'any';

interface Cut {
  readonly survival: Survival;
  /** For `until`: what came before this event is there, nothing else. */
  readonly until: number;
  readonly random: Random;
}

class FileNode {
  #durable: Buffer;
  #size: number;
  #changes: DataChange[] = [];

  constructor(content: Buffer = Buffer.alloc(0)) {
    this.#durable = content;
    this.#size = content.length;
  }

  change(change: DataChange): void {
    this.#changes.push(change);
  }

  /** What came before event `before` is durable. */
  sync(before: number): void {
    const covered = this.#changes.filter(({ at, forgotten }) => at < before && !forgotten);
    if (covered.length === 0) return;
    const whole = this.#played(covered, () => covered.length, covered.length);
    this.#durable = whole;
    this.#size = whole.length;
    // What an earlier sync failed to write is gone for good: it lies below what this one wrote.
    this.#changes = this.#changes.filter(({ at }) => at >= before);
  }

  /** The sync failed: the kernel says so once, and does not try again. */
  forget(before: number): void {
    for (const change of this.#changes) change.forgotten ||= change.at < before;
  }

  get durable(): Buffer {
    return this.#durable.subarray(0, this.#size);
  }

  contentAt(cut: Cut): Buffer {
    const { survival, until, random } = cut;
    const changes = this.#changes;
    if (changes.length === 0 || survival === 'none') return this.#durable.subarray(0, this.#size);
    if (survival === 'all') return this.#played(changes, () => changes.length, changes.length);
    if (survival === 'until') {
      const count = changes.filter(({ at }) => at < until).length;
      return this.#played(changes, () => count, count);
    }
    if (random.int(3) === 0) {
      // In the order of writing; the last one is torn.
      const count = random.int(changes.length + 1);
      const last = changes[count];
      const written = this.#played(changes, () => count, count);
      if (last?.kind !== 'write') return written;
      const border = random.int(2) === 0 ? SECTOR : PAGE;
      const end = last.position + random.int(last.bytes.length + 1);
      const torn = Math.floor(end / border) * border;
      if (torn <= last.position) return written;
      const grown = Buffer.alloc(Math.max(written.length, torn));
      written.copy(grown);
      last.bytes.copy(grown, last.position, 0, torn - last.position);
      return grown;
    }
    const unit = (random.int(2) === 0 ? SECTOR : PAGE) / SECTOR;
    const versions = new Map<number, number>();
    const versionOf = (sector: number) => {
      const key = Math.floor(sector / unit);
      let version = versions.get(key);
      if (version === undefined) {
        // Most of them one or the other way.
        version = [0, changes.length, random.int(changes.length + 1)][random.int(3)]!;
        versions.set(key, version);
      }
      return version;
    };
    return this.#played(changes, versionOf, random.int(changes.length + 1));
  }

  /** Each sector with as many of the changes as `versionOf` says; as long as after `sizeVersion` of them. */
  #played(
    changes: readonly DataChange[],
    versionOf: (sector: number) => number,
    sizeVersion: number,
  ): Buffer {
    let size = this.#size;
    let room = size;
    for (const [i, change] of changes.entries()) {
      const end = change.kind === 'write' ? change.position + change.bytes.length : change.length;
      room = Math.max(room, end);
      if (i < sizeVersion) size = change.kind === 'write' ? Math.max(size, end) : end;
    }
    const content = Buffer.alloc(room);
    this.#durable.copy(content, 0, 0, this.#size);
    for (const [i, change] of changes.entries()) {
      const start = change.kind === 'write' ? change.position : change.length;
      const end = change.kind === 'write' ? start + change.bytes.length : room;
      for (let at = start; at < end; ) {
        const sector = Math.floor(at / SECTOR);
        const next = Math.min((sector + 1) * SECTOR, end);
        if (versionOf(sector) > i) {
          if (change.kind === 'write') change.bytes.copy(content, at, at - start, next - start);
          else content.fill(0, at, next);
        }
        at = next;
      }
    }
    return content.subarray(0, size);
  }
}

class FolderNode {
  /** As the process sees it. */
  readonly names = new Map<string, Node>();
  #durable = new Map<string, Node>();
  #changes: NameChange[] = [];

  /** From a disk: durable. */
  put(name: string, node: Node): void {
    this.names.set(name, node);
    this.#durable.set(name, node);
  }

  change(change: NameChange): void {
    this.#changes.push(change);
    play(this.names, change);
  }

  /** What certainly lies under a name. */
  durable(name: string): Node | undefined {
    return this.#durable.get(name);
  }

  sync(before: number): void {
    for (const change of this.#changes) if (change.at < before) play(this.#durable, change);
    this.#changes = this.#changes.filter(({ at }) => at >= before);
  }

  namesAt({ survival, until, random }: Cut): Map<string, Node> {
    if (survival === 'all') return this.names;
    const names = new Map(this.#durable);
    for (const change of this.#changes) {
      const kept = survival === 'until' ? change.at < until : survival === 'any' && random.int(2) === 0;
      if (kept) play(names, change);
    }
    return names;
  }
}

function play(names: Map<string, Node>, { from, to, node }: NameChange): void {
  if (from !== undefined && names.get(from) === node) names.delete(from);
  if (to !== undefined) names.set(to, node);
}

export class DiskModel {
  readonly #root: string;
  readonly #top = new FolderNode();
  readonly #open = new Map<number, Node>();
  readonly #syncs = new Map<number, number>();
  #at = 0;

  /** `root`: of the paths in the journal. What lies there now is durable. */
  constructor(root: string) {
    this.#root = root;
    load(root, this.#top);
  }

  /** Plays the events up to number `to`; never back. */
  play(events: readonly FileEvent[], to: number): void {
    for (; this.#at < to; this.#at++) this.#play(events[this.#at]!, this.#at);
  }

  #play(event: FileEvent, at: number): void {
    switch (event.kind) {
      case 'open': {
        const found = this.#find(event.path);
        if (found !== undefined) this.#open.set(event.fd, found);
        else if (event.creates) this.#open.set(event.fd, this.#link(event.path, new FileNode(), at));
        return;
      }
      case 'close':
        this.#open.delete(event.fd);
        return;
      case 'write':
      case 'truncate': {
        const node = this.#open.get(event.fd);
        if (node instanceof FileNode) node.change({ ...event, at, forgotten: false });
        return;
      }
      case 'sync':
        this.#syncs.set(event.number, at);
        return;
      case 'synced':
      case 'failed': {
        const node = this.#open.get(event.fd);
        const before = this.#syncs.get(event.number)!;
        this.#syncs.delete(event.number);
        if (event.kind === 'failed') {
          if (node instanceof FileNode) node.forget(before);
          return;
        }
        node?.sync(before);
        return;
      }
      case 'mkdir':
        this.#link(event.path, new FolderNode(), at);
        return;
      case 'unlink':
      case 'rmdir': {
        const { folder, name } = this.#place(event.path);
        folder.change({ at, from: name, to: undefined, node: folder.names.get(name)! });
        return;
      }
      case 'rename': {
        const { folder, name } = this.#place(event.path);
        const to = this.#place(event.to);
        if (to.folder !== folder) throw new Error(`a rename between folders is not modelled: ${event.path}`);
        folder.change({ at, from: name, to: to.name, node: folder.names.get(name)! });
        return;
      }
    }
  }

  #link<N extends Node>(path: string, node: N, at: number): N {
    const { folder, name } = this.#place(path);
    folder.change({ at, from: undefined, to: name, node });
    return node;
  }

  #place(path: string): { folder: FolderNode; name: string } {
    const parts = this.#parts(path);
    const name = parts.pop()!;
    const folder = this.#walk(parts);
    if (!(folder instanceof FolderNode)) throw new Error(`there is no folder for ${path}`);
    return { folder, name };
  }

  #find(path: string): Node | undefined {
    return this.#walk(this.#parts(path));
  }

  #walk(parts: readonly string[]): Node | undefined {
    let node: Node | undefined = this.#top;
    for (const part of parts) node = node instanceof FolderNode ? node.names.get(part) : undefined;
    return node;
  }

  #parts(path: string): string[] {
    if (!path.startsWith(this.#root)) throw new Error(`${path} is not below ${this.#root}`);
    return path
      .slice(this.#root.length)
      .split('/')
      .filter((part) => part !== '');
  }

  /** The content that a file in the top folder certainly has. */
  durableText(name: string): string | undefined {
    const node = this.#top.durable(name);
    return node instanceof FileNode ? node.durable.toString('latin1') : undefined;
  }

  /** Writes what the disk may hold now into an empty folder. */
  write(into: string, survival: Survival, random: Random): void {
    const until = Math.max(0, this.#at - random.int(40));
    writeFolder(into, this.#top, { survival, until, random });
  }
}

function load(path: string, folder: FolderNode): void {
  for (const entry of fs.readdirSync(path, { withFileTypes: true })) {
    const at = join(path, entry.name);
    if (entry.isDirectory()) {
      const inner = new FolderNode();
      load(at, inner);
      folder.put(entry.name, inner);
    } else folder.put(entry.name, new FileNode(fs.readFileSync(at)));
  }
}

function writeFolder(path: string, folder: FolderNode, cut: Cut): void {
  for (const [name, node] of folder.namesAt(cut)) {
    const at = join(path, name);
    if (node instanceof FolderNode) {
      fs.mkdirSync(at);
      writeFolder(at, node, cut);
    } else fs.writeFileSync(at, node.contentAt(cut));
  }
}
