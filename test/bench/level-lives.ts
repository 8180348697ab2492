/** Lives and memory of sandboxes at a stronger level, beside those on the machine's kernel. */
import type { AgentPod } from '../../src/client/client.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { type Box, firstOutput, keepMedians, sh, toFirstOutput } from './levels.ts'
import { type Case, inTurn, type Life, roundRobin, type Summary, summarize, timed } from './measure.ts'
import type { Report } from './report.ts'

export interface MeasuredLevel {
  /** In headings. */
  readonly title: string
  readonly pod: AgentPod
  /** The machine's kernel first. */
  readonly kinds: readonly [Kind, Kind]
  /** Between lives, while shells are replaced in the background. */
  readonly pauseMs: number
  /** The second kind with nothing made ready ahead. */
  readonly unready?: Kind | undefined
}

export interface Kind {
  readonly name: string
  readonly create: () => Promise<Sandbox>
}

const AT_ONCE = 20

export async function singleLives(report: Report, level: MeasuredLevel, rounds: number): Promise<void> {
  const { title, kinds, unready } = level
  const measured = [...kinds, ...(unready ? [unready] : [])]
  const samples = await inTurn(
    measured.map((kind) => ({ name: kind.name, once: () => live(kind, level.pauseMs) })),
    rounds,
  )
  const of = (part: keyof Life): Summary[] =>
    samples.map(({ name, values }) =>
      summarize(
        name,
        values.map((life) => life[part]),
      ),
    )
  report.heading(`${title}: create to the first output of the first command`)
  report.table(of('firstOutputMs'), kinds[0].name)
  keepMedians(report, 'create to first output', of('firstOutputMs').slice(0, kinds.length))
  report.heading(`${title}: whole life`)
  report.table(of('lifeMs'), kinds[0].name)
}

async function live({ create }: Kind, pauseMs: number): Promise<Life> {
  await new Promise((resolve) => setTimeout(resolve, pauseMs))
  const start = performance.now()
  const sandbox = await create()
  const at = await firstOutput(sandbox)
  await sandbox.destroy()
  return { firstOutputMs: at - start, lifeMs: performance.now() - start }
}

export async function manyAtOnce(
  report: Report,
  { title, kinds }: MeasuredLevel,
  rounds: number,
): Promise<void> {
  const rows = await roundRobin(
    kinds.map(({ name, create }) => ({
      name,
      once: async () => {
        const all: Sandbox[] = []
        const took = await timed(() =>
          Promise.all(
            Array.from({ length: AT_ONCE }, async () => {
              const one = await create()
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
  report.heading(`${title}: ${AT_ONCE} at once, until all have said something`)
  report.table(rows, kinds[0].name)
  keepMedians(report, `${AT_ONCE} at once`, rows)
}

export async function onBoth({ kinds }: MeasuredLevel): Promise<[Box, Box]> {
  const box = async ({ name, create }: Kind): Promise<Box> => ({ name, box: await create() })
  return [await box(kinds[0]), await box(kinds[1])]
}

export async function commands(
  report: Report,
  { title, kinds }: MeasuredLevel,
  boxes: readonly [Box, Box],
  rounds: number,
): Promise<void> {
  report.heading(`${title}: run \`true\` in a running sandbox`)
  const rows = await roundRobin(
    boxes.map(({ name, box }) => ({ name, once: () => timed(() => box.exec('true').wait()) })),
    rounds,
  )
  report.table(rows, kinds[0].name)
  keepMedians(report, 'a command in a running one', rows)
}

/** Of a sandbox with one small program. `onSnapshot` gets the id of each snapshot that is measured. */
export async function memoryOf(
  report: Report,
  { title, pod, kinds, pauseMs }: MeasuredLevel,
  o: { readonly rounds: number; readonly onSnapshot?: (id: string) => void },
): Promise<void> {
  const [, { name: level, create }] = kinds
  const box = await create()
  await sh(box, 'nohup sh -c "while :; do date +%s > /tmp/now; sleep 0.1; done" >/dev/null 2>&1 &')
  const saved = `bench-${box.id}`
  await box.snapshot({ name: saved, memory: true })
  const made: Sandbox[] = []
  const cases: readonly Case[] = [
    {
      name: 'snapshot with memory',
      once: async () => {
        let id = ''
        const took = await timed(async () => {
          id = (await box.snapshot({ memory: true })).id
        })
        o.onSnapshot?.(id)
        await pod.snapshots.remove(id)
        return took
      },
    },
    {
      name: 'restore to the first output',
      once: () => toFirstOutput(made, () => pod.create({ snapshot: saved })),
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
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
      const took = await once()
      for (const one of made.splice(0)) await one.destroy()
      return took
    },
  }))
  report.heading(`${title}: the memory of a sandbox with one small program`)
  const rows = await roundRobin(ended, o.rounds)
  report.table(rows)
  for (const row of rows) keepMedians(report, row.name, [{ ...row, name: level }])
  await box.destroy()
  await pod.snapshots.remove(saved)
}
