/** A state directory, the CLI as a person calls it, and a client. Everything is removed at the end. */
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AgentPod } from '../../src/client/client.ts'
import { CHOSEN, HAS_HOST_BASE, ON_DOCKER } from './chosen-provider.ts'
import { DockerDaemon } from './docker-daemon.ts'
import { sharedBootstrap } from './shared-bootstrap.ts'

export const ROOT = join(import.meta.dirname, '..', '..')
const AGENTPOD = join(ROOT, 'agentpod')

export interface CliResult {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export interface CliOptions {
  /** Another program than `agentpod`, with its first arguments. */
  readonly program?: readonly string[]
  readonly cwd?: string
  readonly input?: string | Buffer
  readonly env?: Readonly<Record<string, string>>
  readonly timeoutMs?: number
}

/** Another user than the one who runs the tests, with their own installation. */
export interface Caller {
  readonly name: string
  readonly uid: number
  readonly gid: number
  readonly home: string
  readonly agentpod: string
}

/** Tests that name no provider run on the chosen one. */
function newHome(): string {
  const home = mkdtempSync(join(tmpdir(), 'agentpod-'))
  if (CHOSEN !== 'crun') writeFileSync(join(home, 'config.toml'), `provider = "${CHOSEN}"\n`)
  return home
}

export class World implements AsyncDisposable {
  readonly home: string
  readonly #env: Readonly<Record<string, string>>
  readonly #as: Caller | undefined
  readonly #wrap: readonly string[]
  readonly #scratch: string[] = []
  /** On Docker, each world has a daemon of its own, which starts with the first command. */
  readonly docker: DockerDaemon | undefined
  #dockerStarts: Promise<void> | undefined

  /** `wrap` is put before every call of the CLI, such as to have its server run in other namespaces. */
  constructor(
    o: {
      home?: string
      env?: Readonly<Record<string, string>>
      as?: Caller
      wrap?: readonly string[]
    } = {},
  ) {
    this.home = o.home ?? newHome()
    this.docker = ON_DOCKER ? new DockerDaemon() : undefined
    this.#env = {
      // Without the machine's tools, the first sandbox needs a base that takes a minute to make.
      ...(!HAS_HOST_BASE && sharedBootstrap()),
      ...(this.docker && { DOCKER_HOST: `unix://${this.docker.socket}` }),
      ...o.env,
    }
    this.#as = o.as
    this.#wrap = o.wrap ?? []
  }

  /** Where the server listens. */
  get socket(): string {
    return join(this.home, 'run', 'api.sock')
  }

  /** A client that starts the server as the CLI does. */
  client(): AgentPod {
    return new AgentPod({
      socket: this.socket,
      revive: async () => {
        const { code, stderr } = await this.cli(['ls'])
        if (code !== 0) throw new Error(stderr)
      },
    })
  }

  start(args: readonly string[], o: CliOptions = {}): ChildProcessWithoutNullStreams {
    const as = this.#as
    const [program = '', ...words] = [...this.#wrap, ...(o.program ?? [as?.agentpod ?? AGENTPOD]), ...args]
    return spawn(program, words, {
      cwd: o.cwd ?? (as ? as.home : this.home),
      env: {
        ...process.env,
        ...(as && { HOME: as.home, USER: as.name }),
        NO_COLOR: '1',
        ...this.#env,
        AGENTPOD_HOME: this.home,
        ...o.env,
      },
      // A wrap needs its own rights first, and gives them up itself.
      ...(as && this.#wrap.length === 0 && { uid: as.uid, gid: as.gid }),
    })
  }

  async cli(args: readonly string[], o: CliOptions = {}): Promise<CliResult> {
    this.#dockerStarts ??= this.docker?.start()
    await this.#dockerStarts
    const child = this.start(args, o)
    const timer = setTimeout(() => child.kill('SIGKILL'), o.timeoutMs ?? 120_000)
    child.stdin.on('error', () => undefined)
    child.stdin.end(o.input ?? '')
    const [stdout, stderr, code] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      new Promise<number>((resolve) => child.once('close', (exit) => resolve(exit ?? -1))),
    ])
    clearTimeout(timer)
    return { code, stdout, stderr }
  }

  /** The answer of a call that must succeed. */
  async ok(args: readonly string[], o: CliOptions = {}): Promise<string> {
    const { code, stdout, stderr } = await this.cli(args, o)
    if (code !== 0) throw new Error(`agentpod ${args.join(' ')} gave ${code}: ${stderr}`)
    return stdout
  }

  /** An empty directory that is removed with the world. */
  directory(): string {
    const made = mkdtempSync(join(tmpdir(), 'agentpod-project-'))
    this.#scratch.push(made)
    return made
  }

  get serverPid(): number {
    return (JSON.parse(readFileSync(join(this.home, 'run', 'server.json'), 'utf8')) as { pid: number }).pid
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      const { code, stderr } = await this.cli(['reset', '--yes'], { cwd: '/' })
      if (code !== 0) throw new Error(`reset gave ${code}: ${stderr}`)
    } finally {
      await this.docker?.[Symbol.asyncDispose]()
    }
    for (const path of [this.home, ...this.#scratch]) await removeAll(path)
  }
}

/**
 * A copy of a state directory has files of the ids in /etc/subuid. An ordinary user removes them as root of a
 * user namespace that has these ids.
 */
async function removeAll(path: string): Promise<void> {
  const inside = ['--user', '--map-root-user', '--map-auto', '--', 'rm', '-rf', '--', path]
  if (process.getuid?.() !== 0) spawnSync('unshare', inside)
  await rm(path, { recursive: true, force: true })
}

async function text(stream: NodeJS.ReadableStream): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of stream as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}

/** Waits until a condition holds, polling often; after the limit it fails and names the condition. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  limitMs = 10_000,
): Promise<void> {
  const end = performance.now() + limitMs
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`still waiting after ${limitMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** A process that has ended and waits to be reaped, which is up to init, is not running. */
export function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return stat[stat.lastIndexOf(')') + 2] !== 'Z'
  } catch {
    return false
  }
}
