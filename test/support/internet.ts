/**
 * A test internet, and a machine on it that the server runs on. Both are network namespaces that end with
 * their processes; the real machine's network is neither changed nor used. On this internet, every address
 * that a test expects to be refused does answer: the machine reaches it, as the control.
 */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { systemClock } from '../../src/util/clock.ts'
import { systemRandom } from '../../src/util/random.ts'
import { type Authority, makeCertificate, makeSandboxAuthority } from '../../src/util/x509/certificate.ts'
import { endByInput } from './child-process.ts'
import type { Arrival, Order } from './internet-process.ts'
import { PRELUDE } from './probe.ts'
import { type Caller, until, World } from './world.ts'

const run = promisify(execFile)

/** The machine's own addresses, on its link to the test internet. */
export const MACHINE = { v4: '192.0.2.1', private: '10.77.0.1', v6: '2001:db8::1' } as const
export const RESOLVER = '192.0.2.2'
export const SITE = '192.0.2.10'
export const OTHER_SITE = '192.0.2.11'
export const EVIL = '192.0.2.66'
export const EVIL_V6 = '2001:db8::66'
export const PRIVATE_SITE = '10.77.0.2'
export const PUBLIC_RESOLVER = '8.8.8.8'
export const METADATA = ['169.254.169.254', '100.100.100.200', 'fd00:ec2::254'] as const
export const EVIL_PORTS = [21, 22, 25, 853, 3306, 5432, 6379, 8080, 61080]
export const EVIL_UDP_PORTS = [123, 443, 853, 5353, 5355]

const ADDRESSES = [
  ...[RESOLVER, SITE, OTHER_SITE, EVIL].map((one) => `${one}/24`),
  `${PRIVATE_SITE}/24`,
  '2001:db8::2/64',
  `${EVIL_V6}/64`,
  `${PUBLIC_RESOLVER}/32`,
  ...METADATA.map((one) => (one.includes(':') ? `${one}/128` : `${one}/32`)),
]

const BUNDLE = '/etc/ssl/certs/ca-certificates.crt'
const PYTHON = '/usr/bin/python3'
/** Enters both namespaces of the machine and returns to the directory it was called in. */
const ENTER =
  'at=$PWD; pid=$1; shift; exec nsenter -t "$pid" -n -m -- sh -c \'cd "$0" && exec "$@"\' "$at" "$@"'

/** Why this machine cannot create one, or false. */
export function noInternet(): string | false {
  if (process.getuid?.() !== 0) return 'only root can make network namespaces to test with'
  for (const program of ['ip', 'unshare', 'nsenter']) {
    try {
      execFileSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' })
    } catch {
      return `${program} is not installed`
    }
  }
  return false
}

type Of<K extends Arrival['kind']> = Extract<Arrival, { kind: K }>

/**
 * Listens in its own namespace and reports what arrives. Ends with its input, which ends with this process,
 * however this process ends.
 */
export class Listeners implements AsyncDisposable {
  readonly arrivals: Arrival[] = []
  readonly #child: ChildProcess

  constructor([command = '', ...args]: readonly string[]) {
    const script = join(import.meta.dirname, 'internet-process.ts')
    const node = [process.execPath, '--disable-warning=ExperimentalWarning', script]
    this.#child = spawn(command, [...args, ...node], { stdio: ['pipe', 'pipe', 'inherit'] })
    const { stdout } = this.#child
    if (!stdout) throw new Error('it has no output')
    createInterface({ input: stdout }).on('line', (line) => this.arrivals.push(JSON.parse(line) as Arrival))
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  order(order: Order): void {
    this.#child.stdin?.write(`${JSON.stringify(order)}\n`)
  }

  /** Resolves when the process has reported it. */
  heard(kind: 'started' | 'ready'): Promise<void> {
    return until(`it is ${kind}`, () => {
      if (this.#child.exitCode !== null) throw new Error(`it ended with ${this.#child.exitCode}`)
      return this.arrivals.some((one) => one.kind === kind)
    })
  }

  of<K extends Arrival['kind']>(kind: K): Of<K>[] {
    return this.arrivals.filter((one): one is Of<K> => one.kind === kind)
  }

  /** Everything that arrived at an address, in short. */
  at(address: string): string[] {
    return this.arrivals.flatMap((one) => ('to' in one && plain(one.to) === address ? [describe(one)] : []))
  }

  /** Everything that arrived, in short. */
  get all(): string[] {
    return this.arrivals.flatMap((one) => ('to' in one ? [`${plain(one.to)} ${describe(one)}`] : []))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return endByInput(this.#child)
  }
}

export class Internet implements AsyncDisposable {
  readonly authority: Authority
  /** What no program in a sandbox may reach: the same listeners on the machine itself, including loopback. */
  readonly machine: Listeners
  readonly network: Listeners
  readonly #directory: string
  readonly #hosts: readonly string[]

  private constructor(hosts: readonly string[]) {
    this.#hosts = hosts
    this.#directory = mkdtempSync(join(tmpdir(), 'agentpod-internet-'))
    this.authority = makeSandboxAuthority(this.#parts, 'authority of the sites of a test')
    const [resolv, hostsFile] = [join(this.#directory, 'resolv.conf'), join(this.#directory, 'hosts')]
    writeFileSync(resolv, `nameserver ${RESOLVER}\noptions timeout:1 attempts:2\n`)
    writeFileSync(hostsFile, '127.0.0.1 localhost\n127.0.0.1 in-hosts.example\n')
    writeFileSync(this.authorityFile, this.authority.cert)
    const bundle = join(this.#directory, 'bundle.pem')
    writeFileSync(bundle, `${this.authority.cert}${readFileSync(BUNDLE, 'utf8')}`)
    const over = `mount --bind "$0" /etc/resolv.conf && mount --bind "$1" /etc/hosts && mount --bind "$2" ${BUNDLE} && shift 2 && exec "$@"`
    const apart = ['unshare', '-n', '-m', '--propagation', 'private', '--', 'sh', '-c', over]
    this.machine = new Listeners([...apart, resolv, hostsFile, bundle])
    this.network = new Listeners(['unshare', '-n', '--'])
  }

  /** `hosts` are the names in the certificates of the TLS sites. */
  static async open(hosts: readonly string[]): Promise<Internet> {
    const internet = new Internet(hosts)
    try {
      await internet.#connect()
      return internet
    } catch (error) {
      await internet[Symbol.asyncDispose]()
      throw error
    }
  }

  get authorityFile(): string {
    return join(this.#directory, 'authority.pem')
  }

  /** Before a command, makes it run on the machine of this internet. */
  get onMachine(): readonly string[] {
    return ['sh', '-c', ENTER, 'sh', String(this.machine.pid)]
  }

  /** A world whose server and egress process are on this internet and trust its sites. */
  world(env: Readonly<Record<string, string>> = {}, home?: string): World {
    const own = home === undefined ? {} : { home }
    return new World({ ...own, wrap: this.onMachine, env: { SSL_CERT_FILE: BUNDLE, ...env } })
  }

  /** The same for an ordinary user. */
  worldOf(as: Caller, home: string): World {
    const become = ['setpriv', '--reuid', String(as.uid), '--regid', String(as.gid), '--clear-groups', '--']
    return new World({ wrap: [...this.onMachine, ...become], env: { SSL_CERT_FILE: BUNDLE }, as, home })
  }

  /** Gives a name addresses. Several lists: one for each question, and the last one for all that follow. */
  name(name: string, ...answers: readonly (readonly string[])[]): void {
    this.network.order({ op: 'name', name, answers })
  }

  /** The control of a probe: the same program, on the machine of this internet. */
  async probe<T>(program: string): Promise<T> {
    const out = await this.onHost(PYTHON, '-c', PRELUDE + program)
    return JSON.parse(out.trimEnd().split('\n').at(-1) ?? '') as T
  }

  /** A command on the machine. */
  async onHost(...command: readonly string[]): Promise<string> {
    const [program = '', ...args] = [...this.onMachine, ...command]
    return (await run(program, args, { timeout: 60_000 })).stdout
  }

  /** The names that were asked of its name server. */
  get asked(): string[] {
    return [...new Set(this.network.of('question').map(({ name }) => name))]
  }

  /** Forgets what was noticed so far. What is in transit gets a moment to arrive. */
  async forget(): Promise<void> {
    await this.settled()
    this.network.arrivals.length = 0
    this.machine.arrivals.length = 0
  }

  settled(): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, 100))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.network[Symbol.asyncDispose]()
    await this.machine[Symbol.asyncDispose]()
    rmSync(this.#directory, { recursive: true, force: true })
  }

  get #parts(): { now: number; random: typeof systemRandom } {
    return { now: systemClock.now(), random: systemRandom }
  }

  async #connect(): Promise<void> {
    await Promise.all([this.machine.heard('started'), this.network.heard('started')])
    const [machine, network] = [String(this.machine.pid), String(this.network.pid)]
    const inside = (pid: string, ...words: readonly string[]): void => {
      execFileSync('nsenter', ['-t', pid, '-n', '--', 'ip', ...words])
    }
    // Created in the machine's namespace, so that the real machine never has it.
    inside(machine, 'link', 'add', 'internet', 'type', 'veth', 'peer', 'name', 'machine', 'netns', network)
    for (const one of ADDRESSES) inside(network, 'addr', 'add', one, 'dev', 'machine', ...atOnce(one))
    for (const one of [`${MACHINE.v4}/24`, `${MACHINE.private}/24`, `${MACHINE.v6}/64`])
      inside(machine, 'addr', 'add', one, 'dev', 'internet', ...atOnce(one))
    for (const [pid, name] of [
      [network, 'lo'],
      [network, 'machine'],
      [machine, 'lo'],
      [machine, 'internet'],
    ] as const)
      inside(pid, 'link', 'set', name, 'up')
    inside(machine, 'route', 'add', 'default', 'via', RESOLVER)
    inside(machine, '-6', 'route', 'add', 'default', 'via', '2001:db8::2')
    const made = (host: string): [string, Authority] => [
      host,
      makeCertificate(this.authority, host === '*' ? ['unnamed.example', PRIVATE_SITE] : [host], this.#parts),
    ]
    const certificates = Object.fromEntries(['*', ...this.#hosts].map(made))
    for (const one of [this.machine, this.network]) {
      one.order({ op: 'begin', certificates, ports: EVIL_PORTS, udpPorts: EVIL_UDP_PORTS })
      await one.heard('ready')
    }
  }
}

/** The kernel probes for duplicates before an IPv6 address is usable, unless it is told not to. */
function atOnce(address: string): string[] {
  return address.includes(':') ? ['nodad'] : []
}

function plain(address: string): string {
  return address.replace(/^::ffff:/, '')
}

function describe(one: Arrival): string {
  switch (one.kind) {
    case 'question':
      return `question ${one.name}`
    case 'request':
      return `request ${one.method} ${one.url}`
    case 'frame':
      return `frame ${one.text}`
    case 'datagram':
    case 'bytes':
    case 'connection':
      return `${one.kind} ${one.port}`
    case 'started':
    case 'ready':
      return one.kind
  }
}
