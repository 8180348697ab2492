/**
 * Restores a virtual machine with a small program from a snapshot with memory, again and again, and prints
 * how long each restore takes until the first output. Usage:
 *
 *     scripts/with-node scripts/profile/restores.ts [--restores 5] [--isolation vm|gvisor] [--pause MS]
 *         [--idle] [--perf FILE] [--log]
 *
 * `--idle` saves a machine without a busy program. `--perf` writes a profile of the whole machine with
 * Linux's perf: `perf report -i FILE --comm qemu-system-x86`. `--log` prints the log of podhost, which has
 * the time of each stage.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { firstOutput, sh } from '../../test/bench/levels.ts'
import { SMALL_MACHINE } from '../../test/support/qemu.ts'
import { sharedBootstrap } from '../../test/support/shared-bootstrap.ts'
import { World } from '../../test/support/world.ts'

const { values } = parseArgs({
  options: {
    restores: { type: 'string', default: '5' },
    isolation: { type: 'string', default: 'vm' },
    pause: { type: 'string', default: '3000' },
    perf: { type: 'string' },
    idle: { type: 'boolean', default: false },
    log: { type: 'boolean', default: false },
  },
})
const isolation = values.isolation === 'gvisor' ? 'gvisor' : 'vm'

await using world = new World({ env: sharedBootstrap() })
const pod = world.client()
await pod.prepare('debian', () => undefined)
const make = () => pod.create({ isolation, environment: { base: 'debian' }, resources: SMALL_MACHINE })
// The first machine boots a template, and the second one becomes an environment.
for (let n = 0; n < 2; n++) await (await make()).destroy()
const box = await make()
if (!values.idle)
  await sh(box, 'nohup sh -c "while :; do date +%s > /tmp/now; sleep 0.1; done" >/dev/null 2>&1 &')
await box.snapshot({ name: 'saved', memory: true })
await box.destroy()

const perf =
  values.perf === undefined
    ? undefined
    : spawn('perf', ['record', '-q', '-a', '-g', '-F', '4000', '-o', values.perf], { stdio: 'inherit' })
const samples: number[] = []
for (let n = 0; n < Number(values.restores); n++) {
  await sleep(Number(values.pause))
  const start = performance.now()
  const copy = await pod.create({ snapshot: 'saved' })
  const created = performance.now()
  const first = await firstOutput(copy)
  samples.push(first - start)
  console.log(`created ${(created - start).toFixed(0)} ms, first command ${(first - created).toFixed(0)} ms`)
  await copy.destroy()
}
if (perf?.kill('SIGINT')) await once(perf, 'exit')
if (values.log) console.log(readFileSync(join(world.home, 'logs', 'podhost.log'), 'utf8'))
const sorted = samples.toSorted((a, b) => a - b)
console.log(
  `p50 ${(sorted[Math.floor(sorted.length / 2)] ?? 0).toFixed(0)} ms, min ${(sorted[0] ?? 0).toFixed(0)} ms`,
)
