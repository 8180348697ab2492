/**
 * Engine, reaper and reconciler against providers that misbehave, on a simulated clock. AGENTPOD_SEEDS=N runs
 * N seeds; AGENTPOD_SEED=S runs that one.
 */
import { test } from 'node:test'
import { Simulation } from '../support/simulation.ts'

const only = process.env['AGENTPOD_SEED']
const count = Number(process.env['AGENTPOD_SEEDS'] ?? 300)
const seeds = only === undefined ? Array.from({ length: count }, (_, n) => n + 1) : [Number(only)]

for (const hasTwo of [false, true]) {
  const providers = hasTwo ? 'two providers, one of them failing' : 'a provider that fails'
  test(`STATE-10 records, resources and promises agree after ${seeds.length} seeds of faults with ${providers}`, async () => {
    for (const seed of seeds) {
      try {
        await new Simulation(seed, { hasTwo }).run()
      } catch (error) {
        throw new Error(
          `seed ${seed} fails; AGENTPOD_SEED=${seed} node --test test/server/simulation.test.ts replays it\n${(error as Error).message}`,
          { cause: error },
        )
      }
    }
  })
}
