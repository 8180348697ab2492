/** Sandboxes on gVisor beside those on the machine's kernel: lives, memory, and what work inside costs. */
import type { AgentPod } from '../../src/client/client.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { NO_GVISOR } from '../support/gvisor.ts'
import { until, World } from '../support/world.ts'
import {
  type Box,
  firstOutput,
  keepIdleMemory,
  keepMedians,
  sh,
  toFirstOutput,
  workInside,
} from './levels.ts'
import { type Case, inTurn, type Life, roundRobin, type Summary, summarize, timed } from './measure.ts'
import type { Report } from './report.ts'

const LEVELS = ['container', 'gvisor'] as const
type Level = (typeof LEVELS)[number]
const NAMES: Readonly<Record<Level, string>> = { container: 'crun', gvisor: 'gVisor' }
const AT_ONCE = 20
const LARGE_BYTES = 500_000_000

export async function onGVisor(
  report: Report,
  o: { readonly rounds: number; readonly isQuick: boolean },
): Promise<void> {
  report.heading('gVisor')
  if (NO_GVISOR !== undefined) return report.say(`Not here: ${NO_GVISOR}.`)
  await using world = new World()
  const pod = world.client()
  // The first sandbox of each kind also starts the shells of that kind.
  for (const isolation of LEVELS) await (await pod.create({ isolation })).destroy()
  await singleLives(report, pod, o.rounds)
  await manyAtOnce(report, pod, o.isQuick ? 1 : 3)
  await commands(report, pod, o.rounds)
  await memory(report, pod, Math.ceil(o.rounds / 2))
  await largeMemory(report, pod, o.isQuick ? 1 : 3)
  const boxes = await onBoth(pod)
  await keepIdleMemory(report, world, boxes)
  await workInside(report, { title: 'gVisor', boxes, isQuick: o.isQuick })
  for (const { box } of boxes) await box.destroy()
}

async function singleLives(report: Report, pod: AgentPod, rounds: number): Promise<void> {
  const samples = await inTurn(
    LEVELS.map((isolation) => ({ name: NAMES[isolation], once: () => live(pod, isolation) })),
    rounds,
  )
  const of = (part: keyof Life): Summary[] =>
    samples.map(({ name, values }) =>
      summarize(
        name,
        values.map((life) => life[part]),
      ),
    )
  report.heading('gVisor: create to the first output of the first command')
  report.table(of('firstOutputMs'), NAMES.container)
  keepMedians(report, 'create to first output', of('firstOutputMs'))
  report.heading('gVisor: whole life')
  report.table(of('lifeMs'), NAMES.container)
}

async function live(pod: AgentPod, isolation: Level): Promise<Life> {
  // Shells are replaced in the background.
  await new Promise((resolve) => setTimeout(resolve, 400))
  const start = performance.now()
  const sandbox = await pod.create({ isolation })
  const at = await firstOutput(sandbox)
  await sandbox.destroy()
  return { firstOutputMs: at - start, lifeMs: performance.now() - start }
}

async function manyAtOnce(report: Report, pod: AgentPod, rounds: number): Promise<void> {
  const rows = await roundRobin(
    LEVELS.map((isolation) => ({
      name: NAMES[isolation],
      once: async () => {
        const all: Sandbox[] = []
        const took = await timed(() =>
          Promise.all(
            Array.from({ length: AT_ONCE }, async () => {
              const one = await pod.create({ isolation })
              all.push(one)
              await firstOutput(one)
            }),
          ),
        )
        await Promise.all(all.map((one) => one.destroy()))
        return took
      },
    })),
    rounds,
    0,
  )
  report.heading(`gVisor: ${AT_ONCE} at once, until all have said something`)
  report.table(rows, NAMES.container)
}

async function commands(report: Report, pod: AgentPod, rounds: number): Promise<void> {
  const boxes = await onBoth(pod)
  report.heading('gVisor: run `true` in a running sandbox')
  const rows = await roundRobin(
    boxes.map(({ name, box }) => ({ name, once: () => timed(() => box.exec('true').wait()) })),
    rounds,
  )
  report.table(rows, NAMES.container)
  keepMedians(report, 'a command in a running one', rows)
  for (const { box } of boxes) await box.destroy()
}

/** With one small program that runs. */
async function memory(report: Report, pod: AgentPod, rounds: number): Promise<void> {
  const box = await pod.create({ isolation: 'gvisor' })
  await sh(box, 'nohup sh -c "while :; do date +%s > /tmp/now; sleep 0.1; done" >/dev/null 2>&1 &')
  await box.snapshot({ name: 'bench-memory', memory: true })
  const made: Sandbox[] = []
  const cases: readonly Case[] = [
    {
      name: 'snapshot with memory',
      once: async () => {
        let id = ''
        const took = await timed(async () => {
          id = (await box.snapshot({ memory: true })).id
        })
        await pod.snapshots.remove(id)
        return took
      },
    },
    {
      name: 'restore to the first output',
      once: () => toFirstOutput(made, () => pod.create({ snapshot: 'bench-memory' })),
    },
    {
      name: 'fork with memory to the first output',
      once: () => toFirstOutput(made, async () => (await box.fork({ memory: true }))[0]),
    },
    { name: 'pause to disk', once: () => timed(() => box.pause({ toDisk: true })) },
    { name: 'resume from disk to the first output', once: () => toFirstOutput([], () => box.resume()) },
  ]
  const ended: Case[] = cases.map(({ name, once }) => ({
    name,
    once: async () => {
      const took = await once()
      for (const one of made.splice(0)) await one.destroy()
      return took
    },
  }))
  report.heading('gVisor: the memory of a sandbox with one small program')
  const rows = await roundRobin(ended, rounds)
  report.table(rows)
  for (const row of rows) keepMedians(report, row.name, [{ ...row, name: NAMES.gvisor }])
  await box.destroy()
  await pod.snapshots.remove('bench-memory')
}

async function largeMemory(report: Report, pod: AgentPod, rounds: number): Promise<void> {
  const box = await pod.create({ isolation: 'gvisor', resources: { memoryMib: 1500 } })
  await sh(
    box,
    `nohup python3 -c "import time; data = bytearray(${LARGE_BYTES}); data[::4096] = b'x' * len(data[::4096]); open('/tmp/ready', 'w'); time.sleep(9999)" >/dev/null 2>&1 &`,
  )
  await until('the array is there', async () => (await sh(box, 'ls /tmp/ready 2>/dev/null || true')) !== '')
  report.heading('gVisor: the memory of a Python process with 500 MB')
  report.table(
    await roundRobin(
      [
        { name: 'pause to disk', once: () => timed(() => box.pause({ toDisk: true })) },
        { name: 'resume from disk to the first output', once: () => toFirstOutput([], () => box.resume()) },
      ],
      rounds,
      0,
    ),
  )
  await box.destroy()
}

async function onBoth(pod: AgentPod): Promise<[Box, Box]> {
  const on = async (isolation: Level): Promise<Box> => ({
    name: NAMES[isolation],
    box: await pod.create({ isolation }),
  })
  return [await on('container'), await on('gvisor')]
}
