/** Shared by the tests of agents: a project with a bug, the agents' model keys, and checks of the results. */
import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { AGENTS, agentNamed } from '../../src/agents/agents.ts'
import type { RunInfo } from '../../src/client/runs.ts'
import { GitProject, isGitDirectory, manifest } from '../../src/sync/testing/git-project.ts'
import { MODEL_HOSTS } from './agent-stage.ts'
import type { CliOptions, CliResult, World } from './world.ts'

const ROOT = join(import.meta.dirname, '../..')
const run = promisify(execFile)
const BUILD_MS = 600_000

/** A test that fails, since `sum` subtracts. */
export function brokenProject(directory: string, name = 'project'): GitProject {
  const project = new GitProject(directory, process.env['PATH'] ?? '', name).init()
  project.write('package.json', '{"name":"sums","type":"module","scripts":{"test":"node --test"}}\n')
  project.write('sum.js', 'export const sum = (a, b) => a - b\n')
  project.write(
    'sum.test.js',
    [
      "import assert from 'node:assert/strict'",
      "import { test } from 'node:test'",
      "import { sum } from './sum.js'",
      "test('one and two are three', () => assert.equal(sum(1, 2), 3))",
      '',
    ].join('\n'),
  )
  project.commitAll('a test that fails')
  return project
}

/**
 * One key for every agent, as its first credential that the scripted model accepts, so that a leak is
 * recognised anywhere.
 */
export function payingWith(key: string): Readonly<Record<string, string>> {
  const isHere = (url: string): boolean =>
    (MODEL_HOSTS as readonly string[]).includes(URL.parse(url)?.hostname ?? '')
  const ways = AGENTS.flatMap(({ credentials }) => credentials.find(({ baseUrl }) => isHere(baseUrl)) ?? [])
  return Object.fromEntries(ways.map(({ variable }) => [variable, key]))
}

/**
 * Why the packages of these agents are not available here, or undefined. Asks this machine's package clients,
 * so that a failure of ours does not count as unavailable.
 */
export async function noPackages(agents: readonly string[]): Promise<string | undefined> {
  for (const name of agents) {
    const { install } = agentNamed(name)
    const [named = ''] = install.kind === 'none' ? [] : install.packages
    const first = named.replaceAll('{arch}', process.arch)
    const [program, ...words] =
      install.kind === 'npm'
        ? ['npm', 'view', first, 'version']
        : ['pip', 'download', '--no-deps', '--no-cache-dir', '-d', mkdtempSync(join(tmpdir(), 'pip-')), first]
    if (install.kind === 'none') continue
    try {
      await run(program ?? '', words, { timeout: 60_000 })
    } catch (error) {
      return `${first} cannot be downloaded here: ${String(error).split('\n').at(0)}`
    }
  }
  return undefined
}

/** Why each of these agents is not available here, where one is not. */
export async function withoutPackages(agents: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const missing = new Map<string, string>()
  for (const name of agents) {
    const why = await noPackages([name])
    if (why !== undefined) missing.set(name, why)
  }
  return missing
}

/** Builds the layers of these agents, for a project. The answer is what went wrong, by the agent. */
export async function buildAgents(
  outside: World,
  { root: cwd }: GitProject,
  agents: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const failed = new Map<string, string>()
  for (const name of agents) {
    const { code, stderr } = await outside.cli(['build', '--agent', name], { cwd, timeoutMs: BUILD_MS })
    if (code !== 0) failed.set(name, stderr)
  }
  return failed
}

/** A command of the user's, in their project. */
export class User {
  readonly world: World
  readonly project: GitProject
  readonly #env: Readonly<Record<string, string>>

  constructor(world: World, project: GitProject, env: Readonly<Record<string, string>> = {}) {
    this.world = world
    this.project = project
    this.#env = { ...env, HOME: project.home }
  }

  cli(args: readonly string[], o: CliOptions = {}): Promise<CliResult> {
    return this.world.cli(args, { cwd: this.project.root, ...o, env: { ...this.#env, ...o.env } })
  }

  start(args: readonly string[], o: CliOptions = {}): ReturnType<World['start']> {
    return this.world.start(args, { cwd: this.project.root, ...o, env: { ...this.#env, ...o.env } })
  }

  /** Runs a program of this repository, such as an example, in the project. */
  program(file: string, args: readonly string[]): Promise<CliResult> {
    const program = [process.execPath, '--disable-warning=ExperimentalWarning', join(ROOT, file)]
    return this.cli(args, { program })
  }

  async ok(args: readonly string[], o: CliOptions = {}): Promise<string> {
    const { code, stdout, stderr } = await this.cli(args, o)
    if (code !== 0) throw new Error(`agentpod ${args.join(' ')} gave ${code}: ${stderr}\n${stdout}`)
    return stdout
  }

  /** Newest first. */
  async runs(): Promise<(RunInfo & { readonly branch: string | null })[]> {
    return JSON.parse(await this.ok(['runs', '--json'])) as (RunInfo & { readonly branch: string | null })[]
  }

  /** Everything in the repository that a run must not change: files, the index, HEAD, settings and hooks. */
  untouched(): Map<string, string> {
    const { root } = this.project
    const own = (path: string): boolean =>
      /^\.git\/(objects|logs|refs\/heads\/agentpod)(\/|$)/.test(path) || path === '.git/COMMIT_EDITMSG'
    return manifest(root, own)
  }

  /** The files of a branch, written out with plain git and nothing of the project's settings. */
  checkout(branch: string): string {
    const to = mkdtempSync(join(this.project.home, 'checkout-'))
    const archive = execFileSync('git', ['archive', branch], {
      cwd: this.project.root,
      env: this.project.env,
      maxBuffer: 1 << 28,
    })
    execFileSync('tar', ['xf', '-', '-C', to], { input: archive })
    return to
  }

  /** Names of files that a branch has other than the commit before it. */
  changed(branch: string): string[] {
    return this.project
      .git('diff', '--name-only', `${branch}~1`, branch)
      .split('\n')
      .filter((name) => name !== '')
      .sort()
  }

  branches(): string[] {
    return this.project
      .git('for-each-ref', '--format=%(refname:short)', 'refs/heads/agentpod')
      .split('\n')
      .filter((name) => name !== '')
  }
}

/** Without what the state of the repository is made of. */
export function filesOf(directory: string): Map<string, string> {
  return manifest(directory, isGitDirectory)
}

/** A value of `agentpod --json`, of which there is one a line. */
export function jsonLines<T>(text: string): T[] {
  return text
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as T)
}

export function read(path: string): string {
  return readFileSync(path, 'utf8')
}
