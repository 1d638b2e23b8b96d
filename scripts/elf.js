// What a 64-bit little-endian ELF file needs from others. Source: System V ABI, chapters 4 and 5; the GNU version
// sections: Linux Standard Base, "Symbol Versioning".

const DYNAMIC = 2; // of program headers: PT_LOAD is 1
const LOAD = 1;
const TAG = {
  needed: 1,
  strtab: 5,
  strsz: 10,
  bindNow: 24,
  flags: 30,
  flags1: 0x6ffffffb,
  verneed: 0x6ffffffe,
  verneednum: 0x6fffffff,
};
const DF_BIND_NOW = 8;
const DF_1_NOW = 1;

/**
 * machine: e_machine. needed: names of libraries. versions: of symbols that other libraries must have, such as
 * GLIBC_2.17. bindNow: whether all symbols are looked up when it is loaded. Throws for what is no such file.
 */
export function readElf(bytes) {
  if (bytes.length < 64 || bytes.toString('latin1', 0, 4) !== '\x7fELF' || bytes[4] !== 2 || bytes[5] !== 1) {
    throw new Error('no 64-bit little-endian ELF file');
  }
  const long = (at) => Number(bytes.readBigUInt64LE(at));
  const loads = [];
  let dynamic;
  for (let i = 0, at = long(32); i < bytes.readUInt16LE(56); i++, at += bytes.readUInt16LE(54)) {
    const header = { offset: long(at + 8), address: long(at + 16), size: long(at + 32) };
    if (bytes.readUInt32LE(at) === LOAD) loads.push(header);
    if (bytes.readUInt32LE(at) === DYNAMIC) dynamic = header;
  }
  if (dynamic === undefined) throw new Error('no dynamic section');
  const offsetOf = (address) => {
    const load = loads.find((l) => address >= l.address && address < l.address + l.size);
    if (load === undefined) throw new Error(`address ${address} lies in no segment`);
    return address - load.address + load.offset;
  };

  const entries = [];
  for (let at = dynamic.offset; at < dynamic.offset + dynamic.size && long(at) !== 0; at += 16) {
    entries.push([long(at), long(at + 8)]);
  }
  const value = (tag) => entries.find(([t]) => t === tag)?.[1];
  const strings = offsetOf(value(TAG.strtab));
  const text = (at) => bytes.toString('latin1', strings + at, bytes.indexOf(0, strings + at));

  const versions = new Set();
  const verneed = value(TAG.verneed);
  for (let i = 0, at = verneed === undefined ? 0 : offsetOf(verneed); i < (value(TAG.verneednum) ?? 0); i++) {
    for (let j = 0, aux = at + bytes.readUInt32LE(at + 8); j < bytes.readUInt16LE(at + 2); j++) {
      versions.add(text(bytes.readUInt32LE(aux + 8)));
      aux += bytes.readUInt32LE(aux + 12);
    }
    at += bytes.readUInt32LE(at + 12);
  }
  return {
    machine: bytes.readUInt16LE(18),
    needed: entries.filter(([tag]) => tag === TAG.needed).map(([, at]) => text(at)),
    versions: [...versions].sort(),
    bindNow:
      value(TAG.bindNow) !== undefined ||
      ((value(TAG.flags) ?? 0) & DF_BIND_NOW) !== 0 ||
      ((value(TAG.flags1) ?? 0) & DF_1_NOW) !== 0,
  };
}
