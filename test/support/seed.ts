/** The seed of a random test: BROADSHEET_SEED, else the one given. It is printed, so that a failing run can be run again. */
export function seedOf(test: string, standard: number): number {
  const seed = Number(process.env.BROADSHEET_SEED ?? standard);
  process.stdout.write(`${test}: BROADSHEET_SEED=${seed}\n`);
  return seed;
}
