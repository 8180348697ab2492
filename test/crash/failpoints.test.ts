/** RL-01 to RL-05, RL-12: kill -9 of the server, or a failing step, at every named place of every verb. */
import { after, test } from 'node:test'
import { FAILPOINTS } from '../../src/util/failpoint.ts'
import { CrashWorld, isSwept } from '../support/crash.ts'
import { World } from '../support/world.ts'

const world = new World()
const crash = new CrashWorld(world)
const ERRORS = ['ENOSPC', 'EIO', 'EMFILE']
const points = FAILPOINTS.filter(isSwept)

after(async () => {
  await crash.close()
  await world[Symbol.asyncDispose]()
})

for (const point of points) {
  test(`kill -9 at ${point}: the next server finishes or undoes it`, () => crash.sweep(point, 'kill'))
}

// Each place gets one of the errors here, but those of runs, which take seconds each; the long suite gives each place every one.
for (const [n, point] of points.filter((one) => !one.startsWith('run.')).entries()) {
  const error = ERRORS[(n + 1) % ERRORS.length] ?? 'EIO'
  test(`${error} at ${point}: one clear error and nothing half done`, () => crash.sweep(point, error))
}
