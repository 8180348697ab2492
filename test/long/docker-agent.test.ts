/** A real agent in a container of a Docker daemon, against a model whose answers are written down. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, before, test } from 'node:test'
import { bodiesOf, saidIn, worked } from '../support/acp-user.ts'
import { brokenProject, buildAgents, payingWith, User, withoutPackages } from '../support/agent-runs.ts'
import { AgentStage } from '../support/agent-stage.ts'
import { assertNoToken, newToken } from '../support/canary.ts'
import { DockerDaemon, NO_DOCKER } from '../support/docker-daemon.ts'
import { noInternet } from '../support/internet.ts'

const AGENT = 'claude'
const KEY = newToken()
const RUN_MS = 240_000

const missing = await withoutPackages(NO_DOCKER || noInternet() ? [] : [AGENT])
const skip = NO_DOCKER || noInternet() || (missing.get(AGENT) ?? false)

let daemon: DockerDaemon
let stage: AgentStage
let user: User

before(async () => {
  if (skip) return
  daemon = await DockerDaemon.start()
  const { DOCKER_HOST = '' } = daemon.env
  stage = await AgentStage.open({ keys: [KEY], env: { DOCKER_HOST, AGENTPOD_PROVIDER: 'docker' } })
  const project = brokenProject(stage.directory())
  const notBuilt = await buildAgents(stage.outside, project, [AGENT])
  assert.equal(notBuilt.get(AGENT), undefined)
  // What the project itself needs is built while the registries can be reached.
  await stage.outside.ok(['build'], { cwd: project.root, timeoutMs: 600_000 })
  user = new User(await stage.close(), project, payingWith(KEY))
})
after(async () => {
  if (skip) return
  try {
    await stage[Symbol.asyncDispose]()
  } finally {
    await daemon[Symbol.asyncDispose]()
  }
})

test('PROV-5 an agent repairs the project on Docker; the key was never inside, and its usage is counted', {
  skip,
}, async () => {
  const untouched = user.untouched()
  const words = ['run', '--agent', AGENT, '--time', '3m', '--json', '--', '[[fix]] fix the failing test']
  const done = worked(await user.cli(words, { timeoutMs: RUN_MS }))
  assert.deepEqual([done.result.outcome, done.code], ['changed', 0], `${done.result.reason}\n${done.stderr}`)
  assert.deepEqual(user.changed(done.result.branch ?? ''), ['sum.js'])
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const cwd = user.checkout(done.result.branch ?? '')
  assert.match(execFileSync('node', ['--test'], { cwd, env, stdio: 'pipe' }).toString(), /pass 1\n/)
  assert.deepEqual(user.untouched(), untouched)
  const { conversations, requests } = stage.model
  assert.deepEqual([...new Set(conversations.map(({ key }) => key))], ['right'])
  assert.ok(!requests.some(({ keyInBody }) => keyInBody))
  assertNoToken(done.stdout + done.stderr, KEY, 'what was told')
  const { info } = await user.world.client().runs.get(done.id)
  assert.equal(info.usage.source, 'wire')
  assert.equal(info.usage.requests, conversations.length)
  assert.ok(bodiesOf(done.events, 'command').some(({ command }) => command.includes('npm test')))
  assert.match(saidIn(done.events), /I fixed sum\.js/)
  const [sandbox] = await user.world.client().list()
  assert.equal(sandbox?.provider, 'docker', 'it is kept for follow-ups, stopped')
})

test('PROV-5 an agent on Docker continues the same conversation after the server was stopped', {
  skip,
}, async () => {
  const [first] = await user.runs()
  assert.ok(first)
  await user.ok(['server', 'stop'])
  const words = ['send', '--json', first.id, '[[followup]] what did I ask?']
  const second = worked(await user.cli(words, { timeoutMs: RUN_MS }))
  assert.match(saidIn(second.events), /Before this you asked: .*\[\[fix\]\]/)
})
