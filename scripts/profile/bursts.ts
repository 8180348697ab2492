/**
 * Creates many sandboxes at once, lets each run a command, and prints when all have said something and the
 * processor time that each process used until then. Usage:
 *
 *     scripts/with-node scripts/profile/bursts.ts [--count 100] [--rounds 5] [--pause MS] [--log]
 *
 * `--pause` waits so long between two rounds, so that shells are made again. The first round finds four.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { processorTimeOfOne, processorTimes } from '../../test/bench/processor-time.ts'
import { World } from '../../test/support/world.ts'

const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '100' },
    rounds: { type: 'string', default: '5' },
    pause: { type: 'string', default: '3000' },
    log: { type: 'boolean', default: false },
  },
})
const count = Number(values.count)
await using world = new World()
const pod = world.client()
await (await pod.create({})).destroy()
for (let round = 0; round < Number(values.rounds); round++) {
  const before = processorTimes(world)
  const start = performance.now()
  const all: Sandbox[] = []
  const created: number[] = []
  await Promise.all(
    Array.from({ length: count }, async () => {
      const sandbox = await pod.create({})
      created.push(performance.now() - start)
      all.push(sandbox)
      await sandbox.exec('echo', { args: ['x'] }).wait()
    }),
  )
  const said = performance.now() - start
  const podds = readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && isPodd(pid)).length
  const used = [...processorTimeOfOne(before, processorTimes(world), 1)]
  await Promise.all(all.map((sandbox) => sandbox.destroy()))
  const gone = performance.now() - start
  created.sort((a, b) => a - b)
  const parts = used.map(([name, ms]) => `${name} ${ms.toFixed(0)}`).join(', ')
  console.log(
    `created ${created[0]?.toFixed(0)} to ${created.at(-1)?.toFixed(0)} (half ${created[count >> 1]?.toFixed(0)}), said ${said.toFixed(0)}, gone ${gone.toFixed(0)} ms, ${podds} podds ran; processor time until said: ${parts}`,
  )
  await new Promise((resolve) => setTimeout(resolve, Number(values.pause)))
}
if (values.log) console.log(readFileSync(join(world.home, 'logs', 'podhost.log'), 'utf8'))

function isPodd(pid: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8') === 'podd\n'
  } catch {
    return false
  }
}
