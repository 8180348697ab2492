/** Sandboxes on Docker beside Docker itself: the same daemon, the same image, no network in either. */
import { randomUUID } from 'node:crypto'
import type { Guest } from '../../src/core/guest.ts'
import { newSandboxId } from '../../src/core/id.ts'
import type { Created, CreatePlan } from '../../src/core/provider.ts'
import { resolveResources } from '../../src/core/resources.ts'
import { HOUR_MS, INIT, runCommand } from '../../src/testing/contract-context.ts'
import { systemRandom } from '../../src/util/random.ts'
import { NO_DOCKER } from '../support/docker-daemon.ts'
import { type DockerStage, openDocker } from '../support/docker-provider.ts'
import { inTurn, type Life, roundRobin, type Summary, summarize, timed } from './measure.ts'
import type { PeerDriver, PeerProgram } from './peer-driver.ts'
import { which } from './peers.ts'
import type { Report } from './report.ts'

const CALL = { timeoutMs: 60_000 }
const AT_ONCE = 20

export async function onDocker(
  report: Report,
  driver: PeerDriver,
  o: { readonly rounds: number },
): Promise<void> {
  report.heading('On Docker')
  if (NO_DOCKER) return report.say(`Not here: ${NO_DOCKER}.`)
  const stage = await openDocker()
  try {
    report.say('The provider alone, without a server in between; a private daemon, one image, no network.\n')
    await measure(report, driver, stage, Math.min(o.rounds, 20))
  } finally {
    await stage.close()
  }
}

async function measure(
  report: Report,
  driver: PeerDriver,
  stage: DockerStage,
  rounds: number,
): Promise<void> {
  const image = `agentpod-layer:${stage.owner}-${stage.digest}`
  const docker = (...args: string[]): PeerProgram => ({
    argv: [which('docker') ?? 'docker', '-H', `unix://${stage.daemon.socket}`, ...args],
  })
  const limits = ['--network', 'none', '--memory', '256m', '--cpus', '1', '--pids-limit', '64']
  const once = docker('run', '--rm', ...limits, image, 'echo', 'x')
  await using ours = new Ours(stage)
  const lives = await inTurn<Life>(
    [
      { name: 'agentpod on docker', once: () => ours.live() },
      { name: 'docker run --rm', once: () => driver.life(once) },
    ],
    rounds,
  )
  const rows = (of: keyof Life, what: string): Summary[] =>
    lives.map(({ name, values }) =>
      summarize(
        `${name}: ${what}`,
        values.map((one) => one[of]),
      ),
    )
  report.table([...rows('firstOutputMs', 'create to first output'), ...rows('lifeMs', 'whole life')])
  report.say('')
  const name = `bench-${randomUUID()}`
  await driver.command(docker('run', '--detach', '--name', name, ...limits, image, 'sleep', '3600'))
  const { guest } = await ours.make()
  report.table(
    await roundRobin(
      [
        {
          name: 'agentpod on docker: a command',
          once: () => timed(() => runCommand(guest, '/usr/bin/true', [])),
        },
        { name: 'docker exec', once: () => driver.command(docker('exec', name, 'true')) },
      ],
      rounds * 2,
    ),
  )
  guest.close()
  await driver.command(docker('rm', '--force', name))
  const together = await inTurn(
    [
      {
        name: `agentpod on docker: ${AT_ONCE} at once`,
        once: () => timed(() => Promise.all(Array.from({ length: AT_ONCE }, () => ours.live()))),
      },
      {
        name: `docker run: ${AT_ONCE} at once`,
        once: async () => (await driver.together(once, AT_ONCE)).lifeMs,
      },
    ],
    1,
    0,
  )
  report.say('')
  report.table(together.map(({ name: what, values }) => summarize(what, values)))
}

class Ours implements AsyncDisposable {
  readonly #stage: DockerStage
  readonly #made: Created[] = []

  constructor(stage: DockerStage) {
    this.#stage = stage
  }

  async make(): Promise<{ guest: Guest; created: Created }> {
    const { provider, owner, root } = this.#stage
    const plan: CreatePlan = {
      sandboxId: newSandboxId(systemRandom),
      owner,
      hostname: 'bench',
      root,
      resources: resolveResources({ memoryMib: 256, cpus: 1, pids: 64, files: 1024 }),
      required: [],
      deadlineAt: Date.now() + HOUR_MS,
      whenOver: 'destroy',
      mounts: [],
    }
    const created = await provider.create(plan, CALL)
    this.#made.push(created)
    const guest = provider.open(created.handle)
    await guest.configure({ ...INIT, env: created.env }, CALL)
    return { guest, created }
  }

  async live(): Promise<Life> {
    const start = performance.now()
    const { guest, created } = await this.make()
    try {
      const firstOutputMs = (await firstOutput(guest)) - start
      guest.close()
      await this.#stage.provider.destroy(created.handle.sandboxId, CALL)
      return { firstOutputMs, lifeMs: performance.now() - start }
    } finally {
      guest.close()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { handle } of this.#made) await this.#stage.provider.destroy(handle.sandboxId, CALL)
  }
}

/** When the first output of a command came; returns after its end. */
async function firstOutput(guest: Guest): Promise<number> {
  let at = Number.NaN
  const start = { command: '/usr/bin/echo', args: ['x'], env: {}, stdin: false }
  for await (const { kind } of guest.processes.start(start, { signal: AbortSignal.timeout(CALL.timeoutMs) }))
    if (kind === 'stdout' && Number.isNaN(at)) at = performance.now()
  if (Number.isNaN(at)) throw new Error('no output')
  return at
}
