/** Real agents that an ordinary user puts to work, with a model behind a gateway in a private network. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { systemClock } from '../../src/util/clock.ts'
import { systemRandom } from '../../src/util/random.ts'
import { makeCertificate, makeSandboxAuthority } from '../../src/util/x509/certificate.ts'
import { type Worked, worked } from '../support/acp-user.ts'
import { brokenProject, payingWith, withoutPackages } from '../support/agent-runs.ts'
import { RemoteModel } from '../support/agent-stage.ts'
import { assertNoToken, newToken } from '../support/canary.ts'
import { noInternet } from '../support/internet.ts'
import { makeOrdinaryUser, noOrdinaryUser, type OrdinaryUser } from '../support/ordinary-user.ts'
import { World } from '../support/world.ts'

const AGENTS = ['claude', 'codex']
const [GATEWAY, MACHINE] = ['10.213.77.2', '10.213.77.1']
const AUTHORITIES = '/etc/ssl/certs/ca-certificates.crt'
const BUILD_MS = 600_000
const RUN_MS = 240_000
const KEY = newToken()

const skip = noOrdinaryUser() || noInternet()
const missing = await withoutPackages(skip ? [] : AGENTS)

let scratch: string
let model: RemoteModel
let user: OrdinaryUser
let world: World
let root: string

before(async () => {
  if (skip) return
  scratch = mkdtempSync(join(tmpdir(), 'agentpod-gateway-'))
  const parts = { now: systemClock.now(), random: systemRandom }
  const authority = makeSandboxAuthority(parts, 'authority of a gateway')
  const { cert, key } = makeCertificate(authority, [GATEWAY], parts)
  const file = (name: string, text: string): string => {
    writeFileSync(join(scratch, name), text, { mode: 0o600 })
    return join(scratch, name)
  }
  model = new RemoteModel([
    ...['--host', '0.0.0.0', '--port', '443', '--key', KEY],
    ...['--cert', file('gateway.pem', cert), '--secret', file('gateway.key', key)],
  ])
  await model.ready()
  connect(model.pid)

  user = makeOrdinaryUser()
  const authorities = join(user.home, 'authorities.pem')
  writeFileSync(authorities, `${authority.cert}${readFileSync(AUTHORITIES, 'utf8')}`)
  const env = { ...payingWith(KEY), SSL_CERT_FILE: authorities, NODE_EXTRA_CA_CERTS: authorities }
  world = new World({ home: join(user.home, 'state'), as: user, env })
  const place = join(user.home, 'work')
  mkdirSync(place)
  const project = brokenProject(place)
  root = project.root
  writeFileSync(join(user.home, '.gitconfig'), '[user]\n\tname = User\n\temail = user@example.com\n')
  execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, user.home])
})
after(async () => {
  if (skip) return
  await world[Symbol.asyncDispose]()
  user[Symbol.dispose]()
  await model[Symbol.asyncDispose]()
  rmSync(scratch, { recursive: true })
})

for (const name of AGENTS) {
  test(`${name} repairs a project for an ordinary user, and the key is never inside`, {
    skip: skip || (missing.get(name) ?? false),
  }, async () => {
    const built = await world.cli(['build', '--agent', name], { cwd: root, timeoutMs: BUILD_MS })
    assert.equal(built.code, 0, built.stderr)
    model.forget()
    const done = await run(name, '[[fix]] fix the failing test')
    assert.deepEqual(
      [done.result.outcome, done.code],
      ['changed', 0],
      `${done.result.reason}\n${done.stderr}`,
    )
    const branch = done.result.branch ?? ''
    assert.equal(git('diff', '--name-only', `${branch}~1`, branch), 'sum.js\n')
    assert.equal(git('status', '--porcelain'), '', 'the user’s own tree is as it was')
    git('worktree', 'add', '-q', `../${name}`, branch)
    assert.match(testsIn(join(root, '..', name)), /pass 1\n/)
    assert.deepEqual([...new Set(model.conversations.map(({ key }) => key))], ['right'])
    assert.ok(!model.requests.some(({ keyInBody }) => keyInBody))
    assertNoToken(done.stdout + done.stderr, KEY, 'what the command printed')
  })

  test(`${name} goes on in the same conversation`, {
    skip: skip || (missing.get(name) ?? false),
  }, async () => {
    const [first] = JSON.parse(await world.ok(['runs', '--json'], { cwd: root })) as { id: string }[]
    model.forget()
    const words = ['send', '--json', first?.id ?? '', '[[fix]] look once more']
    const { result, stderr } = worked(await world.cli(words, { cwd: root, timeoutMs: RUN_MS }))
    assert.ok(
      ['changed', 'unchanged'].includes(result.outcome),
      `${result.outcome} ${result.reason}\n${stderr}`,
    )
    assert.ok(model.conversations.length > 0)
  })
}

test('the control: without a key nothing reaches the model', { skip }, async () => {
  model.forget()
  const { code } = await world.cli(['run', '--bare', '--', 'curl', '-sSm', '5', `https://${GATEWAY}/`], {
    cwd: root,
  })
  assert.notEqual(code, 0)
  assert.deepEqual(model.requests, [])
})

async function run(agent: string, prompt: string): Promise<Worked> {
  const words = [
    'run',
    '--agent',
    agent,
    '--time',
    '3m',
    '--base-url',
    `https://${GATEWAY}`,
    '--json',
    '--',
    prompt,
  ]
  return worked(await world.cli(words, { cwd: root, timeoutMs: RUN_MS }))
}

function git(...args: string[]): string {
  return asUser('git', args, root)
}

function testsIn(cwd: string): string {
  return asUser('node', ['--test'], cwd)
}

/** Without this test's own variables, which a test runner would take for its parent's. */
function asUser(program: string, args: readonly string[], cwd: string): string {
  const { uid, gid, home } = user
  const { PATH = '' } = process.env
  return execFileSync(program, args, { cwd, uid, gid, env: { PATH, HOME: home }, encoding: 'utf8' })
}

/** A wire between this machine and the network namespace of the gateway; it goes with the namespace. */
function connect(gateway: number): void {
  const there = ['nsenter', '-t', String(gateway), '-n', '--', 'ip']
  for (const [program = '', ...words] of [
    ['ip', 'link', 'add', 'agentpod-gw', 'type', 'veth', 'peer', 'name', 'machine', 'netns', String(gateway)],
    ['ip', 'addr', 'add', `${MACHINE}/30`, 'dev', 'agentpod-gw'],
    [...there, 'addr', 'add', `${GATEWAY}/30`, 'dev', 'machine'],
    ['ip', 'link', 'set', 'agentpod-gw', 'up'],
    [...there, 'link', 'set', 'machine', 'up'],
  ])
    execFileSync(program, words)
}
