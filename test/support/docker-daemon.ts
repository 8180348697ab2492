/** A Docker daemon for tests, with its own files, sockets, containers and cgroups, all removed at the end. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import {
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const PATH = `${process.env['PATH'] ?? ''}:/usr/local/sbin:/usr/sbin:/sbin`
const START_MS = 60_000
const STOP_MS = 30_000
const POLL_MS = 50
/** Directories that dockerd and containerd use regardless of their options. */
const SHARED = ['/etc/docker', '/run/docker', '/run/containerd']

/** Why this machine cannot run one, or false. */
export const NO_DOCKER: string | false =
  process.getuid?.() !== 0
    ? 'a Docker daemon of our own needs root'
    : PATH.split(':').some((directory) => existsSync(join(directory, 'dockerd')))
      ? false
      : 'needs dockerd (Debian’s docker.io; scripts/setup tests installs it)'

export class DockerDaemon {
  readonly directory = mkdtempSync(join(tmpdir(), 'agentpod-docker-'))
  readonly socket = join(this.directory, 'docker.sock')
  #child: ChildProcess | undefined
  #diskMib: number | undefined
  /** Holds the mount namespace that each life of the daemon has. */
  #holder: ChildProcess | undefined

  /** What a client finds the daemon by, and nothing of the machine's own settings for Docker. */
  get env(): Record<string, string> {
    return { PATH, HOME: this.directory, DOCKER_HOST: `unix://${this.socket}` }
  }

  /** With `diskMib`, all its files lie on a disk of that size. */
  static async start(o: { diskMib?: number } = {}): Promise<DockerDaemon> {
    const daemon = new DockerDaemon()
    daemon.#diskMib = o.diskMib
    try {
      await daemon.start()
    } catch (error) {
      await daemon[Symbol.asyncDispose]()
      throw error
    }
    return daemon
  }

  /** Also after `kill`, on the same files. */
  async start(): Promise<void> {
    const at = (name: string): string => join(this.directory, name)
    writeFileSync(at('daemon.json'), '{}')
    // A killed containerd may be a zombie for a while, and dockerd takes it for a running one.
    rmSync(at('exec/containerd/containerd.pid'), { force: true })
    const log = openSync(at('dockerd.log'), 'a')
    this.#holder ??= await this.#hold()
    const child = spawn(
      'nsenter',
      [
        ...[`--mount=/proc/${this.#holder.pid}/ns/mnt`, 'dockerd'],
        ...['--config-file', at('daemon.json'), '--host', `unix://${this.socket}`],
        ...['--data-root', at('data'), '--exec-root', at('exec'), '--pidfile', at('dockerd.pid')],
        // Nothing of the machine's network is touched, and none is needed.
        ...['--bridge=none', '--iptables=false', '--ip6tables=false', '--ip-forward=false'],
        ...['--cgroup-parent', `/${this.#group}`],
      ],
      { stdio: ['ignore', log, log], env: { PATH }, detached: true },
    )
    this.#child = child
    const deadline = Date.now() + START_MS
    while (!(await this.#answers())) {
      if (child.exitCode !== null || Date.now() > deadline)
        throw new Error(`dockerd does not answer:\n${this.log()}`)
      await sleep(POLL_MS)
    }
  }

  log(): string {
    return readFileSync(join(this.directory, 'dockerd.log'), 'utf8').split('\n').slice(-20).join('\n')
  }

  /** As in a crash: its containers keep running. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
    // containerd goes with dockerd; what runs in containers does not.
    for (const { pid, program } of this.#processes()) if (program === 'containerd') await ended(pid, STOP_MS)
  }

  /** The docker command, against this daemon. */
  docker(...args: string[]): string {
    return execFileSync('docker', args, {
      encoding: 'utf8',
      env: this.env,
      stdio: ['ignore', 'pipe', 'pipe'],
    }).trim()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // What runs in containers first: dockerd would give each of them ten seconds.
    for (const { pid, isInside } of this.#processes())
      if (isInside) quietly(() => process.kill(pid, 'SIGKILL'))
    await this.#end('SIGTERM')
    for (const { pid } of this.#processes()) {
      quietly(() => process.kill(pid, 'SIGKILL'))
      await ended(pid, STOP_MS)
    }
    this.#holder?.kill('SIGKILL')
    for (const path of SHARED.toReversed()) quietly(() => rmdirSync(path))
    removeGroups('/sys/fs/cgroup', this.#group)
    rmSync(this.directory, { recursive: true, force: true })
  }

  /** Named differently from AgentPod's cgroups, which the check for leftovers looks for. */
  get #group(): string {
    return `docker-of-${basename(this.directory)}`
  }

  #answers(): Promise<boolean> {
    return new Promise((resolve) => {
      const asked = request({ socketPath: this.socket, path: '/_ping', timeout: 1000 }, (answer) => {
        answer.resume()
        resolve(answer.statusCode === 200)
      })
      asked.once('error', () => resolve(false))
      asked.once('timeout', () => asked.destroy())
      asked.end()
    })
  }

  async #end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (!child?.pid || child.exitCode !== null) return
    const gone = new Promise((resolve) => child.once('exit', resolve))
    child.kill(signal)
    await Promise.race([gone, sleep(STOP_MS, undefined, { ref: false })])
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
  }

  /**
   * containerd and its shims have their directory in their arguments; processes in containers are in our
   * cgroup.
   */
  #processes(): { pid: number; program: string; isInside: boolean }[] {
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
    return pids.flatMap((pid) => {
      const words = quietly(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8')) ?? ''
      const groups = quietly(() => readFileSync(`/proc/${pid}/cgroup`, 'utf8')) ?? ''
      const program = basename(words.split('\0')[0] ?? '')
      const isInside = groups.includes(`/${this.#group}/`)
      const isShim = program.startsWith('containerd') && words.includes(`${this.directory}/`)
      return isInside || isShim ? [{ pid: Number(pid), program, isInside }] : []
    })
  }

  /** A mount namespace in which the directories that dockerd shares with every other one are its own. */
  #hold(): Promise<ChildProcess> {
    const own = SHARED.map((path) => `mkdir -p ${path} && mount -t tmpfs -o mode=755 tmpfs ${path}`).join(
      ' && ',
    )
    const [data, image] = [join(this.directory, 'data'), join(this.directory, 'disk.img')]
    const size = `${this.#diskMib}M`
    const disk = this.#diskMib
      ? ` && mkdir -p ${data} && truncate -s ${size} ${image} && mkfs.ext4 -q -m 0 ${image} && mount -o loop ${image} ${data}`
      : ''
    const script = `${own}${disk} && echo ready && exec cat > /dev/null`
    const holder = spawn('unshare', ['--mount', '--propagation', 'private', 'sh', '-c', script], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { PATH },
    })
    return new Promise((resolve, reject) => {
      holder.stdout?.once('data', () => resolve(holder))
      holder.once('exit', () => reject(new Error('no mount namespace could be made')))
    })
  }
}

async function ended(pid: number, withinMs: number): Promise<void> {
  const deadline = Date.now() + withinMs
  while (existsSync(`/proc/${pid}`) && Date.now() < deadline) await sleep(POLL_MS)
}

/** In every hierarchy, innermost first. */
function removeGroups(directory: string, name: string, depth = 3): void {
  for (const entry of quietly(() => readdirSync(directory, { withFileTypes: true })) ?? []) {
    if (!entry.isDirectory()) continue
    const path = join(directory, entry.name)
    if (entry.name === name) removeGroup(path)
    else if (depth > 1) removeGroups(path, name, depth - 1)
  }
}

function removeGroup(path: string): void {
  for (const entry of quietly(() => readdirSync(path, { withFileTypes: true })) ?? [])
    if (entry.isDirectory()) removeGroup(join(path, entry.name))
  quietly(() => rmdirSync(path))
}

function quietly<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch {
    return undefined
  }
}
