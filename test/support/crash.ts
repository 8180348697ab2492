/**
 * A server that is killed, or whose next step fails, at a named step; and the checks after the next server
 * has started.
 */
import assert from 'node:assert/strict'
import type { AgentPod } from '../../src/client/client.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { AgentPodError, isAgentPodError } from '../../src/core/error.ts'
import type { Podhost } from '../../src/providers/local/podhost.ts'
import type { Failpoint } from '../../src/util/failpoint.ts'
import { bareRun, saidIn, statesIn } from './acp-user.ts'
import { podhostOf } from './host-view.ts'
import { shell } from './probe.ts'
import { isAlive, until, type World } from './world.ts'

const ASK = { timeoutMs: 20_000 }
const MARKER = 'written-before\n'

interface Subject {
  readonly pod: AgentPod
  readonly sandbox: Sandbox
}

/** What is done to a sandbox that is brought into a state first. */
interface Scenario {
  readonly points: RegExp
  readonly before?: (subject: Subject) => Promise<unknown>
  readonly passes: (subject: Subject) => Promise<unknown>
  /** Whether the sandbox may be gone afterwards. */
  readonly ends?: boolean
  /** Work that the next server continues on its own comes to its end. */
  readonly settled?: (subject: Subject) => Promise<unknown>
  /** What else must be true of the next server. */
  readonly after?: (subject: Subject) => Promise<unknown>
}

const SCENARIOS: readonly Scenario[] = [
  { points: /^create\./, passes: ({ pod }) => pod.create({}) },
  { points: /^exec\./, passes: ({ sandbox }) => shell(sandbox, 'true') },
  { points: /^pause\./, passes: ({ sandbox }) => sandbox.pause() },
  {
    points: /^resume\./,
    before: ({ sandbox }) => sandbox.pause(),
    passes: ({ sandbox }) => sandbox.resume(),
  },
  { points: /^stop\./, passes: ({ sandbox }) => sandbox.stop() },
  { points: /^start\./, before: ({ sandbox }) => sandbox.stop(), passes: ({ sandbox }) => sandbox.start() },
  {
    points: /^snapshot\.unlisted/,
    before: ({ sandbox }) => sandbox.snapshot({ name: 'shot' }),
    passes: ({ pod }) => pod.snapshots.remove('shot'),
  },
  { points: /^snapshot\./, passes: ({ sandbox }) => sandbox.snapshot({ name: 'shot' }) },
  {
    points: /^volume\.(?:unlisted|removed)/,
    before: ({ pod }) => pod.volumes.create({ name: 'data' }),
    passes: ({ pod }) => pod.volumes.remove('data'),
  },
  { points: /^volume\./, passes: ({ pod }) => pod.volumes.create({ name: 'data' }) },
  { points: /^fork\./, passes: ({ sandbox }) => sandbox.fork({ count: 2 }) },
  {
    points: /^group\.(?:intended|made)/,
    passes: ({ pod }) => pod.groups.create(GROUP),
    after: isGroupWhole,
  },
  {
    points: /^group\.snapshots/,
    before: ({ pod }) => pod.groups.create(GROUP),
    passes: ({ pod }) => pod.groups.snapshot('pair', { name: 'shot' }),
    after: async (subject) => {
      const count = (await subject.pod.snapshots.list()).length
      assert.ok(count === 0 || count === 2, `${count} snapshots`)
      await isGroupWhole(subject)
    },
  },
  {
    points: /^group\.destroying/,
    before: ({ pod }) => pod.groups.create(GROUP),
    passes: ({ pod }) => pod.groups.destroy('pair'),
    after: isGroupWhole,
  },
  { points: /^destroy\./, passes: ({ sandbox }) => sandbox.destroy(), ends: true },
  { points: /^run\./, passes: ranOnce, settled: runsEnd, after: didItOnce },
  { points: /^build\./, passes: ({ pod }) => pod.builds.build(RECIPE), after: isBuiltWhole },
]

const GROUP = {
  name: 'pair',
  members: [
    { name: 'one', sandbox: {} },
    { name: 'two', after: ['one'], sandbox: {} },
  ],
}

/** A group has all its members, or neither it nor any of them exists. */
async function isGroupWhole({ pod, sandbox }: Subject): Promise<void> {
  const others = async (): Promise<number> => (await pod.list()).filter(({ id }) => id !== sandbox.id).length
  for (const { name, members } of await pod.groups.list()) {
    assert.deepEqual(
      members.map((member) => member.sandbox?.state),
      ['running', 'running'],
    )
    assert.equal(await others(), 2)
    await pod.groups.destroy(name)
  }
  assert.equal(await others(), 0)
  assert.equal((await pod.groups.list()).length, 0)
}

const RECIPE = {
  base: { name: 'host' as const },
  steps: [{ name: 'one', title: 'one', run: 'mkdir -p /opt/one && echo whole > /opt/one/file && sync' }],
}

/** A run that leaves a line each time it is done. */
async function ranOnce({ pod }: Subject): Promise<void> {
  const run = await pod.runs.start(bareRun('sh echo once >> ~/done; cat ~/done\ncount 10 10'))
  const { info } = await run.ended()
  if (info.outcome !== 'failed') return
  const [message, hint] = ['the run failed', info.reason ?? undefined]
  throw new AgentPodError({ code: 'internal', reason: 'run.failed', message, hint })
}

async function runsEnd({ pod }: Subject): Promise<void> {
  for (const run of await pod.runs.list()) await run.ended()
}

/** What was written down as begun was done, once, and told once. What was not leaves nothing. */
async function didItOnce({ pod }: Subject): Promise<void> {
  for (const run of await pod.runs.list()) {
    const { outcome, sandboxId, reason } = (await run.refresh()).info
    const events = await run.events()
    if (outcome === 'failed') assert.ok(reason)
    else {
      const numbers = Array.from({ length: 10 }, (_, n) => `<${n + 1}>`).join('')
      assert.deepEqual([outcome, saidIn(events)], ['unchanged', `once\n${numbers}`])
      assert.equal(await shell(await pod.get(sandboxId ?? ''), 'cat ~/done'), 'once\n')
    }
    assert.equal(statesIn(events).filter((state) => state === 'ended').length, 1)
    await run.remove()
  }
  assert.deepEqual(await pod.runs.list(), [])
}

/** What was built is found and whole, or was not built; either way it can be. */
async function isBuiltWhole({ pod }: Subject): Promise<void> {
  const { digest } = await pod.builds.build(RECIPE)
  const sandbox = await pod.create({ environment: { digest } })
  assert.equal(await shell(sandbox, 'cat /opt/one/file'), 'whole\n')
  await sandbox.destroy()
  assert.equal((await pod.builds.layers()).length, 1)
}

/** Those that an ordinary call passes; a migration has a test of its own. */
export const isSwept = (point: Failpoint): boolean => SCENARIOS.some(({ points }) => points.test(point))

export class CrashWorld {
  readonly #world: World
  readonly #podhost: Podhost

  constructor(world: World) {
    this.#world = world
    this.#podhost = podhostOf(world)
  }

  close(): Promise<void> {
    return this.#podhost.close()
  }

  /** Makes the call that passes the point with `action` there, and checks what a new server makes of it. */
  async sweep(point: Failpoint, action: string): Promise<void> {
    const scenario = SCENARIOS.find(({ points }) => points.test(point))
    assert.ok(scenario, `a scenario for ${point}`)
    const pod = this.#world.client()
    const subject = { pod, sandbox: await pod.create({ lifetime: { autoResume: true } }) }
    await shell(subject.sandbox, `printf ${JSON.stringify(MARKER)} > ~/marker`)
    await scenario.before?.(subject)
    await this.killServer()
    await this.#world.ok(['ls'], { env: { AGENTPOD_FAILPOINT: `${point}=${action}` } })
    const failing = this.#world.serverPid
    // After a kill the client finds a new server, without the failpoint, and may well succeed there.
    const error = await scenario.passes(subject).then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    // Its sockets close a moment before it is gone.
    if (action === 'kill') await until(`${point} is passed`, () => !isAlive(failing))
    else assert.ok(isAgentPodError(error) && error.hint, `the control: ${point} was passed: ${error}`)
    await this.killServer()
    await this.#world.ok(['ls'])
    await scenario.settled?.(subject)
    await this.checked(pod)
    await this.#isSound(subject, scenario.ends ?? false)
    await scenario.after?.(subject)
    await pod.builds.prune(0)
    for (const { id } of await pod.list()) await (await pod.get(id)).destroy()
    for (const { id } of await pod.snapshots.list()) await pod.snapshots.remove(id)
    for (const { id } of await pod.volumes.list()) await pod.volumes.remove(id)
    await this.checked(pod)
  }

  /** kill -9, if one lives. */
  async killServer(): Promise<void> {
    const pid = this.#world.serverPid
    if (!isAlive(pid)) return
    process.kill(pid, 'SIGKILL')
    await until('the server is gone', () => !isAlive(pid))
  }

  /** I1, I2: records and what there is agree, and nothing is half done. */
  async checked(pod: AgentPod): Promise<void> {
    const rows = await pod.list()
    for (const { id, state } of rows)
      assert.ok(['running', 'paused', 'stopped'].includes(state), `${id} is ${state}`)
    const { sandboxes } = (await this.#podhost.call('sandbox.list', {}, ASK)) as {
      sandboxes: ListedSandbox[]
    }
    assert.deepEqual(statesOf(sandboxes), statesOf(rows))
    const { volumes } = (await this.#podhost.call('volume.list', {}, ASK)) as { volumes: { id: string }[] }
    assert.deepEqual(
      volumes.map(({ id }) => id),
      (await pod.volumes.list()).map(({ id }) => id),
    )
    const shots = await pod.snapshots.list()
    const { snapshots } = (await this.#podhost.call('snapshot.list', {}, ASK)) as {
      snapshots: ListedSandbox[]
    }
    const layers = await pod.builds.layers()
    assert.equal(snapshots.length, shots.length + layers.length)
    for (const { id } of shots)
      assert.ok(
        snapshots.some((one) => one.id === id),
        `${id} is there`,
      )
  }

  /** I4: what was acknowledged before still exists: its file, and a sandbox that keeps running. */
  async #isSound({ pod, sandbox }: Subject, mayBeGone: boolean): Promise<void> {
    const isThere = (await pod.list()).some(({ id }) => id === sandbox.id)
    if (mayBeGone && !isThere) return
    assert.equal(await shell(sandbox, 'cat ~/marker'), MARKER)
  }
}

interface ListedSandbox {
  readonly id: string
  readonly state: string
}

function statesOf(listed: readonly ListedSandbox[]): Map<string, string> {
  return new Map(listed.map(({ id, state }) => [id, state] as const).sort(([a], [b]) => (a < b ? -1 : 1)))
}
