/**
 * Runs agents in sandboxes in two steps. First, a server on the real network builds layers from downloads.
 * Then, on the same state directory, a server on a test internet runs, where the names of model services lead
 * to the scripted model.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { systemClock } from '../../src/util/clock.ts'
import { systemRandom } from '../../src/util/random.ts'
import { makeCertificate } from '../../src/util/x509/certificate.ts'
import type { ModelRequest } from '../model/model.ts'
import type { ScenarioName } from '../model/scenarios/all.ts'
import { endByInput } from './child-process.ts'
import { Internet, SITE } from './internet.ts'
import { keepPackages, sharedPackages, takePackages } from './shared-packages.ts'
import { until, World } from './world.ts'

/** Where the scripted model is on the internet of the test. */
export const MODEL = '198.51.100.20'
/** The machine's address on its way there. */
const MACHINE_TO_MODEL = '198.51.100.1'

export const MODEL_HOSTS = [
  'api.anthropic.com',
  'api.openai.com',
  'generativelanguage.googleapis.com',
  'models.example',
] as const

/** What the internet mounts its own list of authorities over. */
const BUNDLE = '/etc/ssl/certs/ca-certificates.crt'

export interface AgentStageOptions {
  /** That the model knows. */
  readonly keys: readonly string[]
  /** For prompts without a marker. */
  readonly scenario?: ScenarioName
  /** More names of the model. */
  readonly modelHosts?: readonly string[]
  /** Names of other sites, with certificates. */
  readonly sites?: readonly string[]
  /** More variables for every command. */
  readonly env?: Readonly<Record<string, string>>
  /** Where packages are kept between runs of tests. */
  readonly packages?: string
}

/** The model as a program in a network namespace of its own, which goes with it. */
export class RemoteModel implements AsyncDisposable {
  readonly requests: ModelRequest[] = []
  readonly #child: ChildProcess
  #isReady = false

  constructor(words: readonly string[]) {
    const script = join(import.meta.dirname, '..', 'model', 'main.ts')
    const node = [process.execPath, '--disable-warning=ExperimentalWarning', script]
    this.#child = spawn('unshare', ['-n', '--', ...node, ...words], { stdio: ['pipe', 'pipe', 'inherit'] })
    const { stdout } = this.#child
    if (!stdout) throw new Error('it has no output')
    createInterface({ input: stdout }).on('line', (line) => {
      const said = JSON.parse(line) as { kind: 'ready' } | { kind: 'request'; request: ModelRequest }
      if (said.kind === 'ready') this.#isReady = true
      else this.requests.push(said.request)
    })
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  ready(): Promise<void> {
    return until('the model listens', () => {
      if (this.#child.exitCode !== null) throw new Error(`the model ended with ${this.#child.exitCode}`)
      return this.#isReady
    })
  }

  /** Those that were conversations. Agents ask for more than that. */
  get conversations(): ModelRequest[] {
    return this.requests.filter(({ protocol }) => protocol !== 'none')
  }

  forget(): void {
    this.requests.length = 0
  }

  [Symbol.asyncDispose](): Promise<void> {
    return endByInput(this.#child)
  }
}

interface Closed {
  readonly internet: Internet
  readonly model: RemoteModel
  readonly world: World
}

export class AgentStage implements AsyncDisposable {
  /** On the real network. Of no use once the stage is closed. */
  readonly outside: World
  readonly #options: AgentStageOptions
  readonly #scratch = mkdtempSync(join(tmpdir(), 'agentpod-stage-'))
  #directories = 0
  #closed: Closed | undefined

  private constructor(options: AgentStageOptions) {
    this.#options = options
    this.outside = new World(options.env ? { env: options.env } : {})
  }

  static async open(options: AgentStageOptions): Promise<AgentStage> {
    const stage = new AgentStage(options)
    await takePackages(stage.home, stage.#packages)
    return stage
  }

  get home(): string {
    return this.outside.home
  }

  get internet(): Internet {
    return this.#parts.internet
  }

  get model(): RemoteModel {
    return this.#parts.model
  }

  /** On the internet of the test, and the same in everything else. */
  get world(): World {
    return this.#parts.world
  }

  /** A directory that goes with the stage. */
  directory(): string {
    return mkdtempSync(join(this.#scratch, `${this.#directories++}-`))
  }

  /** From here on the real network is out of reach. Stopped sandboxes, snapshots, layers and secrets stay. */
  async close(): Promise<World> {
    await this.#stopOutside()
    await keepPackages(this.home, this.#packages)
    const { sites = [], modelHosts = [] } = this.#options
    const hosts = [...MODEL_HOSTS, ...modelHosts]
    const internet = await Internet.open(sites)
    const model = this.#model(internet, hosts)
    const env = { ...this.#options.env, SSL_CERT_FILE: BUNDLE }
    const world = new World({ home: this.home, wrap: internet.onMachine, env })
    this.#closed = { internet, model, world }
    await model.ready()
    connect(internet.machine.pid, model.pid)
    for (const host of hosts) internet.name(host, [MODEL])
    for (const site of sites) internet.name(site, [SITE])
    return world
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { internet, model, world = this.outside } = this.#closed ?? {}
    try {
      if (!this.#closed) {
        await this.#stopOutside()
        await keepPackages(this.home, this.#packages)
      }
      await world[Symbol.asyncDispose]()
    } finally {
      await model?.[Symbol.asyncDispose]()
      await internet?.[Symbol.asyncDispose]()
      rmSync(this.#scratch, { recursive: true, force: true })
    }
  }

  get #packages(): string {
    return this.#options.packages ?? sharedPackages()
  }

  get #parts(): Closed {
    if (!this.#closed) throw new Error('the stage is still open to the real network')
    return this.#closed
  }

  async #stopOutside(): Promise<void> {
    await this.outside.ok(['server', 'stop'])
  }

  #model({ authority }: Internet, hosts: readonly string[]): RemoteModel {
    const parts = { now: systemClock.now(), random: systemRandom }
    const { cert, key } = makeCertificate(authority, [...hosts], parts)
    const [certFile, keyFile] = [join(this.#scratch, 'model.pem'), join(this.#scratch, 'model.key')]
    writeFileSync(certFile, cert)
    writeFileSync(keyFile, key, { mode: 0o600 })
    const { keys, scenario } = this.#options
    return new RemoteModel([
      ...['--host', '0.0.0.0', '--port', '443', '--cert', certFile, '--secret', keyFile],
      ...keys.flatMap((one) => ['--key', one]),
      ...(scenario === undefined ? [] : ['--scenario', scenario]),
    ])
  }
}

/** A wire of its own, since the sites of the internet listen on all addresses they have. */
function connect(machine: number, model: number): void {
  const inside = (pid: number, ...words: readonly string[]): void => {
    execFileSync('nsenter', ['-t', String(pid), '-n', '--', 'ip', ...words])
  }
  inside(machine, 'link', 'add', 'models', 'type', 'veth', 'peer', 'name', 'machine', 'netns', String(model))
  inside(machine, 'addr', 'add', `${MACHINE_TO_MODEL}/24`, 'dev', 'models')
  inside(model, 'addr', 'add', `${MODEL}/24`, 'dev', 'machine')
  inside(machine, 'link', 'set', 'models', 'up')
  for (const name of ['lo', 'machine']) inside(model, 'link', 'set', name, 'up')
}
