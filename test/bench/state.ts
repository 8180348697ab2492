/** Snapshots, forks and pauses; and whether anything grows slower with what there is. */
import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentPod } from '../../src/client/client.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { parseSandboxId } from '../../src/core/id.ts'
import { openDatabase } from '../../src/store/database.ts'
import { STATE_MIGRATIONS, sandboxStore } from '../../src/store/sandboxes.ts'
import { isAlive, until, type World } from '../support/world.ts'
import { roundRobin, type Summary, summarize, timed } from './measure.ts'
import { pssMib } from './memory.ts'
import type { Peer } from './peers.ts'
import type { Report } from './report.ts'

const FILES = 50_000
const FILE_BYTES = 21_475

/** Snapshot and fork of a running sandbox that holds a gigabyte. */
export async function copies(
  pod: AgentPod,
  report: Report,
  { scale, peers, scratch }: { scale: number; peers: readonly Peer[]; scratch: string },
): Promise<void> {
  const files = Math.round(FILES * scale)
  const sandbox = await pod.create({})
  const script = `import os
data = os.urandom(${FILE_BYTES})
for n in range(${files}):
    d = os.path.expanduser('~/data/%d' % (n // 500))
    if n % 500 == 0: os.makedirs(d)
    with open('%s/%d' % (d, n), 'wb') as f: f.write(data)
os.sync()`
  const { exitCode } = await sandbox.exec('/usr/bin/python3', { args: ['-c', script] }).wait()
  if (exitCode !== 0) throw new Error('the files could not be written')
  await settle(3000)
  const forks: Sandbox[] = []
  const rows = await roundRobin(
    [
      {
        name: 'snapshot',
        once: async () => {
          let id = ''
          const took = await timed(async () => {
            id = (await sandbox.snapshot({})).id
          })
          await pod.snapshots.remove(id)
          return took
        },
      },
      {
        name: 'fork, to its first command’s end',
        once: () =>
          timed(async () => {
            const [one] = await sandbox.fork({})
            if (!one) throw new Error('no fork')
            forks.push(one)
            await one.exec('true').wait()
          }),
      },
    ],
    10,
  )
  await Promise.all(forks.map((one) => one.destroy()))
  await sandbox.destroy()
  const all = [...rows, ...(await commits(peers, files, scratch))]
  report.table(all)
  report.keep('copies', all)
}

/** The same files in containers of the peers that can make an image of one, once each: it takes long. */
async function commits(peers: readonly Peer[], files: number, scratch: string): Promise<Summary[]> {
  const able = peers.filter(({ commit }) => commit)
  if (able.length === 0) return []
  const directory = join(scratch, 'data')
  const data = randomBytes(FILE_BYTES)
  for (let n = 0; n < files; n++) {
    const parent = join(directory, String(Math.floor(n / 500)))
    if (n % 500 === 0) mkdirSync(parent, { recursive: true })
    writeFileSync(join(parent, String(n)), data)
  }
  const rows: Summary[] = []
  for (const { name, commit } of able)
    if (commit) rows.push(summarize(`${name} commit (once)`, [await commit(directory)]))
  return rows
}

export async function pauses(pod: AgentPod, rounds: number): Promise<Summary[]> {
  await using sandbox = await pod.create({})
  await sandbox.exec('/bin/sh', { args: ['-c', 'sleep 600 > /dev/null 2>&1 &'] }).wait()
  return await roundRobin(
    [
      { name: 'pause', once: () => timed(() => sandbox.pause()) },
      { name: 'resume', once: () => timed(() => sandbox.resume()) },
      {
        name: 'exec in a paused one, which wakes it',
        once: async () => {
          await sandbox.pause()
          return timed(() => sandbox.exec('true').wait())
        },
      },
      { name: 'stop', once: () => timed(() => sandbox.stop()) },
      {
        name: 'start, to its first command’s end',
        once: () =>
          timed(async () => {
            await sandbox.start()
            await sandbox.exec('true').wait()
          }),
      },
    ],
    rounds,
  )
}

interface Load {
  readonly at: string
  readonly create: number
  readonly exec: number
  readonly list: number
  /** MiB for each idle sandbox. */
  readonly memory: number | undefined
}

/** Create, exec and list with that many sandboxes beside, and with a long history behind. */
export async function growth(
  world: World,
  report: Report,
  counts: readonly number[],
  rows: number,
): Promise<void> {
  const loads: Load[] = []
  const beside: Sandbox[] = []
  for (const count of counts) {
    const pod = world.client()
    while (beside.length < count) {
      const batch = Math.min(20, count - beside.length)
      beside.push(
        ...(await Promise.all(
          Array.from({ length: batch }, () => pod.create({ lifetime: { ttlMs: 3_600_000 } })),
        )),
      )
    }
    await settle(3000)
    loads.push({ ...(await load(pod, `${count} sandboxes`)), memory: pssMib(poddsOf(world)) / count })
  }
  for (let i = 0; i < beside.length; i += 50)
    await Promise.all(beside.slice(i, i + 50).map((one) => one.destroy()))
  await withHistory(world, rows)
  loads.push(await load(world.client(), `1 sandbox, ${rows.toLocaleString('en')} rows of history`))
  report.say('| beside | create, to first command’s end | exec | list | PSS of podd, each |')
  report.say('|---|---|---|---|---|')
  for (const { at, create, exec, list, memory } of loads) {
    const each = memory === undefined ? '' : `${memory.toFixed(1)} MiB`
    report.say(`| ${at} | ${create.toFixed(1)} | ${exec.toFixed(1)} | ${list.toFixed(1)} | ${each} |`)
  }
}

async function load(pod: AgentPod, at: string): Promise<Load> {
  await using sandbox = await pod.create({})
  const made: Sandbox[] = []
  const rows = await roundRobin(
    [
      {
        name: 'create',
        once: () =>
          timed(async () => {
            const one = await pod.create({})
            made.push(one)
            await one.exec('true').wait()
          }),
      },
      { name: 'exec', once: () => timed(() => sandbox.exec('true').wait()) },
      { name: 'list', once: () => timed(() => pod.list()) },
    ],
    20,
  )
  await Promise.all(made.map((one) => one.destroy()))
  const p50 = (name: string): number => rows.find((row) => row.name === name)?.p50 ?? Number.NaN
  return { at, create: p50('create'), exec: p50('exec'), list: p50('list'), memory: undefined }
}

/** Rows of sandboxes that ended long ago, as the ledger would have written them. */
async function withHistory(world: World, rows: number): Promise<void> {
  const [template] = await world.client().list({ all: true })
  const pid = world.serverPid
  await world.ok(['server', 'stop'])
  await until('the server is gone', () => !isAlive(pid))
  const db = openDatabase({
    path: join(world.home, 'state.db'),
    synchronous: 'FULL',
    migrations: STATE_MIGRATIONS,
  })
  const store = sandboxStore(db)
  const like = template && store.get(parseSandboxId(template.id))
  if (!like) throw new Error('there is no row to copy')
  for (let n = 0; n < rows; n++) {
    const id = parseSandboxId(`h${String(n).padStart(10, '0')}`)
    const at = like.createdAt - (rows - n) * 1000
    store.insert(
      { ...like, id, name: undefined, state: 'destroyed', createdAt: at, endedAt: at + 500 },
      undefined,
    )
  }
  db.close()
}

/** The host's pids of the podds of all sandboxes. */
export function poddsOf(world: World): number[] {
  const directory = join(world.home, 'sandboxes')
  return readdirSync(directory).map(
    (id) => (JSON.parse(readFileSync(join(directory, id, 'handle.json'), 'utf8')) as { pid: number }).pid,
  )
}

export function settle(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
