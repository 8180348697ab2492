/**
 * Runs: from the command to an agent's first output, copies of one prepared project, and the transfer of a
 * large repository in and out.
 */
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Sandbox } from '../../src/client/sandbox.ts'
import type { RunEventBody } from '../../src/core/run.ts'
import { PREPARED_LABEL } from '../../src/core/snapshot.ts'
import { GitProject } from '../../src/sync/testing/git-project.ts'
import { brokenProject, noPackages, payingWith, User } from '../support/agent-runs.ts'
import { AgentStage } from '../support/agent-stage.ts'
import { newToken } from '../support/canary.ts'
import { noInternet } from '../support/internet.ts'
import { sharedPackages } from '../support/shared-packages.ts'
import { World } from '../support/world.ts'
import { type Case, roundRobin, timed } from './measure.ts'
import { run } from './peers.ts'
import type { Report } from './report.ts'

const FILES = 50_000
const FILES_EACH = 500
const CHANGED = 1000
/** What takes seconds. */
const FEW_ROUNDS = 3
const AT_ONCE = 8
const REAL_AGENT = 'gemini'
const NODE = 'node -e 0'

export interface RunsOptions {
  readonly rounds: number
  /** Of the files of the large repository. */
  readonly scale: number
}

export async function runs(report: Report, o: RunsOptions): Promise<void> {
  await using world = new World()
  const user = new User(world, smallProject(world))
  await firstEvents(report, user, o.rounds)
  await forks(report, user, o.rounds)
  await realAgent(report, o.rounds)
  await largeRepository(report, world, o)
}

function smallProject(world: World): GitProject {
  const project = new GitProject(world.directory(), process.env['PATH'] ?? '').init()
  for (const name of ['README.md', 'notes/one.txt', 'notes/two.txt']) project.write(name, `${name}\n`)
  project.commitAll('begin')
  return project
}

/** The command line with all that it takes to start, on a repository that was copied before. */
async function firstEvents(report: Report, user: User, rounds: number): Promise<void> {
  report.heading('A small repository that has not changed since the last run')
  const agent = ['custom', '--agent-command', 'echo hello', '--json', 'hello']
  const rows = await roundRobin(
    [
      node(),
      { name: 'agentpod run -- true', once: () => timed(() => user.ok(['run', '--', 'true'])) },
      { name: 'agentpod run custom, to its first event', once: () => firstEvent(user, agent) },
    ],
    Math.min(rounds, 20),
  )
  report.table(rows, NODE)
  report.keep('run', rows)
  report.say('\n`agentpod run -- true` may take 200 ms, and six times as long as `node -e 0`.')
}

function node(): Case {
  return { name: NODE, once: () => timed(() => run(process.execPath, ['-e', '0'])) }
}

/** Until the agent has said or done something; that the run is over is waited for, but does not count. */
async function firstEvent(user: User, words: readonly string[]): Promise<number> {
  const start = performance.now()
  const child = user.start(['run', ...words])
  child.stdin.end()
  let [took, complaint, id] = [Number.NaN, '', '']
  child.stderr.on('data', (data: Buffer) => {
    complaint = (complaint + data.toString('utf8')).slice(-2000)
  })
  for await (const line of createInterface({ input: child.stdout })) {
    const event = JSON.parse(line) as { run?: string; body?: RunEventBody }
    id ||= event.run ?? ''
    if (Number.isNaN(took) && event.body && isAgents(event.body)) took = performance.now() - start
  }
  if (Number.isNaN(took)) throw new Error(`the agent said nothing: ${complaint}`)
  await (await user.world.client().runs.get(id)).remove()
  return took
}

function isAgents(body: RunEventBody): boolean {
  if (body.type === 'message') return body.from === 'agent'
  return ['thought', 'plan', 'tool', 'edit', 'command', 'permission.asked'].includes(body.type)
}

/** What runs that are started together begin with. */
async function forks(report: Report, user: User, rounds: number): Promise<void> {
  const pod = user.world.client()
  const [prepared] = (await pod.snapshots.list()).filter(({ labels }) => PREPARED_LABEL in labels)
  if (!prepared) throw new Error('no project is prepared')
  const made: Sandbox[] = []
  const one = async (): Promise<void> => {
    const sandbox = await pod.create({ snapshot: prepared.id })
    made.push(sandbox)
    const { exitCode } = await sandbox.exec('true').wait()
    if (exitCode !== 0) throw new Error('a command failed')
  }
  const several = async (count: number): Promise<number> => {
    const took = await timed(() => Promise.all(Array.from({ length: count }, one)))
    await Promise.all(made.splice(0).map((sandbox) => sandbox.destroy()))
    return took
  }
  report.heading('Sandboxes from one prepared project, until each has run a command')
  const alone = 'one'
  report.table(
    await roundRobin(
      [
        { name: alone, once: () => several(1) },
        { name: `${AT_ONCE} at once`, once: () => several(AT_ONCE) },
      ],
      Math.min(rounds, 20),
    ),
    alone,
  )
}

/** A real agent with a scripted model; its packages are not downloaded for this. */
async function realAgent(report: Report, rounds: number): Promise<void> {
  report.heading(`A real agent, ${REAL_AGENT}, to its first event`)
  const why = noInternet() || (hasPackages() ? await noPackages([REAL_AGENT]) : 'its packages are not here')
  if (why) return report.say(`Not here: ${why}.`)
  const key = newToken()
  await using stage = await AgentStage.open({ keys: [key], scenario: 'nothing' })
  const project = brokenProject(stage.directory())
  await stage.outside.ok(['build', '--agent', REAL_AGENT], { cwd: project.root, timeoutMs: 300_000 })
  const user = new User(await stage.close(), project, payingWith(key))
  const words = [REAL_AGENT, '--json', '--time', '2m', 'is there anything to do?']
  report.table(
    await roundRobin(
      [node(), { name: `agentpod run ${REAL_AGENT}`, once: () => firstEvent(user, words) }],
      Math.min(rounds, 5),
      1,
    ),
    NODE,
  )
}

function hasPackages(): boolean {
  return existsSync(sharedPackages()) && readdirSync(sharedPackages()).length > 0
}

async function largeRepository(report: Report, world: World, o: RunsOptions): Promise<void> {
  const files = Math.round(FILES * o.scale)
  const project = new GitProject(world.directory(), process.env['PATH'] ?? '').init()
  for (let n = 0; n < files; n++) project.write(nameOf(n), `${'line of a file\n'.repeat(10)}${n}\n`)
  project.commitAll('all of them')
  // As a repository is that was cloned, not as one that has just been filled.
  project.git('repack', '-adq')
  const user = new User(world, project)
  report.heading(`A repository of ${files.toLocaleString('en')} files on its way in`)
  await copyIn(report, user)
  report.heading('What changed in it on its way out, as a branch')
  await branchOut(report, user, Math.min(CHANGED, files))
}

function nameOf(n: number): string {
  return `d${Math.floor(n / FILES_EACH)}/f${n}.txt`
}

async function copyIn(report: Report, user: User): Promise<void> {
  const { project, world } = user
  const pod = world.client()
  // It varies with the disk, and with what the disk still has to write.
  const clone = 'git clone --no-hardlinks (disk)'
  const status = 'git status, unchanged'
  const nothing = (): Promise<number> => timed(() => user.ok(['run', '--', 'true']))
  let count = 0
  report.table(
    await roundRobin(
      [
        {
          name: clone,
          once: async () => {
            const to = join(world.directory(), 'clone')
            const took = await timed(() => run('git', ['clone', '-q', '--no-hardlinks', project.root, to]))
            rmSync(to, { recursive: true })
            return took
          },
        },
        {
          name: 'agentpod run -- true, nothing is there',
          once: async () => {
            for (const { id, labels } of await pod.snapshots.list())
              if (PREPARED_LABEL in labels) await pod.snapshots.remove(id)
            return nothing()
          },
        },
        {
          name: 'with one file changed',
          once: () => {
            project.write(nameOf(0), `changed ${count++}\n`)
            return nothing()
          },
        },
        { name: 'unchanged', once: nothing },
        { name: status, once: () => timed(() => run('git', ['-C', project.root, 'status', '--porcelain'])) },
      ],
      FEW_ROUNDS,
      0,
    ),
    status,
  )
}

/** Beside what git itself takes for the same change. The command in the sandbox is part of it. */
async function branchOut(report: Report, user: User, many: number): Promise<void> {
  const clone = new GitProject(user.world.directory(), process.env['PATH'] ?? '', 'clone')
  clone.git('clone', '-q', '--no-hardlinks', user.project.root, '.')
  let count = 0
  const committed = (files: number): Promise<number> => {
    for (let n = 0; n < files; n++) clone.write(nameOf(n), `changed ${count++}\n`)
    return timed(async () => {
      clone.git('add', '-A')
      clone.git('commit', '-q', '-m', 'changed')
    })
  }
  const changed = (files: number): Promise<number> => {
    const script = `n=0; while [ $n -lt ${files} ]; do echo ${count++} > d$((n / ${FILES_EACH}))/f$n.txt; n=$((n + 1)); done`
    return timed(() => user.ok(['run', '--', 'sh', '-c', script]))
  }
  const floor = 'git add -A && git commit, one file'
  const words = `${many.toLocaleString('en')} files`
  report.table(
    await roundRobin(
      [
        { name: floor, once: () => committed(1) },
        { name: `git add -A && git commit, ${words}`, once: () => committed(many) },
        {
          name: 'agentpod run, nothing changed',
          once: () => timed(() => user.ok(['run', '--', 'true'])),
        },
        { name: 'agentpod run, one file changed', once: () => changed(1) },
        { name: `agentpod run, ${words} changed`, once: () => changed(many) },
      ],
      FEW_ROUNDS,
      0,
    ),
    floor,
  )
}
