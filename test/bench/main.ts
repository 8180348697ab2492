/**
 * The figures of docs/benchmarks.md: ours beside the floor and the peers, in one run and in turn. Prints a
 * table; with `--write` it also replaces the one in the document.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { createReadStream, createWriteStream, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { createServer } from 'node:net'
import { cpus, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { AgentPod } from '../../src/client/client.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { encodeFrame } from '../../src/util/stream/connect-frame.ts'
import { podhostOf } from '../support/host-view.ts'
import { ROOT, World } from '../support/world.ts'
import { onDocker } from './docker.ts'
import { wayOut } from './egress.ts'
import { environments } from './environments.ts'
import { roundRobin, type Summary, summarize, timed } from './measure.ts'
import { findPeers, run, which } from './peers.ts'
import { Report } from './report.ts'
import { runs } from './runs.ts'
import { copies, growth, pauses } from './state.ts'

const CGROUP_UNIFIED = '/sys/fs/cgroup/unified'
const INSIDE = 'AGENTPOD_BENCH_INSIDE'

// On hosts with hybrid cgroups, crun starts only if the v2 part is hidden; a mount namespace of our own hides
// it.
if (process.getuid?.() === 0 && !process.env[INSIDE]) {
  const script = `umount ${CGROUP_UNIFIED} 2>/dev/null; exec "$@"`
  const again = [
    '--mount',
    '--propagation',
    'private',
    'sh',
    '-c',
    script,
    'sh',
    process.execPath,
    ...process.execArgv,
    ...process.argv.slice(1),
  ]
  process.exit(
    spawnSync('unshare', again, { stdio: 'inherit', env: { ...process.env, [INSIDE]: '1' } }).status ?? 1,
  )
}

const quick = process.argv.includes('--quick')
const rounds = quick ? 5 : 40
const report = new Report()
const { say, heading, table } = {
  say: report.say.bind(report),
  heading: report.heading.bind(report),
  table: report.table.bind(report),
}

const scratch = mkdtempSync(join(tmpdir(), 'agentpod-bench-'))
const world = new World()
const cold = new World({ env: { AGENTPOD_SHELLS: '0' } })
try {
  await main()
} finally {
  await world[Symbol.asyncDispose]()
  await cold[Symbol.asyncDispose]()
  rmSync(scratch, { recursive: true, force: true })
}

async function main(): Promise<void> {
  const pod = world.client()
  const { peers, missing } = await findPeers(scratch)
  say(
    `Measured ${new Date().toISOString().slice(0, 10)} on ${cpus().length} cores (${cpus()[0]?.model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GiB, Linux ${execFileSync('uname', ['-r']).toString().trim()}; milliseconds, ${rounds} rounds in turn.`,
  )
  if (missing.length > 0) say(`\nNot here: ${missing.join('; ')}.`)

  const made: Sandbox[] = []
  heading('Create to the first command’s output')
  table(
    await roundRobin(
      [
        { name: 'agentpod, SDK and HTTP, from a shell', once: () => created(pod, made) },
        { name: 'agentpod, SDK and HTTP, no shell ready', once: () => created(cold.client(), made) },
        ...peers.map((peer) => ({ name: `${peer.name} (create, run, gone)`, once: () => timed(peer.cold) })),
      ],
      rounds,
    ),
    'crun (create, run, gone)',
  )
  await Promise.all(made.map((sandbox) => sandbox.destroy()))

  const sandbox = await pod.create({})
  const socket = await poddSocket(sandbox.id)
  heading('Run `true` in a living sandbox')
  table(
    await roundRobin(
      [
        { name: 'agentpod, SDK and HTTP', once: () => timed(() => sandbox.exec('true').wait()) },
        { name: 'straight to podd', once: () => timed(() => straight(socket)) },
        ...peers.flatMap((peer) =>
          peer.exec ? [{ name: `${peer.name} exec`, once: () => timed(peer.exec ?? peer.cold) }] : [],
        ),
      ],
      rounds * 2,
    ),
    'straight to podd',
  )

  heading('Commands a second, eight at a time in one sandbox')
  const commands = quick ? 100 : 1000
  const took = await timed(() => eightAtATime(commands, () => sandbox.exec('true').wait()))
  say(`${Math.round(commands / (took / 1000))} through client and server.`)

  heading('The same through E2B’s SDK, over TCP, on the debian base')
  await throughE2b(pod)

  heading('100 sandboxes at once, each runs a command')
  table([await hundred()])

  heading('A living sandbox with 1 GiB in 50,000 files')
  await copies(pod, report, { scale: quick ? 0.02 : 1, peers, scratch })

  heading('Pause and stop')
  table(await pauses(pod, Math.ceil(rounds / 2)))

  heading('A file of 1 GiB')
  await transfer(sandbox, quick ? 64 : 1024)

  heading('The way out')
  await wayOut(report, { mib: quick ? 64 : 1024, rounds })
  await environments(report, { rounds })
  await runs(report, { rounds, scale: quick ? 0.02 : 1 })
  await onDocker(report, { rounds })

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
  await sandbox.destroy()

  heading('With many sandboxes beside, and a long history behind')
  await growth(world, report, quick ? [2, 4] : [10, 100, 500], quick ? 1000 : 100_000)
  for (const peer of peers) peer.close()
  if (process.argv.includes('--write')) report.write()
}

function created(pod: AgentPod, made: Sandbox[]): Promise<number> {
  return timed(async () => {
    const sandbox = await pod.create({})
    await sandbox.exec('true').wait()
    made.push(sandbox)
  })
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

async function poddSocket(id: string): Promise<string> {
  const podhost = podhostOf(world)
  const { socket } = await podhost.call('sandbox.inspect', { id }, { timeoutMs: 5000 })
  await podhost.close()
  return String(socket)
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
  const entry = join(ROOT, '.cache/compat/e2b-2.51.0/node_modules/e2b/dist/index.mjs')
  if (!existsSync(entry)) return say('Not here: `npm test` installs the package.')
  await pod.prepare('debian', () => undefined)
  const { port } = await pod.listen()
  const { secret } = await pod.createKey({ name: 'bench' })
  const url = `http://127.0.0.1:${port}`
  const { Sandbox: Theirs } = (await import(entry)) as { Sandbox: E2bSandboxes }
  const options = { apiKey: secret, apiUrl: url, sandboxUrl: url }
  const made: E2bSandbox[] = []
  const living = await Theirs.create(options)
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
        { name: 'commands.run, a login shell each', once: () => timed(() => living.commands.run('true')) },
      ],
      Math.ceil(rounds / 2),
    ),
    undefined,
  )
  await Promise.all([living, ...made].map((one) => one.kill()))
}

interface E2bSandbox {
  readonly commands: { run(command: string): Promise<unknown> }
  kill(): Promise<unknown>
}
interface E2bSandboxes {
  create(options: object): Promise<E2bSandbox>
}

async function hundred(): Promise<Summary> {
  const pod = world.client()
  const samples: number[] = []
  for (let i = 0; i < (quick ? 1 : 3); i++) {
    const all: Sandbox[] = []
    samples.push(
      await timed(() =>
        Promise.all(
          Array.from({ length: 100 }, async () => {
            const one = await pod.create({})
            all.push(one)
            const { exitCode } = await one.exec('true').wait()
            if (exitCode !== 0) throw new Error('a command failed')
          }),
        ),
      ),
    )
    await Promise.all(all.map((one) => one.destroy()))
  }
  return summarize('all 100', samples)
}

/** Up and down through the server, beside a copy through a bare unix socket into a file on the same disk. */
async function transfer(sandbox: Sandbox, mib: number): Promise<void> {
  const source = join(scratch, 'big')
  execFileSync('dd', ['if=/dev/urandom', `of=${source}`, 'bs=1M', `count=${mib}`, 'status=none'])
  const rate = (ms: number): number => mib / (ms / 1000)
  const bare = rate(await timed(() => bareCopy(source, join(scratch, 'copy'))))
  const up = rate(
    await timed(() =>
      sandbox.writeFile('/home/user/big', createReadStream(source, { highWaterMark: 1 << 20 })),
    ),
  )
  const down = rate(
    await timed(async () =>
      pipeline(
        await sandbox.readFile('/home/user/big'),
        createWriteStream(join(scratch, 'down'), { highWaterMark: 1 << 20 }),
      ),
    ),
  )
  say('| what | MiB/s | to the bare copy |')
  say('|---|---|---|')
  for (const [name, value] of [
    ['bare unix socket into a file', bare],
    ['up', up],
    ['down', down],
  ] as const) {
    say(`| ${name} | ${value.toFixed(0)} | ${(value / bare).toFixed(2)} |`)
  }
}

async function bareCopy(source: string, target: string): Promise<void> {
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
