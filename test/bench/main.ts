/**
 * The figures of docs/benchmarks.md: ours beside the floor and the peers, in one run and in turn. Prints
 * tables; with `--write` it also replaces those of the document, its first part and its chart. `--quick` only
 * shows that everything works. `--only lives,exec` takes these parts alone; with `--write`, it replaces their
 * tables.
 */
import { execFileSync, spawn } from 'node:child_process'
import { createReadStream, createWriteStream, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { createServer } from 'node:net'
import { cpus, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { parseArgs } from 'node:util'
import type { AgentPod } from '../../src/client/client.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { encodeFrame } from '../../src/util/stream/connect-frame.ts'
import { podhostOf } from '../support/host-view.ts'
import { ROOT, World } from '../support/world.ts'
import { onDocker } from './docker.ts'
import { dockerfileBuilds } from './dockerfiles.ts'
import { wayOut } from './egress.ts'
import { environments } from './environments.ts'
import { OURS } from './figures.ts'
import { onGVisor } from './gvisor.ts'
import { imageLives } from './images.ts'
import { lives } from './lives.ts'
import { onMachines } from './machines.ts'
import { roundRobin, stopMeasuring, timed } from './measure.ts'
import { packages } from './packages.ts'
import { PeerDriver } from './peer-driver.ts'
import { findPeers, type Peer, run, which } from './peers.ts'
import { Report } from './report.ts'
import { runs } from './runs.ts'
import { copies, growth, pauses } from './state.ts'

const CGROUP_UNIFIED = '/sys/fs/cgroup/unified'
const INSIDE = 'AGENTPOD_BENCH_INSIDE'
const STRAIGHT = 'straight to podd'
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

const { isQuick, isWriting, only } = readOptions()
const rounds = isQuick ? 5 : 40
/** Of what takes seconds. */
const samples = isQuick ? 1 : 3
const report = new Report()
const { say, heading, table } = {
  say: report.say.bind(report),
  heading: report.heading.bind(report),
  table: report.table.bind(report),
}

if (isWriting && isQuick) {
  console.error('the document takes no quick run: leave out --write, or --quick')
  process.exitCode = 2
} else if (process.getuid?.() === 0 && !process.env[INSIDE]) {
  process.exitCode = await inMountNamespace()
} else {
  for (const signal of SIGNALS) process.on(signal, stopMeasuring)
  await using stack = new AsyncDisposableStack()
  await main(stack)
}

function readOptions(): { isQuick: boolean; isWriting: boolean; only: string[] } {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      write: { type: 'boolean', default: false },
      only: { type: 'string', default: '' },
    },
  })
  return { isQuick: values.quick, isWriting: values.write, only: values.only.split(',').filter(Boolean) }
}

/**
 * On hosts with hybrid cgroups, crun starts only if the v2 part is hidden; a mount namespace of our own hides
 * it.
 */
function inMountNamespace(): Promise<number> {
  const script = `umount ${CGROUP_UNIFIED} 2>/dev/null; exec "$@"`
  const again = [process.execPath, ...process.execArgv, ...process.argv.slice(1)]
  const child = spawn(
    'unshare',
    ['--mount', '--propagation', 'private', 'sh', '-c', script, 'sh', ...again],
    {
      stdio: 'inherit',
      env: { ...process.env, [INSIDE]: '1' },
    },
  )
  // The process inside removes what it made, and is waited for.
  for (const signal of SIGNALS) process.on(signal, () => child.kill(signal))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => resolve(code ?? 1))
  })
}

async function main(stack: AsyncDisposableStack): Promise<void> {
  const scratch = stack.adopt(mkdtempSync(join(tmpdir(), 'agentpod-bench-')), async (path) => removeAll(path))
  const world = stack.use(new World())
  const cold = stack.use(new World({ env: { AGENTPOD_SHELLS: '0' } }))
  const driver = stack.use(new PeerDriver(which('python3') ?? 'python3'))
  const pod = world.client()
  const { peers, missing } = await findPeers(scratch, driver, stack)
  say(
    `Measured ${new Date().toISOString().slice(0, 10)} on ${cpus().length} cores (${cpus()[0]?.model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GiB, Linux ${execFileSync('uname', ['-r']).toString().trim()}; milliseconds, ${rounds} rounds in turn.`,
  )
  if (missing.length > 0) say(`\nNot here: ${missing.join('; ')}.`)

  const sandbox = await pod.create({})
  const parts: Readonly<Record<string, () => Promise<void>>> = {
    lives: () => lives(report, { world, cold, peers, driver, rounds, isQuick }),
    exec: () => execInRunning(sandbox, { world, peers, driver }),
    e2b: () => throughE2b(pod),
    copies: async () => {
      heading('A running sandbox with 1 GiB in 50,000 files')
      await copies(pod, report, { scale: isQuick ? 0.02 : 1, peers, scratch })
    },
    pauses: async () => {
      heading('Pause and stop')
      table(await pauses(pod, Math.ceil(rounds / 2)))
    },
    transfer: () => transfer(world, sandbox, scratch, isQuick ? 64 : 1024),
    egress: async () => {
      heading('The way out')
      await wayOut(report, { mib: isQuick ? 64 : 1024, rounds, samples })
    },
    packages: () => packages(report, { isQuick }),
    environments: () => environments(report, { rounds }),
    images: () => imageLives(report, { rounds }),
    dockerfiles: () => dockerfileBuilds(report, { rounds }),
    runs: () => runs(report, { rounds, scale: isQuick ? 0.02 : 1 }),
    docker: () => onDocker(report, driver, { rounds }),
    gvisor: () => onGVisor(report, { rounds, isQuick }),
    machines: () => onMachines(report, { rounds: Math.ceil(rounds / 2), isQuick }),
    command: () => commandLine(world, sandbox),
    growth: async () => {
      heading('With many sandboxes beside, and a long history behind')
      await growth(world, report, isQuick ? [2, 4] : [10, 100, 500], isQuick ? 1000 : 100_000)
    },
  }
  const unknown = only.filter((name) => !(name in parts))
  if (unknown.length > 0)
    throw new Error(`${unknown.join(', ')}: not a part; the parts are ${Object.keys(parts).join(', ')}`)
  for (const [name, measure] of Object.entries(parts))
    if (only.length === 0 || only.includes(name)) await measure()
  await sandbox.destroy()
  if (isWriting && only.length > 0) report.writeParts()
  else if (isWriting) report.write()
}

async function execInRunning(
  sandbox: Sandbox,
  o: { readonly world: World; readonly peers: readonly Peer[]; readonly driver: PeerDriver },
): Promise<void> {
  const { socket } = await poddOf(o.world, sandbox.id)
  heading('Run `true` in a running sandbox')
  const commands = await roundRobin(
    [
      { name: OURS, once: () => timed(() => sandbox.exec('true').wait()) },
      { name: STRAIGHT, once: () => timed(() => straight(socket)) },
      ...o.peers.flatMap(({ name, exec }) =>
        exec ? [{ name: `${name} exec`, once: () => o.driver.command(exec) }] : [],
      ),
    ],
    rounds * 2,
  )
  table(commands, STRAIGHT)
  report.keep(
    'exec',
    commands.filter(({ name }) => name !== STRAIGHT),
  )
  heading('Commands a second, eight at a time in one sandbox')
  await commandRates(sandbox, socket)
}

async function commandLine(world: World, sandbox: Sandbox): Promise<void> {
  heading('The command line')
  table(
    await roundRobin(
      [
        { name: 'node -e 0', once: () => timed(() => run(process.execPath, ['-e', '0'])) },
        { name: 'agentpod --version', once: () => timed(() => world.ok(['--version'])) },
        { name: 'agentpod exec box true', once: () => timed(() => world.ok(['exec', sandbox.id, 'true'])) },
        {
          name: 'agentpod run -- true, this repository',
          once: () => timed(() => world.ok(['run', '--', 'true'], { cwd: ROOT })),
        },
      ],
      Math.ceil(rounds / 2),
    ),
    'node -e 0',
  )
}

/** A peer that was ended early may have left mounts, through which nothing must be removed. */
function removeAll(directory: string): void {
  const points = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '')
    .filter((point) => point.startsWith(`${directory}/`))
  for (const point of points.toReversed()) execFileSync('umount', ['--lazy', point])
  rmSync(directory, { recursive: true, force: true })
}

async function commandRates(sandbox: Sandbox, socket: string): Promise<void> {
  const count = isQuick ? 100 : 1000
  const eight = (work: () => Promise<unknown>) => () => timed(() => eightAtATime(count, work))
  const rows = await roundRobin(
    [
      { name: OURS, once: eight(() => sandbox.exec('true').wait()) },
      { name: STRAIGHT, once: eight(() => straight(socket)) },
    ],
    samples,
    0,
  )
  report.rows(
    ['what', `commands a second, median of ${samples}`],
    rows.map(({ name, p50 }) => [name, (count / (p50 / 1000)).toFixed(0)]),
  )
}

/** One Start on podd's own socket, read to its end. */
function straight(socketPath: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const outgoing = request(
      {
        socketPath,
        method: 'POST',
        path: '/process.Process/Start',
        headers: { 'content-type': 'application/connect+json', host: 'podd' },
      },
      (response) => {
        response.resume()
        response.once('end', resolve)
      },
    )
    outgoing.once('error', reject)
    outgoing.end(encodeFrame({ process: { cmd: 'true', args: [], envs: {} } }))
  })
}

async function poddOf(world: World, id: string): Promise<{ socket: string; pid: number }> {
  const podhost = podhostOf(world)
  const { socket, pid } = await podhost.call('sandbox.inspect', { id }, { timeoutMs: 5000 })
  await podhost.close()
  return { socket: String(socket), pid: Number(pid) }
}

async function eightAtATime(count: number, work: () => Promise<unknown>): Promise<void> {
  let left = count
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      while (left-- > 0) await work()
    }),
  )
}

/** E2B's own package, where the compatibility suite has installed it. */
async function throughE2b(pod: AgentPod): Promise<void> {
  heading('The same through E2B’s SDK, over TCP, on the debian base')
  const entry = join(ROOT, '.cache/compat/e2b-2.51.0/node_modules/e2b/dist/index.mjs')
  if (!existsSync(entry)) return say('Not here: `npm test` installs the package.')
  await pod.prepare('debian', () => undefined, { kit: 'development' })
  const { port } = await pod.listen()
  const { secret } = await pod.createKey({ name: 'bench' })
  const url = `http://127.0.0.1:${port}`
  const { Sandbox: Theirs } = (await import(entry)) as { Sandbox: E2bSandboxes }
  const options = { apiKey: secret, apiUrl: url, sandboxUrl: url }
  const made: E2bSandbox[] = []
  const running = await Theirs.create(options)
  table(
    await roundRobin(
      [
        {
          name: 'Sandbox.create and commands.run',
          once: () =>
            timed(async () => {
              const one = await Theirs.create(options)
              await one.commands.run('true')
              made.push(one)
            }),
        },
        { name: 'commands.run, a login shell each', once: () => timed(() => running.commands.run('true')) },
      ],
      Math.ceil(rounds / 2),
    ),
  )
  await Promise.all([running, ...made].map((one) => one.kill()))
}

interface E2bSandbox {
  readonly commands: { run(command: string): Promise<unknown> }
  kill(): Promise<unknown>
}
interface E2bSandboxes {
  create(options: object): Promise<E2bSandbox>
}

/** Up and down through the server, beside a copy through a bare unix socket into the sandbox's files. */
async function transfer(world: World, sandbox: Sandbox, scratch: string, mib: number): Promise<void> {
  heading('A file of 1 GiB')
  const source = join(scratch, 'big')
  const { pid } = await poddOf(world, sandbox.id)
  const inside = join('/proc', String(pid), 'root/home/user/copy')
  execFileSync('dd', ['if=/dev/urandom', `of=${source}`, 'bs=1M', `count=${mib}`, 'status=none'])
  const up = (): Promise<void> =>
    sandbox.writeFile('/home/user/big', createReadStream(source, { highWaterMark: 1 << 20 }))
  const down = async (): Promise<void> =>
    pipeline(
      await sandbox.readFile('/home/user/big'),
      createWriteStream(join(scratch, 'down'), { highWaterMark: 1 << 20 }),
    )
  const rows = await roundRobin(
    [
      {
        name: 'bare unix socket into a file of the sandbox',
        once: () => timed(() => bareCopy(source, scratch, inside)),
      },
      { name: 'up', once: () => timed(up) },
      { name: 'down', once: () => timed(down) },
    ],
    samples,
    0,
  )
  report.rates(rows, mib)
  for (const path of [source, inside, join(scratch, 'down')]) rmSync(path)
}

async function bareCopy(source: string, scratch: string, target: string): Promise<void> {
  const path = join(scratch, 'bare.sock')
  const server = createServer(
    (connection) => void pipeline(createReadStream(source, { highWaterMark: 1 << 20 }), connection),
  )
  await new Promise<void>((resolve) => server.listen(path, resolve))
  const reader = spawn(which('python3') ?? 'python3', [
    '-c',
    'import socket,sys\ns=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1])\nf=open(sys.argv[2],"wb",0)\nb=bytearray(1<<20)\nwhile (n:=s.recv_into(b)): f.write(memoryview(b)[:n])',
    path,
    target,
  ])
  await new Promise((resolve) => reader.once('close', resolve))
  server.close()
}
