/** Every error at every named place; `test/crash` has one of them at each. */
import { after, test } from 'node:test'
import { FAILPOINTS } from '../../src/util/failpoint.ts'
import { CrashWorld, isSwept } from '../support/crash.ts'
import { World } from '../support/world.ts'

const world = new World()
const crash = new CrashWorld(world)

after(async () => {
  await crash.close()
  await world[Symbol.asyncDispose]()
})

for (const point of FAILPOINTS.filter(isSwept)) {
  for (const error of ['ENOSPC', 'EIO', 'EMFILE'])
    test(`STATE-9 ${error} at ${point}: one clear error and nothing half done`, () =>
      crash.sweep(point, error))
}
