/**
 * Egress beside the same downloads on the machine itself: throughput, added latency of a request, and the
 * time of a command meanwhile.
 */
import { type ChildProcess, execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { Internet, noInternet, OTHER_SITE, SITE } from '../support/internet.ts'
import { LEAN_PORT, leanClient, PASSED, started, startLeanServer } from './lean-requests.ts'
import { roundRobin, summarize, timed } from './measure.ts'
import type { Report } from './report.ts'

const OPENED = 'opened.example.com'
const SECRET = 'secret.example.com'
const STREAMS = [1, 32]

interface Row {
  readonly name: string
  readonly url: string
  readonly isInside: boolean
  /** Through `RELAY`, on the machine itself. */
  readonly isRelayed?: boolean
}

const BARE = 'HTTP, on the machine itself'
const BARE_TLS = 'TLS, on the machine itself'
const ROWS: readonly Row[] = [
  { name: BARE, url: `http://${PASSED}`, isInside: false },
  { name: BARE_TLS, url: `https://${PASSED}`, isInside: false },
  {
    name: 'HTTP, through a relay of three lines in Node',
    url: `http://${PASSED}`,
    isInside: false,
    isRelayed: true,
  },
  { name: 'TLS passed through, from a sandbox', url: `https://${PASSED}`, isInside: true },
  { name: 'HTTP, each request looked at, from a sandbox', url: `http://${PASSED}`, isInside: true },
  { name: 'TLS opened for a rule on paths, from a sandbox', url: `https://${OPENED}`, isInside: true },
  { name: 'TLS opened for a secret, from a sandbox', url: `https://${SECRET}`, isInside: true },
]

export async function wayOut(
  report: Report,
  o: { readonly mib: number; readonly rounds: number; readonly samples: number },
): Promise<void> {
  const reason = noInternet()
  if (reason) return report.say(`Not measured: ${reason}.`)
  await using internet = await Internet.open([PASSED, OPENED, SECRET])
  for (const host of [PASSED, SECRET]) internet.name(host, [SITE])
  internet.name(OPENED, [OTHER_SITE])
  await using world = internet.world()
  const pod = world.client()
  await world.ok(['secret', 'set', 'KEY', '--host', SECRET], { input: 'a-value-of-some-length' })
  const sandbox = await pod.create({
    network: {
      allow: [PASSED, `${PASSED}:${LEAN_PORT}`, { host: OPENED, paths: ['/**'] }],
      secrets: ['KEY'],
    },
  })
  const ask = new Asker(internet, sandbox)
  const relay = await started([...internet.onMachine, process.execPath, '-e', RELAY])
  try {
    await measure(report, ask, internet, sandbox, o)
  } finally {
    relay.kill()
  }
  await sandbox.destroy()
}

async function measure(
  report: Report,
  ask: Asker,
  internet: Internet,
  sandbox: Sandbox,
  o: { readonly mib: number; readonly rounds: number; readonly samples: number },
): Promise<void> {
  await ask.warmUp()
  for (const streams of STREAMS) await throughput(report, ask, streams, o)
  await requests(report, internet, sandbox, o)
  await latency(report, ask, o.rounds)
  await meanwhile(report, ask, sandbox, o)
}

async function throughput(
  report: Report,
  ask: Asker,
  streams: number,
  { mib, samples }: { readonly mib: number; readonly samples: number },
): Promise<void> {
  report.say(
    `\n${streams === 1 ? 'One stream' : `${streams} streams`} of ${mib} MiB in all, median of ${samples}:\n`,
  )
  const cases = ROWS.map((row) => ({
    name: row.name,
    once: () => timed(() => ask.download(row, streams, mib)),
  }))
  const rows = await roundRobin(cases, samples, 0)
  const rateOf = (name: string): number => mib / ((rows.find((row) => row.name === name)?.p50 ?? 0) / 1000)
  report.rows(
    ['what', 'MiB/s', 'to the same on the machine itself'],
    ROWS.map(({ name, url }) => [
      name,
      rateOf(name).toFixed(0),
      (rateOf(name) / rateOf(url.startsWith('https:') ? BARE_TLS : BARE)).toFixed(2),
    ]),
  )
}

const PROXY_PORT = 8098
const RELAY_PORT = 8097
const BEHIND_RELAY_PORT = 8096

/** What Node itself takes to copy bytes from one connection to another. */
const RELAY = `
const net = require('node:net')
net.createServer((near) => near.pipe(net.connect(80, '${SITE}')).pipe(near))
  .listen(${RELAY_PORT}, '127.0.0.1', () => console.log('ready'))`

const CONNECTIONS = 16

/** What Node itself takes for it: it forwards each request over kept connections, and looks at nothing. */
const BARE_PROXY = `
const http = require('node:http')
const agent = new http.Agent({ keepAlive: true })
http.createServer((asked, answered) => {
  const { method, url, headers } = asked
  const options = { agent, host: '${PASSED}', port: ${LEAN_PORT}, method, path: url, headers }
  asked.pipe(http.request(options, (answer) => {
    answered.writeHead(answer.statusCode, answer.headers)
    answer.pipe(answered)
  }))
}).listen(process.argv[1], '127.0.0.1', () => console.log('ready'))`

async function requests(
  report: Report,
  internet: Internet,
  sandbox: Sandbox,
  { rounds, samples }: { readonly rounds: number; readonly samples: number },
): Promise<void> {
  const count = rounds * 500
  const servers: ChildProcess[] = []
  const scratch = mkdtempSync(join(tmpdir(), 'agentpod-bench-'))
  try {
    servers.push(await startLeanServer(internet))
    const [door, relay] = [join(scratch, 'door'), join(scratch, 'relay')]
    execFileSync('go', ['build', '-o', relay, join(import.meta.dirname, 'relay.go')])
    for (const program of [
      [process.execPath, '-e', BARE_PROXY, PROXY_PORT],
      [process.execPath, '-e', BARE_PROXY, door],
      [relay, BEHIND_RELAY_PORT, door],
    ])
      servers.push(await started([...internet.onMachine, ...program.map(String)]))
    const onHost = async (host: string, port: number): Promise<number> =>
      Number(await internet.onHost('python3', ...leanClient(host, port, count, CONNECTIONS))) * 1000
    const inside = async (): Promise<number> => {
      const { exitCode, stdout, stderr } = await sandbox
        .exec('python3', { args: leanClient(PASSED, LEAN_PORT, count, CONNECTIONS) })
        .wait()
      if (exitCode !== 0) throw new Error(`the client gave ${exitCode}: ${stderr}`)
      return Number(stdout) * 1000
    }
    const rows = await roundRobin(
      [
        { name: BARE, once: () => onHost(PASSED, LEAN_PORT) },
        { name: 'through a proxy of ten lines in Node', once: () => onHost('127.0.0.1', PROXY_PORT) },
        {
          name: 'through a relay in Go, and that proxy',
          once: () => onHost('127.0.0.1', BEHIND_RELAY_PORT),
        },
        { name: 'HTTP, each request looked at, from a sandbox', once: inside },
      ],
      samples,
    )
    report.say(`\nSmall requests over ${CONNECTIONS} kept connections, median of ${samples}:\n`)
    const bare = rows[0]?.p50 ?? Number.NaN
    report.rows(
      ['what', 'requests a second', 'to the same on the machine itself'],
      rows.map(({ name, p50 }) => [name, (count / (p50 / 1000)).toFixed(0), (bare / p50).toFixed(2)]),
    )
  } finally {
    for (const server of servers) server.kill()
    rmSync(scratch, { recursive: true })
  }
}

async function latency(report: Report, ask: Asker, rounds: number): Promise<void> {
  report.say('\nA small request on a connection of its own, milliseconds:\n')
  const samples = new Map(ROWS.map(({ name }) => [name, [] as number[]]))
  for (let round = 0; round < rounds; round++)
    for (const row of ROWS) samples.get(row.name)?.push(await ask.small(row))
  report.table(
    ROWS.map(({ name }) => summarize(name, samples.get(name) ?? [])),
    BARE,
  )
}

async function meanwhile(
  report: Report,
  ask: Asker,
  sandbox: Sandbox,
  { mib, rounds }: { readonly mib: number; readonly rounds: number },
): Promise<void> {
  report.say('\n`exec true` while 32 streams pass through, milliseconds:\n')
  const once = (): Promise<number> => timed(() => sandbox.exec('true').wait())
  const alone: number[] = []
  for (let n = 0; n < rounds; n++) alone.push(await once())
  const busy: number[] = []
  const row = ROWS.find(({ isInside }) => isInside)
  let isOver = false
  const load =
    row &&
    ask.download(row, 32, mib * 4).finally(() => {
      isOver = true
    })
  while (!isOver && busy.length < rounds * 5) busy.push(await once())
  await load
  report.table(
    [summarize('nothing else going on', alone), summarize('meanwhile', busy)],
    'nothing else going on',
  )
}

/** The same curl, on the machine and inside. */
class Asker {
  readonly #internet: Internet
  readonly #sandbox: Sandbox

  constructor(internet: Internet, sandbox: Sandbox) {
    this.#internet = internet
    this.#sandbox = sandbox
  }

  /** The egress process may have just been started. */
  async warmUp(): Promise<void> {
    for (const row of ROWS) await this.#curl(row, ['-o', '/dev/null', `${row.url}/big?bytes=1000`])
  }

  async download(row: Row, streams: number, mib: number): Promise<void> {
    const bytes = Math.floor((mib * 1024 * 1024) / streams)
    const urls = Array.from({ length: streams }, (_, n) => [
      '-o',
      '/dev/null',
      `${row.url}/big?bytes=${bytes}&n=${n}`,
    ])
    await this.#curl(row, ['-Z', '--parallel-max', String(streams), ...urls.flat()])
  }

  /** As curl counts it, from the name to the last byte. */
  async small(row: Row): Promise<number> {
    const seconds = await this.#curl(row, ['-o', '/dev/null', '-w', '%{time_total}', `${row.url}/small`])
    return Number(seconds) * 1000
  }

  async #curl(row: Row, words: readonly string[]): Promise<string> {
    const relayed = row.isRelayed ? ['--connect-to', `::127.0.0.1:${RELAY_PORT}`] : []
    const args = ['-sS', '--fail', '--noproxy', '*', '--http1.1', ...relayed, ...words]
    if (!row.isInside) return this.#internet.onHost('curl', ...args)
    const { exitCode, stdout, stderr } = await this.#sandbox.exec('curl', { args }).wait()
    if (exitCode !== 0) throw new Error(`curl gave ${exitCode}: ${stderr}`)
    return stdout
  }
}
