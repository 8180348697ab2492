/**
 * Creates, uses and destroys sandboxes one after another without pauses, and prints how long each step takes
 * and how much processor time each process uses for one life. Usage:
 *
 *     scripts/with-node scripts/profile/lives.ts [--lives 100] [--at-once 1] [--shells N] [--pause MS]
 *         [--perf FILE] [--log]
 *
 * `--pause` waits so long after each life, so that shells are ready before the next one. `--perf` writes a
 * profile of the whole machine with Linux's perf, without the preparation: `perf report -i FILE --comm exe`
 * is podhost. Build podhost and podd without `-s -w` to see the names of their functions.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { AgentPod } from '../../src/client/client.ts'
import { processorTimeOfOne, processorTimes } from '../../test/bench/processor-time.ts'
import { World } from '../../test/support/world.ts'

const { values } = parseArgs({
  options: {
    lives: { type: 'string', default: '100' },
    'at-once': { type: 'string', default: '1' },
    shells: { type: 'string' },
    pause: { type: 'string', default: '0' },
    perf: { type: 'string' },
    log: { type: 'boolean', default: false },
  },
})
const lives = Number(values.lives)
const atOnce = Number(values['at-once'])
const pauseMs = Number(values.pause)

await using world = new World({ env: values.shells === undefined ? {} : { AGENTPOD_SHELLS: values.shells } })
const pod = world.client()
for (let n = 0; n < 5; n++) await live(pod, new Map())
await new Promise((resolve) => setTimeout(resolve, 1000))

const steps = new Map<string, number[]>()
const [before, busyBefore] = [processorTimes(world), busyMs()]
const perf =
  values.perf === undefined
    ? undefined
    : spawn('perf', ['record', '-q', '-a', '-g', '-F', '4000', '-o', values.perf], { stdio: 'inherit' })
const start = performance.now()
let left = lives
await Promise.all(
  Array.from({ length: atOnce }, async () => {
    while (left-- > 0) {
      await live(pod, steps)
      if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
  }),
)
const took = performance.now() - start
if (perf?.kill('SIGINT')) await once(perf, 'exit')
await new Promise((resolve) => setTimeout(resolve, 1000))
const [after, busyAfter] = [processorTimes(world), busyMs()]

if (values.log) console.log(readFileSync(join(world.home, 'logs', 'podhost.log'), 'utf8'))
console.log(`${lives} lives in ${took.toFixed(0)} ms: ${(took / lives).toFixed(1)} ms each`)
for (const [name, samples] of steps) {
  const sorted = [...samples].sort((a, b) => a - b)
  const at = (part: number): string => (sorted[Math.floor(sorted.length * part)] ?? 0).toFixed(1)
  console.log(`  ${name.padEnd(16)} p50 ${at(0.5)}  p95 ${at(0.95)}  min ${at(0)} ms`)
}
console.log('processor time of one life, with the shell that takes its place:')
let sum = 0
for (const [name, each] of processorTimeOfOne(before, after, lives)) {
  sum += each
  console.log(`  ${name.padEnd(24)} ${each.toFixed(1)} ms`)
}
console.log(`  ${'all'.padEnd(24)} ${sum.toFixed(1)} ms`)
console.log(`  ${'the whole machine'.padEnd(24)} ${((busyAfter - busyBefore) / lives).toFixed(1)} ms`)

/** The processor time of everything on this machine, the kernel's own threads included. */
function busyMs(): number {
  const fields = (readFileSync('/proc/stat', 'utf8').split('\n')[0] ?? '').split(/\s+/).slice(1).map(Number)
  const [user = 0, nice = 0, system = 0, _idle, _wait, irq = 0, softIrq = 0] = fields
  return (user + nice + system + irq + softIrq) * 10
}

async function live(pod: AgentPod, into: Map<string, number[]>): Promise<void> {
  let last = performance.now()
  const lap = (name: string): void => {
    const now = performance.now()
    into.set(name, [...(into.get(name) ?? []), now - last])
    last = now
  }
  const begin = last
  const sandbox = await pod.create({})
  lap('create')
  await sandbox.exec('/bin/true').wait()
  lap('first command')
  into.set('to first output', [...(into.get('to first output') ?? []), last - begin])
  await sandbox.destroy()
  lap('destroy')
  into.set('whole life', [...(into.get('whole life') ?? []), last - begin])
}
