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
import { roundRobin, summarize, timed } from './measure.ts'
import { run } from './peers.ts'
import type { Report } from './report.ts'

const CALL = { timeoutMs: 60_000 }
const AT_ONCE = 20

export async function onDocker(report: Report, o: { readonly rounds: number }): Promise<void> {
  report.heading('On Docker')
  if (NO_DOCKER) return report.say(`Not here: ${NO_DOCKER}.`)
  const stage = await openDocker()
  try {
    report.say('The provider alone, without a server in between; a private daemon, one image, no network.\n')
    await measure(report, stage, Math.min(o.rounds, 20))
  } finally {
    await stage.close()
  }
}

async function measure(report: Report, stage: DockerStage, rounds: number): Promise<void> {
  const image = `agentpod-layer:${stage.owner}-${stage.digest}`
  const docker = (...args: string[]): Promise<void> =>
    run('docker', ['-H', `unix://${stage.daemon.socket}`, ...args])
  const limits = ['--network', 'none', '--memory', '256m', '--cpus', '1', '--pids-limit', '64']
  const ours = new Ours(stage)
  report.table(
    await roundRobin(
      [
        { name: 'agentpod on docker: create to the first output', once: () => ours.cold() },
        { name: 'docker run --rm', once: () => timed(() => docker('run', '--rm', ...limits, image, 'true')) },
      ],
      rounds,
    ),
  )
  const name = `bench-${randomUUID()}`
  await docker('run', '--detach', '--name', name, ...limits, image, 'sleep', '3600')
  const { guest } = await ours.make()
  report.table(
    await roundRobin(
      [
        {
          name: 'agentpod on docker: a command',
          once: () => timed(() => runCommand(guest, '/usr/bin/true', [])),
        },
        { name: 'docker exec', once: () => timed(() => docker('exec', name, 'true')) },
      ],
      rounds * 2,
    ),
  )
  guest.close()
  await docker('rm', '--force', name)
  const together = async (work: () => Promise<unknown>): Promise<number> =>
    timed(() => Promise.all(Array.from({ length: AT_ONCE }, work)))
  report.table([
    summarize(`agentpod on docker: ${AT_ONCE} at once`, [await together(() => ours.cold())]),
    summarize(`docker run: ${AT_ONCE} at once`, [
      await together(() => docker('run', '--rm', ...limits, image, 'true')),
    ]),
  ])
  await ours.close()
}

class Ours {
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
    }
    const created = await provider.create(plan, CALL)
    this.#made.push(created)
    const guest = provider.open(created.handle)
    await guest.configure({ ...INIT, env: created.env }, CALL)
    return { guest, created }
  }

  /** Until the first output; ending it is not timed. */
  async cold(): Promise<number> {
    let found: { guest: Guest; created: Created } | undefined
    const ms = await timed(async () => {
      found = await this.make()
      await runCommand(found.guest, '/usr/bin/true', [])
    })
    found?.guest.close()
    if (found) await this.#stage.provider.destroy(found.created.handle.sandboxId, CALL)
    return ms
  }

  async close(): Promise<void> {
    for (const { handle } of this.#made) await this.#stage.provider.destroy(handle.sandboxId, CALL)
  }
}
