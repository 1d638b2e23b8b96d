/** Which engines and transports the tests of whole brokers run on. */
import type { CreateBrokerOptions } from '../../src/index.ts';
import { scaled } from './scale.ts';

export interface Combination extends Required<Pick<CreateBrokerOptions, 'engine' | 'transport'>> {
  /** For messages. */
  readonly title: string;
}

function combination(engine: 'native' | 'js', transport: 'native' | 'js'): Combination {
  return { engine, transport, title: `engine=${engine} transport=${transport}` };
}

export const COMBINATIONS: readonly Combination[] = [
  combination('native', 'native'),
  combination('native', 'js'),
  combination('js', 'js'),
];

/** For slower suites: the ends in the small size, all in the full one. */
export const SOME_COMBINATIONS: readonly Combination[] = scaled(
  COMBINATIONS.filter(({ engine, transport }) => engine === transport),
  COMBINATIONS,
);
