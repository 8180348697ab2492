/**
 * Creates, uses and destroys sandboxes one after another without pauses, and prints how long each step takes
 * and how much processor time each process uses for one life. Usage:
 *
 *     scripts/with-node scripts/profile/lives.ts [--lives 100] [--at-once 1] [--shells N] [--log]
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { AgentPod } from '../../src/client/client.ts'
import { World } from '../../test/support/world.ts'

const { values } = parseArgs({
  options: {
    lives: { type: 'string', default: '100' },
    'at-once': { type: 'string', default: '1' },
    shells: { type: 'string' },
    log: { type: 'boolean', default: false },
  },
})
const lives = Number(values.lives)
const atOnce = Number(values['at-once'])
/** The kernel counts in hundredths of a second. */
const TICK_MS = 10

await using world = new World({ env: values.shells === undefined ? {} : { AGENTPOD_SHELLS: values.shells } })
const pod = world.client()
for (let n = 0; n < 5; n++) await live(pod, new Map())
await new Promise((resolve) => setTimeout(resolve, 1000))

const steps = new Map<string, number[]>()
const before = processorTimes()
const start = performance.now()
let left = lives
await Promise.all(
  Array.from({ length: atOnce }, async () => {
    while (left-- > 0) await live(pod, steps)
  }),
)
const took = performance.now() - start
await new Promise((resolve) => setTimeout(resolve, 1000))
const after = processorTimes()

if (values.log) console.log(readFileSync(join(world.home, 'logs', 'podhost.log'), 'utf8'))
console.log(`${lives} lives in ${took.toFixed(0)} ms: ${(took / lives).toFixed(1)} ms each`)
for (const [name, samples] of steps) {
  const sorted = [...samples].sort((a, b) => a - b)
  const at = (part: number): string => (sorted[Math.floor(sorted.length * part)] ?? 0).toFixed(1)
  console.log(`  ${name.padEnd(16)} p50 ${at(0.5)}  p95 ${at(0.95)}  min ${at(0)} ms`)
}
console.log('processor time of one life, with the shell that takes its place:')
let sum = 0
for (const [name, ms] of after) {
  const each = (ms - (before.get(name) ?? 0)) / lives
  sum += each
  console.log(`  ${name.padEnd(24)} ${each.toFixed(1)} ms`)
}
console.log(`  ${'all'.padEnd(24)} ${sum.toFixed(1)} ms`)

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

/** User and system time of this process, of the server and of its children, by name, in milliseconds. */
function processorTimes(): Map<string, number> {
  const times = new Map<string, number>()
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const name = nameOf(pid)
    if (name === undefined) continue
    const fields = read(pid, 'stat').split(') ').at(-1)?.split(' ') ?? []
    const [user = 0, system = 0, childUser = 0, childSystem = 0] = fields.slice(11, 15).map(Number)
    times.set(name, (times.get(name) ?? 0) + (user + system) * TICK_MS)
    if (name === 'podhost') times.set('children of podhost', (childUser + childSystem) * TICK_MS)
  }
  return times
}

function nameOf(pid: string): string | undefined {
  if (Number(pid) === process.pid) return 'client'
  if (Number(pid) === world.serverPid) return 'server'
  const words = read(pid, 'cmdline').split('\0')
  if (words.includes('serve-inside') && words.includes(world.home)) return 'podhost'
  const isEgress = words.some((word) => word.endsWith('egress.js'))
  return isEgress && words.some((word) => word.startsWith(world.home)) ? 'egress' : undefined
}

function read(pid: string, file: string): string {
  try {
    return readFileSync(join('/proc', pid, file), 'utf8')
  } catch {
    return ''
  }
}
