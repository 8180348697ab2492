/**
 * Sends small HTTP requests through the egress process, without a sandbox, and prints the processor time that
 * the process takes for each. Usage, as root:
 *
 *     scripts/with-node scripts/profile/requests.ts [--requests 40000] [--connections 16] [--rounds 3]
 *         [--cpu-prof DIRECTORY] [EGRESS.js ...]
 *
 * Several builds of the process take their rounds in turn, so that a busy machine falls on all of them;
 * without one, dist/egress.js is measured. A build may have flags of Node before it, in the same word: those
 * words come last, after `--`. With `--cpu-prof`, each build writes a profile for Chrome's developer tools.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { testPolicy } from '../../src/egress/testing/egress-fixture.ts'
import { FakePodd } from '../../src/egress/testing/fake-podd.ts'
import { connectSocket, LineClient } from '../../src/util/stream/line-client.ts'
import { processorTimeOf } from '../../test/bench/processor-time.ts'
import { Internet, SITE } from '../../test/support/internet.ts'
import { until } from '../../test/support/world.ts'

const HOST = 'small.example.com'
const PORT = 8099
const SERVER = `
const answer = 'HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok'
require('node:net').createServer((socket) => {
  socket.on('data', () => socket.write(answer)).on('error', () => undefined)
}).listen(${PORT}, '0.0.0.0', () => console.log('ready'))`
const ASK = `GET /small HTTP/1.1\r\nhost: ${HOST}:${PORT}\r\n\r\n`

const { values, positionals } = parseArgs({
  options: {
    requests: { type: 'string', default: '40000' },
    connections: { type: 'string', default: '16' },
    rounds: { type: 'string', default: '3' },
    'cpu-prof': { type: 'string' },
  },
  allowPositionals: true,
})
const requests = Number(values.requests)
const scripts = positionals.length > 0 ? positionals : [join(import.meta.dirname, '../../dist/egress.js')]

interface Measured {
  readonly script: string
  readonly podd: FakePodd
  readonly child: ChildProcess
  readonly pid: number
  readonly client: LineClient
  readonly samples: { readonly usEach: number; readonly perSecond: number }[]
}

const directory = mkdtempSync(join(tmpdir(), 'agentpod-requests-'))
await using internet = await Internet.open([HOST])
internet.name(HOST, [SITE])
const inNetwork = ['-t', String(internet.network.pid), '-n', '--', process.execPath, '-e', SERVER]
const server = spawn('nsenter', inNetwork, { stdio: ['ignore', 'pipe', 'inherit'] })
const all: Measured[] = []
try {
  await once(server.stdout, 'data')
  for (const [n, script] of scripts.entries()) all.push(await start(script, n))
  for (const one of all) await send(one, 2000)
  for (let round = 0; round < Number(values.rounds); round++) for (const one of all) await measure(one)
  for (const { script, samples } of all) {
    const median = (list: number[]): number => list.sort((a, b) => a - b)[Math.floor(list.length / 2)] ?? 0
    const us = median(samples.map(({ usEach }) => usEach))
    const rate = median(samples.map(({ perSecond }) => perSecond))
    console.log(
      `${us.toFixed(1).padStart(8)} µs of processor ${rate.toFixed(0).padStart(8)} a second  ${script}`,
    )
  }
} finally {
  for (const { client, podd, child } of all) {
    const gone = once(child, 'exit')
    await client.call('shutdown', {}).catch(() => undefined)
    await gone
    client.close()
    await podd.close()
  }
  server.kill()
  rmSync(directory, { recursive: true, force: true })
}

async function start(script: string, n: number): Promise<Measured> {
  const socket = join(directory, `egress${n}.sock`)
  const profile = values['cpu-prof']
  const [program = '', ...words] = [
    ...internet.onMachine,
    process.execPath,
    ...(profile === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir', profile, '--cpu-prof-interval', '200']),
    '--max-semi-space-size=4',
    ...script.split(' '),
    socket,
  ]
  const child = spawn(program, words, { stdio: ['ignore', 'inherit', 'inherit'] })
  const podd = new FakePodd(join(directory, `out${n}`))
  await podd.listen()
  let connected: Socket | undefined
  await until('the egress process listens', async () => {
    connected = await connectSocket(socket)
    return connected !== undefined
  })
  const fail = (): Error => new Error('the egress process is gone')
  const client = new LineClient(connected as Socket, { onEvent() {}, onGone() {}, toError: fail, gone: fail })
  const { pid } = await client.call('hello', {})
  const policy = testPolicy([`${HOST}:${PORT}`])
  await client.call('open', { sandbox: 'sb', socket: podd.path, policy, secrets: [], intercept: 'needed' })
  return { script, podd, child, client, pid: Number(pid), samples: [] }
}

async function measure(one: Measured): Promise<void> {
  const before = processorTimeOf(one.pid).ownMs
  const began = performance.now()
  await send(one, requests)
  const seconds = (performance.now() - began) / 1000
  const usEach = ((processorTimeOf(one.pid).ownMs - before) * 1000) / requests
  one.samples.push({ usEach, perSecond: requests / seconds })
}

/** One request at a time on each connection. */
async function send({ podd }: Measured, count: number): Promise<void> {
  let left = count
  const work = async (): Promise<void> => {
    if (left-- > 0) await converse(podd, () => left-- > 0)
  }
  await Promise.all(Array.from({ length: Number(values.connections) }, work))
}

async function converse(podd: FakePodd, goesOn: () => boolean): Promise<void> {
  const stream = await podd.direct({ name: HOST, port: PORT })
  stream.write(ASK)
  await new Promise<void>((resolve, reject) => {
    stream.on('data', (answer: Buffer) => {
      const text = answer.toString('latin1')
      if (!text.startsWith('HTTP/1.1 200') || !text.endsWith('ok')) return reject(new Error(text))
      if (goesOn()) stream.write(ASK)
      else resolve()
    })
    stream.once('close', () => reject(new Error('the connection was closed')))
  })
  stream.destroy()
}
