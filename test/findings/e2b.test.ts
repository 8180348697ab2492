// What E2B's users found: each case is what they did, through their own SDK, and what they should have seen.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { type E2bSandbox, type E2bSdk, installJavascript, NEWEST } from '../compat/e2b/sdk.ts'
import { sharedBootstrap } from '../support/shared-bootstrap.ts'
import { until, World } from '../support/world.ts'

let world: World
let sdk: E2bSdk
let options: { apiKey: string; apiUrl: string; sandboxUrl: string }
before(
  async () => {
    world = new World({ env: sharedBootstrap() })
    const directory = await installJavascript(NEWEST)
    sdk = (await import(
      pathToFileURL(join(directory, 'node_modules', 'e2b', 'dist', 'index.mjs')).href
    )) as E2bSdk
    const env = JSON.parse(await world.ok(['e2b', 'env', '--json'], { timeoutMs: 400_000 })) as Record<
      string,
      string
    >
    options = {
      apiKey: env['E2B_API_KEY'] ?? '',
      apiUrl: env['E2B_API_URL'] ?? '',
      sandboxUrl: env['E2B_SANDBOX_URL'] ?? '',
    }
  },
  { timeout: 600_000 },
)
after(async () => world?.[Symbol.asyncDispose]())

async function create(o: Record<string, unknown> = {}): Promise<E2bSandbox & AsyncDisposable> {
  const sandbox = await sdk.Sandbox.create({ ...options, timeoutMs: 120_000, ...o })
  return Object.assign(sandbox, {
    [Symbol.asyncDispose]: async () => void (await sandbox.kill().catch(() => undefined)),
  })
}

async function inside(sandbox: E2bSandbox, command: string): Promise<string> {
  return (await sandbox.commands.run(command)).stdout.trimEnd()
}

const stateOf = async ({ sandboxId }: E2bSandbox): Promise<string> => {
  const info = await sdk.Sandbox.getInfo(sandboxId, options).catch(() => undefined)
  return info?.state ?? 'gone'
}

test('B1: a timeout of nothing pauses a sandbox that is to be paused, with its files and memory', async () => {
  await using kept = await create({ lifecycle: { onTimeout: 'pause' } })
  await kept.files.write('kept.txt', 'kept')
  await kept.commands.run('sleep 600', { background: true })
  await kept.setTimeout(0)
  assert.equal(await stateOf(kept), 'paused')
  const again = await sdk.Sandbox.connect(kept.sandboxId, options)
  assert.equal(await again.files.read('kept.txt'), 'kept')
  assert.equal(await inside(again, 'pgrep -c sleep'), '1')

  await using stopped = await create({ lifecycle: { onTimeout: { action: 'pause', keepMemory: false } } })
  await stopped.files.write('kept.txt', 'kept')
  await stopped.setTimeout(0)
  assert.equal(await stateOf(stopped), 'paused')
  assert.equal(await (await sdk.Sandbox.connect(stopped.sandboxId, options)).files.read('kept.txt'), 'kept')

  await using ended = await create()
  await ended.setTimeout(0)
  assert.equal(await stateOf(ended), 'gone', 'the control: what is to end ends')
})

test('B1: a negative timeout is refused and changes nothing', async () => {
  await using sandbox = await create({ lifecycle: { onTimeout: 'pause' } })
  const ask = (path: string, body: object): Promise<Response> =>
    fetch(`${options.apiUrl}/sandboxes/${sandbox.sandboxId}/${path}`, {
      method: 'POST',
      headers: { 'x-api-key': options.apiKey, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  for (const [path, body] of [
    ['timeout', { timeout: -1 }],
    ['refreshes', { duration: -1 }],
    ['connect', { timeout: -1 }],
    ['resume', { timeout: -1 }],
  ] as const)
    assert.ok([400, 409].includes((await ask(path, body)).status), path)
  for (const [path, body] of [
    ['refreshes', { duration: 0 }],
    ['connect', { timeout: 0 }],
  ] as const)
    assert.ok((await ask(path, body)).ok, path)
  assert.equal(await stateOf(sandbox), 'running')
})

test('B2: files outside the home are made, moved, watched and removed, and what is made is the user’s', async () => {
  await using sandbox = await create()
  const { files } = sandbox
  assert.equal(await files.makeDir('/workspace'), true)
  assert.equal(await files.makeDir('/workspace'), false)
  await files.write('/app/deep/x.txt', 'one')
  await files.write('/app/deep/x.txt', 'two')
  assert.equal(
    await inside(sandbox, 'stat -c %U /workspace /app /app/deep /app/deep/x.txt'),
    'user\nuser\nuser\nuser',
  )
  assert.equal(
    await inside(sandbox, 'echo three >> /app/deep/x.txt; touch /workspace/mine; cat /app/deep/x.txt'),
    'twothree',
  )

  const events: string[] = []
  await inside(sandbox, 'sudo mkdir -m 700 /srv/closed')
  const watch = await files.watchDir('/srv/closed', ({ name, type }) => events.push(`${type} ${name}`))
  await files.rename('/app/deep/x.txt', '/srv/closed/y.txt')
  await until('the watch tells', () => events.includes('create y.txt'))
  await watch.stop()
  assert.deepEqual(
    (await files.list('/srv/closed')).map(({ name }) => name),
    ['y.txt'],
  )
  assert.equal((await files.getInfo('/srv/closed/y.txt')).owner, 'user')
  assert.equal(await files.read('/srv/closed/y.txt'), 'twothree\n')
  await files.remove('/srv/closed')
  assert.equal(await files.exists('/srv/closed'), false)

  await files.write('/etc/motd', 'hello')
  assert.equal(
    await inside(sandbox, 'cat /etc/motd; stat -c " %U" /etc; sudo true && echo still'),
    'hello root\nstill',
  )
})

test('B3: the server has its port again after a crash and a stop, and says when another program has it', async () => {
  const isUp = async (): Promise<boolean> =>
    (await fetch(`${options.apiUrl}/v2/sandboxes`, { headers: { 'x-api-key': options.apiKey } })).ok
  process.kill(world.serverPid, 'SIGKILL')
  await world.ok(['ls'])
  assert.ok(await isUp(), 'after a crash')
  await world.ok(['server', 'stop'])
  await world.ok(['ls'])
  assert.ok(await isUp(), 'after a stop')

  await world.ok(['server', 'stop'])
  const port = Number(new URL(options.apiUrl).port)
  const other = createServer().listen(port, '127.0.0.1')
  await once(other, 'listening')
  const { stdout, stderr } = await world.cli(['e2b', 'env', '--json'])
  const moved = (JSON.parse(stdout) as Record<string, string>)['E2B_API_URL'] ?? ''
  other.close()
  assert.notEqual(moved, options.apiUrl)
  assert.match(stderr, new RegExp(`another program uses port ${port}`))
  options = { ...options, apiUrl: moved, sandboxUrl: moved }
  await world.ok(['server', 'stop'])
  await world.ok(['ls'])
  assert.ok(await isUp(), 'the new one is kept from then on')
})

test('B4: files of the kernel are read to their end', async () => {
  await using sandbox = await create()
  for (const path of [
    '/proc/version',
    '/proc/sys/kernel/ostype',
    '/sys/class/net/lo/mtu',
    '/proc/sys/fs/file-max',
  ])
    assert.equal((await sandbox.files.read(path)).trimEnd(), await inside(sandbox, `cat ${path}`), path)
  assert.match(await sandbox.files.read('/proc/cpuinfo'), /processor.*\n\n$/s)
  assert.match(await sandbox.files.read('/proc/net/dev'), /lo:/)
  const { pid } = (await sandbox.commands.run('sleep 60', { background: true })) as unknown as { pid: number }
  assert.match(await sandbox.files.read(`/proc/${pid}/status`), /Name:/)
  await assert.rejects(
    sandbox.files.read('/proc/self/environ'),
    /permission denied/,
    'the daemon’s own are not',
  )
})

test('B6: the base template has Python with pip and venv, compilers and Node', async () => {
  await using sandbox = await create()
  assert.match(await inside(sandbox, 'python --version; pip --version'), /Python 3.*\npip /s)
  assert.equal(
    await inside(
      sandbox,
      'python -m venv /tmp/venv && /tmp/venv/bin/python -m pip --version | cut -d" " -f1',
    ),
    'pip',
  )
  const program = 'int main(void) { return 7; }'
  assert.equal(
    await inside(
      sandbox,
      `echo '${program}' > a.c && gcc a.c && (./a.out; echo $?) && make --version | head -1 | cut -c1-8`,
    ),
    '7\nGNU Make',
  )
  assert.match(await inside(sandbox, 'node -p 6*7; npm --version'), /^42\n\d+\./)
})

test('B7: a program inside finds E2B’s variables, and /envs and /health at localhost:49983', async () => {
  await using sandbox = await create({ envs: { MINE: 'yes' } })
  const env = await inside(sandbox, 'env | grep ^E2B_ | sort')
  assert.match(env, /^E2B_EVENTS_ADDRESS=http:\/\/127\.0\.0\.1:49983$/m)
  assert.match(env, /^E2B_SANDBOX=true$/m)
  assert.ok(env.includes(`E2B_SANDBOX_ID=${sandbox.sandboxId}\n`))
  assert.match(env, /^E2B_TEAM_ID=[0-9a-f]{8}-[0-9a-f-]{27}$/m)
  assert.match(env, /^E2B_TEMPLATE_ID=base$/m)
  const ask = (path: string, options = ''): Promise<string> =>
    inside(sandbox, `curl -sS -w ' %{http_code}' ${options} http://localhost:49983${path}`)
  assert.equal(await ask('/health'), ' 204')
  const envs = await ask('/envs', '-H "X-Access-Token: whatever"')
  assert.match(envs, / 200$/)
  assert.equal((JSON.parse(envs.slice(0, -4)) as Record<string, string>)['MINE'], 'yes')
  assert.equal(await ask('/me'), `{"sandboxID":"${sandbox.sandboxId}"} 200`)

  const again = await sdk.Sandbox.create({ ...options, timeoutMs: 60_000, envs: { E2B_TEAM_ID: 'mine' } })
  assert.equal(await inside(again, 'echo $E2B_TEAM_ID'), 'mine', 'what was asked for goes before')
  await again.kill()
})

/** As E2B's users write it: the port is put in by the server. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: the braces are E2B's.
const MASK = 'localhost:${PORT}'

/** How long after its end a sandbox is what it is to be then. */
async function lateness(sandbox: E2bSandbox, state: string): Promise<number> {
  await sandbox.setTimeout(2000)
  const { endAt } = await sdk.Sandbox.getInfo(sandbox.sandboxId, options)
  await until(`it is ${state}`, async () => (await stateOf(sandbox)) === state, 15_000)
  return Date.now() - new Date(endAt).getTime()
}

test('B5: a sandbox is paused or ended at its deadline, not at the next sweep', async (t) => {
  for (const [lifecycle, state] of [
    [{ onTimeout: 'pause' }, 'paused'],
    [{ onTimeout: 'kill' }, 'gone'],
  ] as const) {
    const late: number[] = []
    for (let i = 0; i < 3; i++) {
      await using sandbox = await create({ lifecycle })
      late.push(await lateness(sandbox, state))
    }
    t.diagnostic(`${state}: ${late.join(', ')} ms late`)
    // A sweep comes every 3 s, so three in a row within half a second are no accident.
    assert.ok(Math.max(...late) < 500, `${state}: ${late}`)
  }
})

test('B8: startedAfter counts a sandbox that started at that very moment', async () => {
  await using sandbox = await create()
  const { startedAt } = await sdk.Sandbox.getInfo(sandbox.sandboxId, options)
  const listed = async (after: Date): Promise<string[]> => {
    const query = new URLSearchParams({ startedAfter: after.toISOString() })
    const answer = await fetch(`${options.apiUrl}/v2/sandboxes?${query}`, {
      headers: { 'x-api-key': options.apiKey },
    })
    return ((await answer.json()) as { sandboxID: string }[]).map(({ sandboxID }) => sandboxID)
  }
  assert.ok((await listed(new Date(startedAt))).includes(sandbox.sandboxId))
  assert.ok(!(await listed(new Date(new Date(startedAt).getTime() + 1))).includes(sandbox.sandboxId))
})

test('B8: a signature that has expired says so, in E2B’s words', async () => {
  await using sandbox = await create()
  await sandbox.files.write('signed.txt', 'signed')
  const url = (seconds: number): Promise<string> =>
    sandbox.downloadUrl('signed.txt', { useSignatureExpiration: seconds })
  const answer = await fetch(await url(-10))
  assert.equal(answer.status, 401)
  assert.deepEqual(await answer.json(), { code: 401, message: 'signature is already expired' })
  assert.equal(await (await fetch(await url(60))).text(), 'signed', 'the control')
  const forged = (await url(-10)).replace(/signature=v1_..../, 'signature=v1_AAAA')
  assert.doesNotMatch(await (await fetch(forged)).text(), /expired/)
})

test('B8: a program inside is told the host that the sandbox was created with', async () => {
  await using sandbox = await create({ network: { maskRequestHost: MASK } })
  const server = `require('http').createServer((asked, answer) => answer.end(asked.headers.host + ' ')).listen(3000)`
  await sandbox.commands.run(`node -e "${server}"`, { background: true })
  const ask = async (): Promise<string> =>
    (
      await fetch(options.sandboxUrl, {
        headers: { 'e2b-sandbox-id': sandbox.sandboxId, 'e2b-sandbox-port': '3000' },
      })
    ).text()
  await until('the server answers', async () => (await ask()).startsWith('localhost:3000 '))
  const info = await sdk.Sandbox.getInfo(sandbox.sandboxId, options)
  assert.equal(info.network?.maskRequestHost, MASK)
  await assert.rejects(create({ network: { maskRequestHost: 'a\r\nx: y' } }), /maskRequestHost/)
})

test('B8: a directory has the size that directories have', async () => {
  await using sandbox = await create()
  await sandbox.files.makeDir('folder')
  assert.equal((await sandbox.files.getInfo('folder')).size, 4096)
})
