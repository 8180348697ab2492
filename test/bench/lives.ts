/** Whole lives of sandboxes beside those of the peers: alone, one after another, and all at once. */
import { join } from 'node:path'
import type { AgentPod } from '../../src/client/client.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { podhostOf } from '../support/host-view.ts'
import { ROOT, World } from '../support/world.ts'
import { EmptyServer } from './empty-server.ts'
import { EMPTY_PODD, EMPTY_SERVER, OURS, OURS_COLD, PLAIN_RUNTIME } from './figures.ts'
import { inTurn, type Life, type Loop, type Summary, summarize } from './measure.ts'
import { processesNaming, pssMib } from './memory.ts'
import type { PeerDriver, PeerProgram } from './peer-driver.ts'
import type { Peer } from './peers.ts'
import { processesOf, processorTimeOf, processorTimeOfOne, processorTimes } from './processor-time.ts'
import type { Report } from './report.ts'
import { poddsOf, settle } from './state.ts'

const AT_ONCE = 100
/** So that the shells that are made again do not take the processor from the next case. */
const QUIET_MS = 200
const LOOP_QUIET_MS = 1500
/** A podd returns the memory of its start after a few seconds. */
const IDLE_MS = 6000

export interface LivesOptions {
  readonly world: World
  /** A world without shells. */
  readonly cold: World
  readonly peers: readonly Peer[]
  readonly driver: PeerDriver
  readonly rounds: number
  readonly isQuick: boolean
}

export async function lives(report: Report, o: LivesOptions): Promise<void> {
  await singleLives(report, o)
  await loops(report, o)
  await atOnce(report, o)
  await memory(report, o)
}

async function singleLives(report: Report, o: LivesOptions): Promise<void> {
  const quietly = async (pod: AgentPod): Promise<Life> => {
    const one = await live(pod)
    await settle(QUIET_MS)
    return one
  }
  const [pod, coldPod] = [o.world.client(), o.cold.client()]
  await using empty = await EmptyServer.start(o.world.socket, live)
  const emptyPod = empty.client()
  const samples = await inTurn<Life>(
    [
      { name: OURS, once: () => quietly(pod) },
      { name: OURS_COLD, once: () => quietly(coldPod) },
      { name: EMPTY_SERVER, once: () => live(emptyPod) },
      ...o.peers.map(({ name, once }) => ({ name, once: () => o.driver.life(once) })),
    ],
    o.rounds,
  )
  report.heading('Create to the first output of the first command')
  const outputs = summaries(samples, 'firstOutputMs')
  report.table(outputs, PLAIN_RUNTIME)
  report.heading('Whole life: create, first output, gone')
  report.table(summaries(samples, 'lifeMs'), PLAIN_RUNTIME)
  report.keep(
    'create',
    outputs.filter(({ name }) => name !== EMPTY_SERVER),
  )
}

function summaries(
  samples: readonly { readonly name: string; readonly values: readonly Life[] }[],
  of: keyof Life,
): Summary[] {
  return samples.map(({ name, values }) =>
    summarize(
      name,
      values.map((life) => life[of]),
    ),
  )
}

/** Shells cannot be made again between two lives without taking time from them. */
async function loops(report: Report, o: LivesOptions): Promise<void> {
  const [count, few] = o.isQuick ? [10, 2] : [50, 10]
  await using empty = await EmptyServer.start(o.world.socket, live)
  const samples = await inTurn<Loop>(
    [
      { name: OURS, once: () => ourLoop(o.world, count) },
      { name: EMPTY_SERVER, once: () => emptyLoop(empty, count) },
      { name: EMPTY_PODD, once: () => o.driver.loop(emptyPodd(), count) },
      ...o.peers.map(({ name, once, isEngine }) => ({
        name,
        once: async () => {
          const { eachMs, processorMs } = await o.driver.loop(once, isEngine ? few : count)
          return { eachMs, processorMs: isEngine ? undefined : processorMs }
        },
      })),
    ],
    o.isQuick ? 1 : 3,
    1,
  )
  report.heading('Creates one after another without pauses, whole lives')
  report.say(`${count} lives in each loop, ${few} of engines; medians of ${o.isQuick ? 1 : 3}.\n`)
  const rows = samples.map(({ name, values }) => ({
    each: summarize(
      name,
      values.map(({ eachMs }) => eachMs),
    ),
    processor: summarize(
      name,
      values.map(({ processorMs }) => processorMs ?? Number.NaN),
    ).p50,
  }))
  report.rows(
    ['what', 'ms for each', 'lives a second', 'processor time of one, ms'],
    rows.map(({ each: { name, p50 }, processor }) => [
      name,
      p50.toFixed(1),
      (1000 / p50).toFixed(0),
      Number.isNaN(processor) ? '' : processor.toFixed(1),
    ]),
  )
  report.keep(
    'loop',
    rows.map(({ each }) => each).filter(({ name }) => name !== EMPTY_SERVER && name !== EMPTY_PODD),
  )
}

/** What the client and a server take that only answers. */
async function emptyLoop(empty: EmptyServer, count: number): Promise<Loop> {
  const pod = empty.client()
  const used = (): number => processorTimeOf(process.pid).ownMs + processorTimeOf(empty.pid).ownMs
  await settle(QUIET_MS)
  const [before, start] = [used(), performance.now()]
  for (let n = 0; n < count; n++) await live(pod)
  return { eachMs: (performance.now() - start) / count, processorMs: (used() - before) / count }
}

function emptyPodd(): PeerProgram {
  const namespaces = ['user', 'mount', 'pid', 'net', 'ipc', 'uts', 'cgroup'].map((name) => `--${name}`)
  const script = '"$0" --unguarded --stdio < /dev/null > /dev/null; echo x'
  const podd = join(ROOT, 'dist', 'bin', 'podd')
  return {
    argv: ['/usr/bin/unshare', '--map-root-user', ...namespaces, '--fork', '/bin/sh', '-c', script, podd],
  }
}

/** With the processor time of the shells that take the place of those used. */
async function ourLoop(world: World, count: number): Promise<Loop> {
  const pod = world.client()
  await settle(LOOP_QUIET_MS)
  const before = processorTimes(world)
  const start = performance.now()
  for (let n = 0; n < count; n++) await live(pod)
  const eachMs = (performance.now() - start) / count
  await settle(LOOP_QUIET_MS)
  const each = processorTimeOfOne(before, processorTimes(world), count)
  return { eachMs, processorMs: [...each.values()].reduce((sum, ms) => sum + ms, 0) }
}

async function atOnce(report: Report, o: LivesOptions): Promise<void> {
  const pod = o.world.client()
  const samples = await inTurn<Life>(
    [
      {
        name: OURS,
        once: async () => {
          const all = await ourHundred(pod)
          await settle(LOOP_QUIET_MS)
          return all
        },
      },
      ...o.peers.map(({ name, once }) => ({ name, once: () => o.driver.together(once, AT_ONCE) })),
    ],
    o.isQuick ? 1 : 3,
    0,
  )
  report.heading(`${AT_ONCE} at once, each runs a command`)
  const outputs = summaries(samples, 'firstOutputMs')
  const ends = summaries(samples, 'lifeMs')
  report.rows(
    ['what', 'all have said something, p50', 'min', 'all are gone, p50', 'min'],
    outputs.map(({ name, p50, min }, n) => [
      name,
      ...[p50, min, ends[n]?.p50, ends[n]?.min].map((ms) => (ms ?? Number.NaN).toFixed(0)),
    ]),
  )
  report.keep('hundred', outputs)
}

/** All say something before the first is destroyed. */
async function ourHundred(pod: AgentPod): Promise<Life> {
  const start = performance.now()
  const all: Sandbox[] = []
  const outputs = await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      const sandbox = await pod.create({})
      all.push(sandbox)
      return await firstOutput(sandbox)
    }),
  )
  await Promise.all(all.map((sandbox) => sandbox.destroy()))
  return { firstOutputMs: Math.max(...outputs) - start, lifeMs: performance.now() - start }
}

async function live(pod: AgentPod): Promise<Life> {
  const start = performance.now()
  const sandbox = await pod.create({})
  const at = await firstOutput(sandbox)
  await sandbox.destroy()
  return { firstOutputMs: at - start, lifeMs: performance.now() - start }
}

/** When the first output of a command came. Returns after its end, as a peer's life goes on to it. */
async function firstOutput(sandbox: Sandbox): Promise<number> {
  let at = Number.NaN
  for await (const { data } of sandbox.exec('echo', { args: ['x'] }).output())
    if (data.length > 0 && Number.isNaN(at)) at = performance.now()
  if (Number.isNaN(at)) throw new Error('no output')
  return at
}

/**
 * PSS of sandboxes that wait, and of the processes that are there for all of them. In a world of its own:
 * after many starts at once, more shells are kept for a minute.
 */
async function memory(report: Report, o: LivesOptions): Promise<void> {
  const count = o.isQuick ? 4 : 20
  await using world = new World()
  const pod = world.client()
  for (let n = 0; n < count; n++) await pod.create({})
  await settle(IDLE_MS)
  const others = [...processesOf(world)].filter(([, name]) => name !== 'client').map(([pid]) => pid)
  const rest = pssMib([...others, ...(await shellsOf(world))])
  const rows = [{ name: OURS, each: pssMib(poddsOf(world)) / count, rest }]
  for (const { name, idle, daemonWords = [] } of o.peers) {
    if (!idle) continue
    const words = await idle(count)
    await settle(QUIET_MS)
    const pids = processesNaming(words)
    const daemons = processesNaming(daemonWords).filter((pid) => !pids.includes(pid))
    rows.push({ name, each: pssMib(pids) / count, rest: pssMib(daemons) })
  }
  report.heading(`Memory of ${count} idle sandboxes, MiB of PSS`)
  report.rows(
    ['what', 'each', 'everything else together'],
    rows.map(({ name, each, rest }) => [name, each.toFixed(1), rest.toFixed(0)]),
  )
  report.keep(
    'memory',
    rows.map(({ name, each }) => summarize(name, [each])),
  )
  report.keep(
    'fixedMemory',
    rows.map(({ name, rest }) => summarize(name, [rest])),
  )
}

/** Ready shells belong to no sandbox yet. */
async function shellsOf(world: World): Promise<number[]> {
  const podhost = podhostOf(world)
  const { shells } = (await podhost.call('hello', {}, { timeoutMs: 5000 })) as { shells: number[] }
  await podhost.close()
  return shells
}
