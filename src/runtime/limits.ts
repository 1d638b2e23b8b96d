/** Limits of the operating system that a broker may reach, by the error that says so, with the setting of each. */
import { constants } from 'node:os';

const { EMFILE, ENFILE, ENOMEM } = constants.errno;

const LIMITS: ReadonlyMap<number, string> = new Map([
  [EMFILE, "the process's limit of open files (RLIMIT_NOFILE: ulimit -n, or LimitNOFILE of its service)"],
  [ENFILE, "the system's limit of open files (sysctl fs.file-max)"],
  [ENOMEM, 'the memory, or the limit of mappings of a process (sysctl vm.max_map_count)'],
]);

/** A message with the limit that errno stands for, if it is one. */
export function namingLimit(message: string, errno: number): string {
  const limit = LIMITS.get(Math.abs(errno));
  return limit === undefined ? message : `${message}; reached is ${limit}`;
}
