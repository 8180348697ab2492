/** Kills the server with SIGKILL, or makes a step fail, at every named step of every operation. */
import { after, test } from 'node:test'
import { FAILPOINTS, type Failpoint } from '../../src/util/failpoint.ts'
import { CrashWorld, isSwept } from '../support/crash.ts'
import { World } from '../support/world.ts'

const world = new World()
const crash = new CrashWorld(world)
const ERRORS = ['ENOSPC', 'EIO', 'EMFILE']
/** The promise of SPECIFICATION.md that a named step belongs to. */
const promiseOf = (point: Failpoint): string =>
  point.startsWith('build.')
    ? 'ENV-11'
    : point.startsWith('run.')
      ? 'RUN-8'
      : point.startsWith('volume.')
        ? 'VOL-7'
        : point.startsWith('group.')
          ? 'GRP-5'
          : 'STATE-9'
const points = FAILPOINTS.filter(isSwept)

after(async () => {
  await crash.close()
  await world[Symbol.asyncDispose]()
})

for (const point of points) {
  test(`${promiseOf(point)} kill -9 at ${point}: the next server finishes or undoes it`, () =>
    crash.sweep(point, 'kill'))
}

// The last step of each operation gets an error here, except those of runs, which take seconds each.
// test/long tries every error at each step.
const operationOf = (point: Failpoint): string => point.split('.')[0] ?? ''
const lasts = points.filter(
  (one, n) => points.findLastIndex((p) => operationOf(p) === operationOf(one)) === n,
)
for (const [n, point] of lasts.filter((one) => !one.startsWith('run.')).entries()) {
  const error = ERRORS[(n + 1) % ERRORS.length] ?? 'EIO'
  test(`${promiseOf(point)} ${error} at ${point}: one clear error and nothing half done`, () =>
    crash.sweep(point, error))
}
