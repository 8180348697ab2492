// The official SDKs call every core method of this server, and a newcomer's programs run unchanged. The page
// of results must be up to date: AGENTPOD_UPDATE_DOCS=1 writes it.

import assert from 'node:assert/strict'
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { differsOn } from '../../support/chosen-provider.ts'
import { sharedBootstrap } from '../../support/shared-bootstrap.ts'
import { ROOT, World } from '../../support/world.ts'
import { PAGE, pageWith, parseResults, type Result } from './results.ts'
import { type E2bSandbox, installJavascript, NEWEST, SDKS, type Sdk } from './sdk.ts'

const SUITE_MS = 150_000
const EXAMPLE_MS = 60_000

let world: World
let env: Record<string, string>
before(
  async () => {
    world = new World({ env: sharedBootstrap() })
    const json = await world.ok(['e2b', 'env', '--json'], { timeoutMs: 400_000 })
    const otherKey = (await world.ok(['key', 'create', '--quiet'])).trim()
    env = { ...(JSON.parse(json) as Record<string, string>), OTHER_API_KEY: otherKey }
  },
  { timeout: 600_000 },
)
after(async () => world?.[Symbol.asyncDispose]())

describe('agentpod e2b env', () => {
  const ask = async (...args: string[]): Promise<Record<string, string>> =>
    JSON.parse(await world.ok(['e2b', 'env', '--json', ...args])) as Record<string, string>

  test('`e2b env` gives every shell the same key, which only its owner can read', async () => {
    assert.equal((await ask())['E2B_API_KEY'], env['E2B_API_KEY'])
    assert.equal(statSync(join(world.home, 'e2b-key.json')).mode & 0o777, 0o600)
  })

  test('`e2b env` gives a new key on request', async () => {
    const { E2B_API_KEY: own } = await ask('--new-key', '--ttl', '1h')
    assert.match(own ?? '', /^e2b_[0-9a-f]{40}$/)
    assert.notEqual(own, env['E2B_API_KEY'])
    assert.equal((await ask())['E2B_API_KEY'], env['E2B_API_KEY'])
  })

  test('`e2b env` makes another key when the kept one is revoked or damaged', async () => {
    const file = join(world.home, 'e2b-key.json')
    const before = readFileSync(file, 'utf8')
    for (const damage of ['', '{}', 'null', '[]', '{"id":1,"secret":2}']) {
      writeFileSync(file, damage)
      assert.match((await ask())['E2B_API_KEY'] ?? '', /^e2b_[0-9a-f]{40}$/, damage)
    }
    const { id, secret } = JSON.parse(readFileSync(file, 'utf8')) as { id: string; secret: string }
    await world.ok(['key', 'revoke', id])
    assert.notEqual((await ask())['E2B_API_KEY'], secret)
    writeFileSync(file, before)
  })

  test('`e2b env` prints lines for a shell', async () => {
    const lines = (await world.ok(['e2b', 'env'])).trimEnd().split('\n')
    for (const line of lines) assert.match(line, /^export E2B_[A-Z_]+=[\w:/.]+$/)
    assert.equal(lines.length, 4)
  })

  test('`e2b` refuses an unknown word', async () => {
    const { code, stderr } = await world.cli(['e2b', 'login'])
    assert.equal(code, 2)
    assert.match(stderr, /e2b env/)
  })
})

/** The parts of the SDK that build templates; test/long/e2b-templates.test.ts does more with them. */
interface Steps {
  fromBaseImage(): Steps
  copy(from: string, to: string): Steps
  runCmd(command: string): Steps
  setStartCmd(command: string, ready: unknown): Steps
}
interface TemplateSdk {
  readonly Template: ((o: object) => Steps) & {
    build(template: Steps, name: string, o: object): Promise<unknown>
    exists(name: string, o: object): Promise<boolean>
  }
  readonly Sandbox: { create(template: string, o: object): Promise<E2bSandbox> }
  waitForPort(port: number): unknown
}

test('API-7 the SDK builds a template for its own key, and a failed one cannot be run', {
  timeout: 120_000,
}, async () => {
  const entry = join(await installJavascript(NEWEST), 'node_modules', 'e2b', 'dist', 'index.mjs')
  const { Template, Sandbox, waitForPort } = (await import(pathToFileURL(entry).href)) as TemplateSdk
  const options = {
    apiKey: env['E2B_API_KEY'],
    apiUrl: env['E2B_API_URL'],
    sandboxUrl: env['E2B_SANDBOX_URL'],
  }
  const context = world.directory()
  writeFileSync(join(context, 'a.txt'), 'from the context\n')
  const steps = (): Steps => Template({ fileContextPath: context }).fromBaseImage().copy('a.txt', 'a.txt')
  const started = steps().setStartCmd('python3 -m http.server 8123', waitForPort(8123))
  await Template.build(started, 'pages', options)
  const sandbox = await Sandbox.create('pages', options)
  assert.equal((await sandbox.commands.run('curl -s localhost:8123/a.txt')).stdout, 'from the context\n')
  await sandbox.kill()
  await assert.rejects(Template.build(steps().runCmd('exit 7'), 'failing', options), /exit code 7/)
  await assert.rejects(Sandbox.create('failing', options), /has no build that is ready/)
  assert.equal(await Template.exists('pages', { ...options, apiKey: env['OTHER_API_KEY'] }), false)
})

const results = new Map<string, readonly Result[]>()

/** docs/compat/e2b.md says so. */
const DIFFERS = [
  { cases: /^Volume\b/, on: differsOn({ gvisor: 'volumes are refused there' }) },
  { cases: /^sandbox.pause: a stream goes on/, on: differsOn({ gvisor: 'a pause to disk ends streams' }) },
]

async function check(t: TestContext, found: readonly Result[]): Promise<void> {
  for (const { name, ok, detail } of found)
    await t.test(name, DIFFERS.find(({ cases }) => cases.test(name))?.on ?? {}, () => assert.ok(ok, detail))
}

describe('the SDK', () => {
  for (const sdk of SDKS) {
    test(`API-2 the suite of ${sdk.title} passes`, { timeout: SUITE_MS }, async (t) => {
      const directory = await installed(sdk)
      if (directory instanceof Error) return t.skip(`cannot be fetched: ${directory.message}`)
      const { output, code } = await run(sdk.command(directory), { ...env, ...sdk.env?.(directory) })
      const found = parseResults(output)
      assert.equal(code, 0, output)
      assert.ok(found.length > 0, output)
      results.set(sdk.title, found)
      await check(t, found)
    })
  }

  test('API-2 the page of E2B results is up to date', differsOn({ gvisor: 'it is about crun' }), (t) => {
    if (results.size < SDKS.length) return t.skip('not every SDK ran')
    const page = pageWith(results)
    if (process.env['AGENTPOD_UPDATE_DOCS'] === '1') {
      mkdirSync(dirname(PAGE), { recursive: true })
      writeFileSync(PAGE, page)
    }
    assert.equal(readFileSync(PAGE, 'utf8'), page, 'run it with AGENTPOD_UPDATE_DOCS=1 to write it')
  })
})

describe('over TLS, with one variable for all addresses', () => {
  let server: ChildProcessWithoutNullStreams
  let variables: Record<string, string>
  before(
    async () => {
      await world.ok(['server', 'stop'])
      server = world.start(['serve', '--e2b-domain', 'compat.localhost:0'])
      const line = await firstLine(server)
      const [, domain = '', authority = ''] = /E2B_DOMAIN=(\S+) NODE_EXTRA_CA_CERTS=(\S+)/.exec(line) ?? []
      variables = {
        E2B_API_KEY: env['E2B_API_KEY'] ?? '',
        OTHER_API_KEY: env['OTHER_API_KEY'] ?? '',
        E2B_DOMAIN: domain,
        PREVIEW_SCHEME: 'https',
        NODE_EXTRA_CA_CERTS: authority,
        SSL_CERT_FILE: authority,
        CURL_CA_BUNDLE: authority,
        NODE_OPTIONS: `--import=${join(import.meta.dirname, 'js', 'resolve-localhost.mjs')}`,
      }
    },
    { timeout: 30_000 },
  )
  after(async () => {
    server.kill('SIGTERM')
    await once(server, 'close')
  })

  for (const sdk of SDKS.filter(({ title }) => title.includes(NEWEST) || title.startsWith('PyPI'))) {
    test(`API-2 the suite of ${sdk.title} passes over TLS, with one variable for all addresses`, {
      timeout: SUITE_MS,
    }, async (t) => {
      const directory = await installed(sdk)
      if (directory instanceof Error) return t.skip(`cannot be fetched: ${directory.message}`)
      const { output, code } = await run(sdk.command(directory), { ...variables, ...sdk.env?.(directory) })
      assert.equal(code, 0, output)
      await check(t, parseResults(output))
    })
  }
})

describe('examples for newcomers', () => {
  const EXAMPLES: readonly { file: string; says: readonly string[] }[] = [
    {
      file: 'quickstart.mjs',
      says: [
        'sandbox is running: true',
        'Hello from user in /home/user',
        'Remember the milk.',
        'file notes.txt',
        'sandbox is running: false',
      ],
    },
    {
      file: 'upload-run-download.mjs',
      says: ['read 3 rows', 'Cairo is the hottest of 3', 'saved report.json'],
    },
    { file: 'web-server.mjs', says: ['open in a browser: http://3000-', '<h1>It works</h1>'] },
    {
      file: 'streaming.mjs',
      says: ['out: step 1', 'out: step 3', 'HELLO, WORLD!', 'ls ended with 2: ls: cannot access'],
    },
    {
      file: 'timeout.mjs',
      says: [
        'the sandbox lives for about 30 s',
        'the command took too long',
        'now for about 120 s',
        'connected again: true',
        'the sandbox ended by itself',
      ],
    },
  ]
  for (const { file, says } of EXAMPLES) {
    test(`API-2 the example ${file} works`, { timeout: EXAMPLE_MS + 30_000 }, async (t) => {
      const newest = await installJavascript(NEWEST).catch((error: Error) => error)
      if (newest instanceof Error) return t.skip(`cannot be fetched: ${newest.message}`)
      const project = world.directory()
      cpSync(join(ROOT, 'examples', 'e2b', file), join(project, file))
      symlinkSync(join(newest, 'node_modules'), join(project, 'node_modules'))
      const path = [ROOT, dirname(process.execPath), process.env['PATH']].join(delimiter)
      const { code, output } = await run(
        ['sh', '-c', `eval "$(agentpod e2b env)" && node ${file}`],
        { PATH: path, AGENTPOD_HOME: world.home },
        { cwd: project, limitMs: EXAMPLE_MS },
      )
      assert.equal(code, 0, output)
      for (const line of says) assert.ok(output.includes(line), `${line} is not in\n${output}`)
    })
  }
})

async function firstLine(child: ChildProcessWithoutNullStreams): Promise<string> {
  let text = ''
  child.stdout.setEncoding('utf8')
  for await (const chunk of child.stdout as AsyncIterable<string>) {
    text += chunk
    if (text.includes('\n')) break
  }
  return text.split('\n', 1)[0] ?? ''
}

function installed(sdk: Sdk): Promise<string | Error> {
  return sdk.install().catch((error: Error) => error)
}

async function run(
  [program = '', ...args]: readonly string[],
  more: Readonly<Record<string, string>>,
  o: { cwd?: string; limitMs?: number } = {},
): Promise<{ code: number; output: string }> {
  const child = spawn(program, args, {
    cwd: o.cwd ?? world.home,
    env: { ...process.env, ...more },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), o.limitMs ?? SUITE_MS - 5_000)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8')
    stream.on('data', (text: string) => {
      output += text
    })
  }
  const code = await new Promise<number>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (exit) => resolve(exit ?? -1))
  })
  clearTimeout(timer)
  return { code, output }
}
