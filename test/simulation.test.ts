/**
 * Engine, reaper and reconciler against a provider that misbehaves, on a clock of their own. AGENTPOD_SEEDS=N runs N seeds;
 * AGENTPOD_SEED=S runs that one.
 */
import { test } from 'node:test'
import { Simulation } from './support/simulation.ts'

const only = process.env['AGENTPOD_SEED']
const count = Number(process.env['AGENTPOD_SEEDS'] ?? 300)
const seeds = only === undefined ? Array.from({ length: count }, (_, n) => n + 1) : [Number(only)]

test(`what was promised holds after everything that ${seeds.length} seeds can do`, async () => {
  for (const seed of seeds) {
    try {
      await new Simulation(seed).run()
    } catch (error) {
      throw new Error(
        `seed ${seed} fails; AGENTPOD_SEED=${seed} node --test test/simulation.test.ts replays it\n${(error as Error).message}`,
        {
          cause: error,
        },
      )
    }
  }
})
