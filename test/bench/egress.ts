/**
 * Egress beside the same downloads on the machine itself: throughput, added latency of a request, and the
 * time of a command meanwhile.
 */
import type { Sandbox } from '../../src/client/sandbox.ts'
import { Internet, noInternet, OTHER_SITE, SITE } from '../support/internet.ts'
import { roundRobin, summarize, timed } from './measure.ts'
import type { Report } from './report.ts'

const PASSED = 'passed.example.com'
const OPENED = 'opened.example.com'
const SECRET = 'secret.example.com'
const STREAMS = [1, 32]

interface Row {
  readonly name: string
  readonly url: string
  readonly isInside: boolean
}

const BARE = 'HTTP, on the machine itself'
const ROWS: readonly Row[] = [
  { name: BARE, url: `http://${PASSED}`, isInside: false },
  { name: 'TLS, on the machine itself', url: `https://${PASSED}`, isInside: false },
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
    network: { allow: [PASSED, { host: OPENED, paths: ['/**'] }], secrets: ['KEY'] },
  })
  const ask = new Asker(internet, sandbox)
  await ask.warmUp()

  for (const streams of STREAMS) await throughput(report, ask, streams, o)
  await latency(report, ask, o.rounds)
  await meanwhile(report, ask, sandbox, o)
  await sandbox.destroy()
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
  report.rates(await roundRobin(cases, samples, 0), mib)
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
  const row = ROWS[2]
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
    const args = ['-sS', '--fail', '--noproxy', '*', '--http1.1', ...words]
    if (!row.isInside) return this.#internet.onHost('curl', ...args)
    const { exitCode, stdout, stderr } = await this.#sandbox.exec('curl', { args }).wait()
    if (exitCode !== 0) throw new Error(`curl gave ${exitCode}: ${stderr}`)
    return stdout
  }
}
