/** Virtual machines beside sandboxes on the machine's kernel: lives, memory, and what work inside costs. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { NO_QEMU, SMALL_MACHINE } from '../support/qemu.ts'
import { sharedBootstrap } from '../support/shared-bootstrap.ts'
import { World } from '../support/world.ts'
import { commands, type MeasuredLevel, manyAtOnce, memoryOf, onBoth, singleLives } from './level-lives.ts'
import { keepIdleMemory, keepMedians, workInside } from './levels.ts'
import { summarize, timed } from './measure.ts'
import type { Report } from './report.ts'

const NAME = 'virtual machine'
/** podhost makes the machine that waits for the next sandbox after half a second without a start. */
const UNTIL_ONE_WAITS_MS = 3000

export async function onMachines(
  report: Report,
  o: { readonly rounds: number; readonly isQuick: boolean },
): Promise<void> {
  report.heading('Virtual machines')
  if (NO_QEMU !== undefined) return report.say(`Not here: ${NO_QEMU}.`)
  await using world = new World({ env: sharedBootstrap() })
  await using cold = new World({ env: { ...sharedBootstrap(), AGENTPOD_SHELLS: '0' } })
  const [pod, coldPod] = [world.client(), cold.client()]
  for (const one of [pod, coldPod]) await one.prepare('debian', () => undefined)
  /** Both on the base that virtual machines have. */
  const create = (isolation: 'container' | 'vm', on = pod): Promise<Sandbox> =>
    on.create({ isolation, environment: { base: 'debian' }, resources: SMALL_MACHINE })
  const level: MeasuredLevel = {
    title: 'Virtual machines',
    pod,
    kinds: [
      { name: 'crun', create: () => create('container') },
      { name: NAME, create: () => create('vm') },
    ],
    pauseMs: UNTIL_ONE_WAITS_MS,
    unready: { name: `${NAME}, none waits`, create: () => create('vm', coldPod) },
  }
  // The first one boots a template, and the second one makes an environment of it.
  const first = await timed(async () => (await create('vm')).destroy())
  await (await create('vm', coldPod)).destroy()
  for (const kind of [...level.kinds, level.unready]) await (await kind?.create())?.destroy()
  report.say(`256 MiB and one processor each. The first one, which boots, took ${first.toFixed(0)} ms.`)
  await singleLives(report, level, Math.ceil(o.rounds / 2))
  await manyAtOnce(report, level, o.isQuick ? 1 : 3)
  const still: number[] = []
  const onSnapshot = (id: string): unknown => still.push(standstillMs(world, id))
  await memoryOf(report, level, { rounds: Math.ceil(o.rounds / 4), onSnapshot })
  const standstill = summarize('stands still for a snapshot with memory', still)
  report.say('')
  report.table([standstill])
  keepMedians(report, standstill.name, [{ ...standstill, name: NAME }])
  const boxes = await onBoth(level)
  await keepIdleMemory(report, world, boxes)
  await commands(report, level, boxes, o.rounds)
  await workInside(report, { title: level.title, boxes, isQuick: o.isQuick })
  for (const { box } of boxes) await box.destroy()
  pod.close()
  coldPod.close()
}

/** What podhost logs about a snapshot: how long the machine was held. */
function standstillMs(world: World, id: string): number {
  const log = readFileSync(join(world.home, 'logs', 'podhost.log'), 'utf8')
  return Number(new RegExp(`${id}: \\S+ stood still for (\\S+) ms`).exec(log)?.[1])
}
