/** Sandboxes on gVisor beside those on the machine's kernel: lives, memory, and what work inside costs. */
import type { AgentPod } from '../../src/client/client.ts'
import { NO_GVISOR } from '../support/gvisor.ts'
import { until, World } from '../support/world.ts'
import { commands, type MeasuredLevel, manyAtOnce, memoryOf, onBoth, singleLives } from './level-lives.ts'
import { keepIdleMemory, sh, toFirstOutput, workInside } from './levels.ts'
import { roundRobin, timed } from './measure.ts'
import type { Report } from './report.ts'

const LARGE_BYTES = 500_000_000

export async function onGVisor(
  report: Report,
  o: { readonly rounds: number; readonly isQuick: boolean },
): Promise<void> {
  report.heading('gVisor')
  if (NO_GVISOR !== undefined) return report.say(`Not here: ${NO_GVISOR}.`)
  await using world = new World()
  const pod = world.client()
  const level: MeasuredLevel = {
    title: 'gVisor',
    pod,
    kinds: [
      { name: 'crun', create: () => pod.create({ isolation: 'container' }) },
      { name: 'gVisor', create: () => pod.create({ isolation: 'gvisor' }) },
    ],
    pauseMs: 400,
  }
  // The first sandbox of each kind also starts the shells of that kind.
  for (const { create } of level.kinds) await (await create()).destroy()
  await singleLives(report, level, o.rounds)
  await manyAtOnce(report, level, o.isQuick ? 1 : 3)
  await memoryOf(report, level, { rounds: Math.ceil(o.rounds / 2) })
  await largeMemory(report, pod, o.isQuick ? 1 : 3)
  const boxes = await onBoth(level)
  await keepIdleMemory(report, world, boxes)
  await commands(report, level, boxes, o.rounds)
  await workInside(report, { title: level.title, boxes, isQuick: o.isQuick })
  for (const { box } of boxes) await box.destroy()
  pod.close()
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
