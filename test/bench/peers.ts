/** The floor and the peers: whichever of them this machine has, each doing the same small thing. */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { DEFAULT_RESOURCES } from '../../src/core/resources.ts'
import { DockerDaemon, NO_DOCKER } from '../support/docker-daemon.ts'
import { PLAIN_RUNTIME, SAME_WORK } from './figures.ts'
import { timed } from './measure.ts'
import type { PeerDriver, PeerProgram } from './peer-driver.ts'

export function which(program: string): string | undefined {
  return (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((directory) => join(directory, program))
    .find((path) => existsSync(path))
}

export function run(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, ...env },
    })
    let said = ''
    child.stderr.on('data', (data: Buffer) => {
      said += data.toString()
    })
    child.once('error', reject)
    child.once('close', (code) =>
      code === 0 ? resolve() : reject(new Error(`${program} ${args.join(' ')}: ${code} ${said}`)),
    )
  })
}

export interface Peer extends AsyncDisposable {
  readonly name: string
  /** Creates, says something, and is gone. */
  readonly once: PeerProgram
  /** Runs `true` in one that is running; absent where the peer has no such thing. */
  readonly exec?: PeerProgram
  /** Starts that many that wait. Returns words that the command lines of their processes have. */
  idle?: (count: number) => Promise<readonly string[]>
  /** Words in the command lines of the processes that belong to no single container. */
  readonly daemonWords?: readonly string[]
  /** It takes long, and processes that are not its children do part of the work. */
  readonly isEngine?: boolean
  /** Takes these files into one that is running, and then an image of it, which is what is timed. */
  commit?: (directory: string) => Promise<number>
}

/** Of the ids of a container on this machine. */
const FIRST_ID = 0x7f000000
const LIMITS = {
  memory: { limit: DEFAULT_RESOURCES.memoryMib * 2 ** 20 },
  cpu: { quota: DEFAULT_RESOURCES.cpus * 100_000, period: 100_000 },
  pids: { limit: DEFAULT_RESOURCES.pids },
}

type Make = { readonly name: string; make(scratch: string): Promise<Peer> }
const MAKES: readonly Make[] = [
  { name: 'host spawn', make: hostSpawn },
  { name: 'bwrap', make: bwrap },
  { name: PLAIN_RUNTIME, make: (scratch) => runtime('crun', scratch) },
  { name: SAME_WORK, make: crunSameWork },
  { name: 'runc', make: (scratch) => runtime('runc', scratch) },
  { name: 'podman', make: podman },
  { name: 'docker', make: docker },
]

/** Peers that work here, to be closed with the stack; the others are named with the reason. */
export async function findPeers(
  scratch: string,
  driver: PeerDriver,
  stack: AsyncDisposableStack,
): Promise<{ peers: Peer[]; missing: string[] }> {
  const peers: Peer[] = []
  const missing: string[] = []
  for (const { name, make } of MAKES) {
    try {
      const peer = stack.use(await make(scratch))
      await driver.life(peer.once)
      if (peer.exec) await driver.command(peer.exec)
      peers.push(peer)
    } catch (error) {
      missing.push(`${name}: ${(error as Error).message.split(/[:\n]/)[0]?.slice(0, 60)}`)
    }
  }
  return { peers, missing }
}

function need(program: string): string {
  const found = which(program)
  if (!found) throw new Error('not installed')
  return found
}

const nothing = async (): Promise<void> => undefined

async function hostSpawn(): Promise<Peer> {
  return { name: 'host spawn', once: { argv: ['/bin/echo', 'x'] }, [Symbol.asyncDispose]: nothing }
}

async function bwrap(): Promise<Peer> {
  const program = need('bwrap')
  const args = [
    ...['--unshare-all', '--die-with-parent', '--ro-bind', '/usr', '/usr'],
    ...['--symlink', 'usr/lib', '/lib', '--symlink', 'usr/lib64', '/lib64'],
    ...['--proc', '/proc', '--dev', '/dev'],
  ]
  const word = idleWord('bwrap')
  return {
    name: 'bwrap',
    once: { argv: [program, ...args, '/usr/bin/echo', 'x'] },
    async idle(count) {
      for (let n = 0; n < count; n++)
        spawn(program, [...args, '/usr/bin/sleep', '86400', word], { stdio: 'ignore' }).unref()
      return [word]
    },
    async [Symbol.asyncDispose]() {
      endProcesses(word)
    },
  }
}

/** An argument that tells our waiting processes from all others; `sleep` adds it to its time. */
function idleWord(peer: string): string {
  const number = ['crun', 'runc', 'bwrap', 'podman', 'docker'].indexOf(peer) + 1
  return `0.00${number}${String(process.pid).padStart(8, '0')}`
}

function endProcesses(word: string): void {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      if (readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(word))
        process.kill(Number(pid), 'SIGKILL')
    } catch {
      // It has ended by itself.
    }
  }
}

/** An OCI configuration with the namespaces, the mapping and the mounts of ours, and this machine's /usr. */
function ociConfig(args: readonly string[], resources?: object): object {
  const bind = (path: string, from = path): object => ({
    destination: path,
    source: from,
    type: 'bind',
    options: ['rbind', 'ro'],
  })
  const tmpfs = (path: string, ...options: string[]): object => ({
    destination: path,
    type: 'tmpfs',
    source: 'tmpfs',
    options: ['nosuid', ...options],
  })
  const range = [{ containerID: 0, hostID: FIRST_ID, size: 65536 }]
  return {
    ociVersion: '1.0.2',
    process: { args, cwd: '/', env: ['PATH=/usr/bin'], user: { uid: 0, gid: 0 }, noNewPrivileges: true },
    root: { path: 'rootfs' },
    hostname: 'bench',
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc' },
      tmpfs('/dev', 'mode=755', 'size=65536k'),
      tmpfs('/tmp', 'nodev'),
      tmpfs('/run', 'nodev'),
      bind('/usr'),
      bind('/lib', '/usr/lib'),
      bind('/lib64', '/usr/lib64'),
      bind('/bin', '/usr/bin'),
    ],
    linux: {
      uidMappings: range,
      gidMappings: range,
      namespaces: ['user', 'pid', 'mount', 'network', 'ipc', 'uts', 'cgroup'].map((type) => ({ type })),
      ...(resources && { resources }),
    },
  }
}

/** A root in which everything can be mounted. */
function emptyRoot(directory: string): string {
  for (const name of ['usr', 'proc', 'dev', 'sys', 'tmp', 'run', 'lib', 'lib64', 'bin'])
    mkdirSync(join(directory, name), { recursive: true })
  return directory
}

function bundle(directory: string, args: readonly string[]): string {
  emptyRoot(join(directory, 'rootfs'))
  writeFileSync(join(directory, 'config.json'), JSON.stringify(ociConfig(args)))
  return directory
}

async function runtime(name: 'crun' | 'runc', scratch: string): Promise<Peer> {
  const program = need(name)
  const root = join(scratch, `${name}-state`)
  const state = ['--root', root, ...(name === 'crun' ? ['--cgroup-manager=disabled'] : [])]
  const word = idleWord(name)
  const once = bundle(join(scratch, `${name}-once`), ['/usr/bin/echo', 'x'])
  const waiting = bundle(join(scratch, `${name}-idle`), ['/usr/bin/sleep', '86400', word])
  // What stays running would hold a pipe open, and the call with it.
  const start = (id: string): void =>
    void execFileSync(program, [...state, 'run', '--detach', '--bundle', waiting, id], { stdio: 'ignore' })
  const id = `${name}-idle-${process.pid}`
  const close = async (): Promise<void> => deleteAll(program, state, root)
  try {
    start(id)
  } catch (error) {
    await close()
    throw error
  }
  return {
    name,
    once: { argv: [program, ...state, 'run', '--bundle', once, '{id}'] },
    exec: { argv: [program, ...state, 'exec', id, '/usr/bin/true'] },
    async idle(count) {
      for (let n = 1; n < count; n++) start(`${id}-${n}`)
      return [word]
    },
    [Symbol.asyncDispose]: close,
  }
}

/** What AgentPod does for each sandbox, as far as crun does it: a root of its own and limits. */
async function crunSameWork(scratch: string): Promise<Peer> {
  const program = need('crun')
  const directory = join(scratch, 'crun-overlay')
  const root = join(scratch, 'crun-overlay-state')
  mkdirSync(directory)
  const state = ['--root', root, '--cgroup-manager=cgroupfs']
  return {
    name: SAME_WORK,
    once: {
      argv: [program, ...state, 'run', '--bundle', '{bundle}', '{id}'],
      bundle: {
        lower: emptyRoot(join(scratch, 'crun-lower')),
        owner: FIRST_ID,
        directory,
        group: `bench-of-agentpod-${process.pid}`,
        config: ociConfig(['/usr/bin/echo', 'x'], LIMITS),
      },
    },
    [Symbol.asyncDispose]: async () => deleteAll(program, state, root),
  }
}

/** Every container that this runtime still knows. */
function deleteAll(program: string, state: readonly string[], root: string): void {
  for (const id of existsSync(root) ? readdirSync(root) : [])
    spawnSync(program, [...state, 'delete', '--force', id], { stdio: 'ignore' })
}

/** Engines want an image: one with nothing but a static program. */
function image(scratch: string): string {
  const directory = join(scratch, 'image')
  const file = join(scratch, 'image.tar')
  if (existsSync(file)) return file
  mkdirSync(join(directory, 'usr', 'bin'), { recursive: true })
  writeFileSync(
    join(directory, 'main.go'),
    'package main\nimport ("os";"time")\nfunc main() { if len(os.Args) > 1 { time.Sleep(24*time.Hour) }; os.Stdout.WriteString("x\\n") }\n',
  )
  execFileSync('go', ['build', '-o', 'usr/bin/echo', 'main.go'], {
    cwd: directory,
    env: { ...process.env, CGO_ENABLED: '0', GOFLAGS: '' },
  })
  execFileSync('tar', ['cf', file, '-C', directory, 'usr'])
  return file
}

interface Engine {
  readonly name: string
  readonly program: string
  readonly global: readonly string[]
  readonly flags: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly daemonWords: readonly string[]
}

function engine(o: Engine, scratch: string, close: () => Promise<void>): Peer {
  const { name, program, env, daemonWords } = o
  const tag = 'agentpod-bench:1'
  const call = (...args: string[]): string =>
    execFileSync(program, [...o.global, ...args], {
      encoding: 'utf8',
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    }).trim()
  call('import', image(scratch), tag)
  const ids: string[] = []
  const word = idleWord(name)
  const start = (): string => {
    const id = call('run', '--detach', ...o.flags, tag, '/usr/bin/echo', word)
    ids.push(id)
    return id
  }
  const limits = [
    ...['--memory', String(LIMITS.memory.limit), '--cpus', String(DEFAULT_RESOURCES.cpus)],
    ...['--pids-limit', String(LIMITS.pids.limit)],
  ]
  const first = start()
  return {
    name,
    isEngine: true,
    daemonWords,
    once: {
      argv: [program, ...o.global, 'run', '--rm', ...o.flags, ...limits, tag, '/usr/bin/echo'],
      env,
    },
    exec: { argv: [program, ...o.global, 'exec', first, '/usr/bin/echo'], env },
    async idle(count) {
      while (ids.length < count) start()
      return [...ids, word]
    },
    async commit(directory) {
      await run(program, [...o.global, 'cp', directory, `${first}:/data`], env)
      return timed(() => run(program, [...o.global, 'commit', first, 'agentpod-bench:2'], env))
    },
    async [Symbol.asyncDispose]() {
      try {
        call('rm', '--force', ...ids)
      } finally {
        await close()
      }
    },
  }
}

async function podman(scratch: string): Promise<Peer> {
  const program = need('podman')
  const temporary = join(scratch, 'podman-temporary')
  mkdirSync(temporary)
  const global = [
    ...['--root', join(scratch, 'podman'), '--runroot', join(scratch, 'podman-run')],
    ...['--cgroup-manager=cgroupfs', '--events-backend=file'],
    ...(which('runc') ? ['--runtime', 'runc'] : []),
  ]
  const flags = ['--network=none', '--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=4096:4096']
  // podman writes images to /var/tmp otherwise, and leaves them there.
  const env = { TMPDIR: temporary }
  return engine({ name: 'podman', program, global, flags, env, daemonWords: [] }, scratch, nothing)
}

async function docker(scratch: string): Promise<Peer> {
  const program = need('docker')
  if (NO_DOCKER) throw new Error('no dockerd')
  const daemon = await DockerDaemon.start()
  const close = async (): Promise<void> => await daemon[Symbol.asyncDispose]()
  try {
    const o = { program, global: [], flags: ['--network=none'], env: daemon.env }
    return engine({ name: 'docker', ...o, daemonWords: [`${daemon.directory}/`] }, scratch, close)
  } catch (error) {
    await close()
    throw error
  }
}
