/** Virtual machines beside sandboxes on the machine's kernel: lives, memory, and what work inside costs. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentPod } from '../../src/client/client.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { NO_QEMU, SMALL_MACHINE } from '../support/qemu.ts'
import { sharedBootstrap } from '../support/shared-bootstrap.ts'
import { World } from '../support/world.ts'
import {
  type Box,
  firstOutput,
  keepIdleMemory,
  keepMedians,
  sh,
  toFirstOutput,
  workInside,
} from './levels.ts'
import { type Case, inTurn, roundRobin, type Summary, summarize, timed } from './measure.ts'
import type { Report } from './report.ts'

const LEVELS = ['container', 'vm'] as const
type Level = (typeof LEVELS)[number]
const NAMES: Readonly<Record<Level, string>> = { container: 'crun', vm: 'virtual machine' }
const AT_ONCE = 20

/** Both on the base that virtual machines have. */
const create = (pod: AgentPod, isolation: Level): Promise<Sandbox> =>
  pod.create({ isolation, environment: { base: 'debian' }, resources: SMALL_MACHINE })

export async function onMachines(
  report: Report,
  o: { readonly rounds: number; readonly isQuick: boolean },
): Promise<void> {
  report.heading('Virtual machines')
  if (NO_QEMU !== undefined) return report.say(`Not here: ${NO_QEMU}.`)
  await using world = new World({ env: sharedBootstrap() })
  const pod = world.client()
  await pod.prepare('debian', () => undefined)
  // The first one boots a template, and the second one makes an environment of it.
  const first = await timed(async () => (await create(pod, 'vm')).destroy())
  for (const isolation of LEVELS) await (await create(pod, isolation)).destroy()
  report.say(`256 MiB and one processor each. The first one, which boots, took ${first.toFixed(0)} ms.`)
  await singleLives(report, pod, o.rounds)
  await manyAtOnce(report, pod)
  await memory(report, world, pod, Math.ceil(o.rounds / 2))
  const boxes = [
    { name: NAMES.container, box: await create(pod, 'container') },
    { name: NAMES.vm, box: await create(pod, 'vm') },
  ] satisfies [Box, Box]
  await keepIdleMemory(report, world, boxes)
  report.heading('Virtual machines: run `true` in a running sandbox')
  const commands = await roundRobin(
    boxes.map(({ name, box }) => ({ name, once: () => timed(() => box.exec('true').wait()) })),
    o.rounds,
  )
  report.table(commands, NAMES.container)
  keepMedians(report, 'a command in a running one', commands)
  await workInside(report, { title: 'Virtual machines', boxes, isQuick: o.isQuick })
  for (const { box } of boxes) await box.destroy()
  pod.close()
}

async function singleLives(report: Report, pod: AgentPod, rounds: number): Promise<void> {
  const samples = await inTurn(
    LEVELS.map((isolation) => ({
      name: NAMES[isolation],
      once: async () => {
        const start = performance.now()
        const sandbox = await create(pod, isolation)
        const at = await firstOutput(sandbox)
        await sandbox.destroy()
        return { firstOutputMs: at - start, lifeMs: performance.now() - start }
      },
    })),
    rounds,
  )
  const of = (part: 'firstOutputMs' | 'lifeMs'): Summary[] =>
    samples.map(({ name, values }) =>
      summarize(
        name,
        values.map((life) => life[part]),
      ),
    )
  report.heading('Virtual machines: create to the first output of the first command')
  report.table(of('firstOutputMs'), NAMES.container)
  keepMedians(report, 'create to first output', of('firstOutputMs'))
  report.heading('Virtual machines: whole life')
  report.table(of('lifeMs'), NAMES.container)
}

async function manyAtOnce(report: Report, pod: AgentPod): Promise<void> {
  const all: Sandbox[] = []
  const took = await timed(() =>
    Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        const one = await create(pod, 'vm')
        all.push(one)
        await firstOutput(one)
      }),
    ),
  )
  for (const one of all) await one.destroy()
  report.heading(`Virtual machines: ${AT_ONCE} at once, until all have said something`)
  report.say(`${(took / 1000).toFixed(1)} s, once.`)
}

/** With one small program that runs. */
async function memory(report: Report, world: World, pod: AgentPod, rounds: number): Promise<void> {
  const box = await create(pod, 'vm')
  await sh(box, 'nohup sh -c "while :; do date +%s > /tmp/now; sleep 0.1; done" >/dev/null 2>&1 &')
  await box.snapshot({ name: 'bench-machine', memory: true })
  const made: Sandbox[] = []
  const still: number[] = []
  const cases: readonly Case[] = [
    {
      name: 'snapshot with memory',
      once: async () => {
        let id = ''
        const took = await timed(async () => {
          id = (await box.snapshot({ memory: true })).id
        })
        still.push(standstillMs(world, id))
        await pod.snapshots.remove(id)
        return took
      },
    },
    {
      name: 'restore to the first output',
      once: () => toFirstOutput(made, () => pod.create({ snapshot: 'bench-machine' })),
    },
    {
      name: 'fork with memory to the first output',
      once: () => toFirstOutput(made, async () => (await box.fork({ memory: true }))[0]),
    },
  ]
  const ended: Case[] = cases.map(({ name, once }) => ({
    name,
    once: async () => {
      const took = await once()
      for (const one of made.splice(0)) await one.destroy()
      return took
    },
  }))
  report.heading('Virtual machines: the memory of one with one small program')
  const rows = await roundRobin(ended, rounds)
  const all = [...rows, summarize('stands still for a snapshot with memory', still)]
  report.table(all)
  for (const row of all) keepMedians(report, row.name, [{ ...row, name: NAMES.vm }])
  await box.destroy()
  await pod.snapshots.remove('bench-machine')
}

/** What podhost logs about a snapshot: from the moment the machine is held to the one when it is released. */
function standstillMs(world: World, id: string): number {
  const line = readFileSync(join(world.home, 'logs', 'podhost.log'), 'utf8')
    .split('\n')
    .findLast((one) => one.includes(`${id}: snapshot of`))
  const lap = (name: string): number =>
    Number(new RegExp(`\\b${name} (\\d+(?:\\.\\d+)?)`).exec(line ?? '')?.[1])
  return lap('hold') + lap('clone') + lap('memory')
}
