/** The engines that one suite runs against, and what tests want of each besides: faults, and few descriptors. */
import { descriptors } from '../../src/log/js-descriptors.ts';
import { JsEngine } from '../../src/log/js-engine.ts';
import { type FileCall, type FileFault, injectFileFaults } from '../../src/log/js-file.ts';
import type { LogEngine } from '../../src/log/log.ts';
import { NativeEngine } from '../../src/log/native-engine.ts';
import { addon } from '../../src/native.ts';
import { nativeTesting } from './native-testing.ts';

export interface EngineUnderTest {
  readonly name: LogEngine['name'];
  make(): LogEngine;
  /** The next call of that name, after `skip` good ones, fails `times` times with errno; with errno 0 it moves at most
   * `limit` bytes. For the whole process. */
  setFault(call: FileCall | 'preadv2', skip: number, times: number, errno: number, limit: number): void;
  clearFaults(): void;
  /** Calls that will go well before that call's fault strikes; -1 when it has struck. */
  faultSkips(call: FileCall | 'preadv2'): number;
  /** Bounds the open files of logs; 0 is the usual bound. */
  limitDescriptors(files: number): void;
  descriptors(): { readonly openFiles: number; readonly forcedSyncs: number };
}

const native: EngineUnderTest = {
  name: 'native',
  make: () => new NativeEngine(),
  setFault: (...fault) => nativeTesting().setFault(...fault),
  clearFaults: () => nativeTesting().clearFaults(),
  faultSkips: (call) => nativeTesting().faultSkips(call),
  limitDescriptors: (files) => addon().descriptorCache(files),
  descriptors: () => addon().descriptorCache(),
};

interface Plan {
  skip: number;
  times: number;
  readonly fault: FileFault;
}

const plans = new Map<FileCall, Plan>();

function strike(call: FileCall): FileFault | undefined {
  const plan = plans.get(call);
  if (plan === undefined || plan.skip-- > 0) return undefined;
  if (--plan.times <= 0) plans.delete(call);
  return plan.fault;
}

const js: EngineUnderTest = {
  name: 'js',
  make: () => new JsEngine(),
  setFault: (call, skip, times, errno, limit) => {
    if (call === 'preadv2') throw new Error('Node has no such call');
    plans.set(call, { skip, times, fault: { errno, limit } });
    injectFileFaults(strike);
  },
  clearFaults: () => {
    plans.clear();
    injectFileFaults(undefined);
  },
  faultSkips: (call) => (call === 'preadv2' ? -1 : (plans.get(call)?.skip ?? -1)),
  limitDescriptors: (files) => descriptors.setLimit(files),
  descriptors: () => descriptors,
};

export const ENGINES: readonly EngineUnderTest[] = [native, js];
