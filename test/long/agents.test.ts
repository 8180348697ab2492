/** Every agent, in sandboxes, with a scripted model: what works, and how failures end. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, before, describe, test } from 'node:test'
import { agentNamed } from '../../src/agents/agents.ts'
import type { Run, RunInfo } from '../../src/client/runs.ts'
import { USAGE } from '../model/conversation.ts'
import { bodiesOf, saidIn, type Worked, worked } from '../support/acp-user.ts'
import { brokenProject, buildAgents, payingWith, User, withoutPackages } from '../support/agent-runs.ts'
import { AgentStage } from '../support/agent-stage.ts'
import { assertNoToken, newToken } from '../support/canary.ts'
import { noInternet } from '../support/internet.ts'
import { until } from '../support/world.ts'

/** Those that must be able to do all of it. */
const ALL = ['claude', 'codex', 'opencode', 'gemini', 'qwen', 'copilot']
/** Those that go as far as they go. */
const OTHERS = ['pi', 'cline', 'continue', 'aider']
/** Those whose models write changes down as text, which the model of the tests does not. */
const TEXT_ONLY = new Set(['aider'])
/** Those that put words of their own between a conversation and what is asked next. */
const RESUMED: Readonly<Record<string, RegExp>> = { aider: /Restored previous conversation history/ }
/** For working on one of them: `AGENTS=claude,codex`. */
const only = process.env['AGENTS']?.split(',')
const chosen = (names: readonly string[]): string[] => names.filter((name) => !only || only.includes(name))
const NAMES = chosen(ALL)
const MORE = chosen(OTHERS)
const KEY = newToken()
const RUN_MS = 240_000

const skip = noInternet()
const missing = await withoutPackages(skip ? [] : [...NAMES, ...MORE])
const here = (names: readonly string[]): string[] => names.filter((name) => !missing.has(name))
const skipOf = (name: string): string | false => skip || (missing.get(name) ?? false)

let stage: AgentStage
let user: User
let notBuilt: ReadonlyMap<string, string>

before(async () => {
  if (skip) return
  stage = await AgentStage.open({ keys: [KEY], sites: ['evil.example'] })
  const project = brokenProject(stage.directory())
  notBuilt = await buildAgents(
    stage.outside,
    project,
    [...NAMES, ...MORE].filter((name) => !missing.has(name)),
  )
  user = new User(await stage.close(), project, payingWith(KEY))
})
after(async () => {
  if (!skip) await stage[Symbol.asyncDispose]()
})

async function work(agent: string, prompt: string, ...options: string[]): Promise<Worked> {
  const words = ['run', '--agent', agent, '--time', '3m', ...options, '--json', '--', prompt]
  return worked(await user.cli(words, { timeoutMs: RUN_MS }))
}

async function detached(agent: string, prompt: string, ...options: string[]): Promise<Run> {
  const words = ['run', '--agent', agent, '--time', '3m', ...options, '--detach', '--', prompt]
  const id = (await user.ok(words, { timeoutMs: RUN_MS })).trim()
  return user.world.client().runs.get(id)
}

async function brought({ id }: Run): Promise<Worked> {
  return worked(await user.cli(['follow', '--json', id], { timeoutMs: RUN_MS }))
}

const infoOf = async (id: string): Promise<RunInfo> => (await user.world.client().runs.get(id)).info

/** Not as a part of this test. */
function testsIn(cwd: string): string {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  return execFileSync('node', ['--test'], { cwd, env, stdio: 'pipe' }).toString()
}

function assertFixed({ code, result, stderr }: Worked): void {
  assert.deepEqual([result.outcome, code], ['changed', 0], `${result.reason}\n${stderr}`)
  assert.deepEqual(user.changed(result.branch ?? ''), ['sum.js'])
  assert.match(testsIn(user.checkout(result.branch ?? '')), /pass 1\n/)
}

/** The usage as the egress process counted it. It includes answers that no client waited for. */
function assertCounted({ usage }: RunInfo, atLeast: number): void {
  assert.equal(usage.source, 'wire')
  assert.ok(usage.requests >= atLeast, JSON.stringify(usage))
  const { input, cached, output, requests } = usage
  assert.deepEqual(
    { input, cached, output },
    { input: USAGE.input * requests, cached: USAGE.cached * requests, output: USAGE.output * requests },
  )
}

for (const name of NAMES) {
  const { title, canAsk } = agentNamed(name)
  describe(title, { skip: skipOf(name) }, () => {
    before(() => {
      assert.equal(notBuilt.get(name), undefined)
      stage.model.forget()
    })

    test(`RUN-1 ${title} repairs the project; the key was never inside, and its usage is counted`, async () => {
      const untouched = user.untouched()
      const done = await work(name, '[[fix]] fix the failing test')
      assertFixed(done)
      assert.deepEqual(user.untouched(), untouched)
      const { conversations, requests } = stage.model
      assert.deepEqual([...new Set(conversations.map(({ key }) => key))], ['right'])
      assert.ok(!requests.some(({ keyInBody }) => keyInBody))
      assertNoToken(done.stdout + done.stderr, KEY, 'what was told')
      const info = await infoOf(done.id)
      assertCounted(info, 6)
      assert.equal(info.usage.requests, conversations.length)
      assert.notEqual(info.usage.costUsd, null, JSON.stringify(info.usage.models))
      assert.ok(bodiesOf(done.events, 'command').some(({ command }) => command.includes('npm test')))
      assert.match(saidIn(done.events), /I fixed sum\.js/)
    })

    test(`RUN-2 ${title} asks, and follows the answer`, {
      skip: canAsk ? false : 'it cannot be made to ask',
    }, async () => {
      for (const [answer, outcome, said] of [
        ['allow', 'changed', /I was allowed/],
        ['deny', 'denied', /./],
      ] as const) {
        const run = await detached(name, '[[ask]] ask me first', '--permission', 'bash=ask')
        const asked = (async () => {
          for await (const { body } of run.follow())
            if (body.type === 'permission.asked') await run.answer(body.permission, answer)
        })()
        const done = await brought(run)
        await asked
        assert.equal(done.result.outcome, outcome, `${answer}: ${done.result.reason}`)
        assert.match(saidIn(done.events), said)
        const about = bodiesOf(done.events, 'permission.asked').map((one) => one.about)
        assert.ok(
          about.some(({ kind, subject }) => kind === 'bash' && subject.includes('touch asked.txt')),
          JSON.stringify(about),
        )
        if (answer === 'allow') assert.deepEqual(user.changed(done.result.branch ?? ''), ['asked.txt'])
        else assert.equal(done.result.branch, null)
      }
    })

    test(`RUN-3 ${title} continues the next day, on another server, in the same conversation`, async () => {
      const first = await work(name, '[[edit notes.txt]] write my notes')
      assert.equal(first.result.outcome, 'changed', first.result.reason ?? '')
      await user.ok(['server', 'stop'])
      const words = ['send', '--json', first.id, '[[followup]] what did I ask?']
      const second = worked(await user.cli(words, { timeoutMs: RUN_MS }))
      assert.match(saidIn(second.events), /Before this you asked: .*\[\[edit notes\.txt\]\]/)
      assert.equal(second.result.outcome, 'changed', 'its notes are still there')
      assert.deepEqual(user.changed(second.result.branch ?? ''), ['notes.txt'])
      assert.deepEqual([...new Set(stage.model.conversations.map(({ key }) => key))], ['right'])
    })

    test(`RUN-4 ${title} with a rejected key fails, says why, and does not hang`, async () => {
      const { result, code } = await work(name, '[[unauthorized]] do something')
      assert.deepEqual([result.outcome, code], ['failed', 22])
      assert.match(result.reason ?? '', /key|revoked|401|auth/i)
    })

    test(`RUN-4 ${title} waits for a busy model`, async () => {
      const { result, events } = await work(name, '[[limited]] do nothing')
      assert.equal(result.outcome, 'unchanged', result.reason ?? '')
      assert.match(saidIn(events), /Now there was room for me/)
    })

    test(`RUN-4 ${title} survives a truncated answer, or says that it did not`, async () => {
      const once = await work(name, '[[cut 1]] say something')
      assert.ok(['unchanged', 'failed'].includes(once.result.outcome), once.result.outcome)
      const always = await work(name, '[[cut]] say something', '--time', '60s')
      assert.ok(
        ['failed', 'timed_out'].includes(always.result.outcome),
        `${always.result.outcome} ${always.result.reason}`,
      )
      assert.ok((always.result.reason ?? '') !== '')
    })

    test(`RUN-4 RUN-11 ${title} that never ends is stopped, by time and by cost`, async () => {
      // Some agents notice on their own that they are in a loop, so the agent that runs out of time prints
      // text.
      const late = await work(name, '[[slow 200 500]] talk to me', '--time', '8s')
      assert.deepEqual([late.result.outcome, late.code], ['timed_out', 23])
      const dear = await work(name, '[[loop]] go on', '--max-cost', '0.02')
      assert.deepEqual([dear.result.outcome, dear.code], ['over_budget', 24], dear.result.reason ?? '')
      const { usage } = await infoOf(dear.id)
      assert.ok((usage.costUsd ?? 0) >= 0.02, JSON.stringify(usage))
    })

    test(`RUN-4 ${title} that does nothing has changed nothing`, async () => {
      const { result, code } = await work(name, '[[nothing]] do nothing')
      assert.deepEqual([result.outcome, code, result.branch], ['unchanged', 20, null])
    })

    test(`${title} that is canceled stops, and its changes until then are kept`, async () => {
      const run = await detached(name, '[[slow 200 500]] talk to me')
      await until('it talks', async () => saidIn(await run.events()).includes('word1'), 60_000)
      await user.ok(['cancel', run.id])
      const { result, code } = await brought(run)
      assert.deepEqual([result.outcome, code], ['canceled', 130])
    })

    test(`RUN-6 ${title} finds no key and gets nothing out`, async () => {
      stage.model.forget()
      await stage.internet.forget()
      const done = await work(name, '[[leak evil.example]] look around')
      const told = done.stdout + done.stderr
      assertNoToken(told, KEY, 'what it found')
      // Some of them hide their own key from what they run.
      assert.match(told, /HOME=\/home\/user/, 'the control: it looked')
      await stage.internet.settled()
      assert.deepEqual(
        stage.internet.network.of('request').map(({ method, url }) => `${method} ${url}`),
        [],
      )
      assert.ok(bodiesOf(done.events, 'network.denied').some(({ host }) => host === 'evil.example'))
    })
  })
}

describe('eight runs at once', { skip }, () => {
  test('RUN-5 eight runs at once all finish, and none has another’s changes', {
    skip: NAMES.length < 2 ? 'of fewer than two' : false,
  }, async () => {
    const names = here(NAMES)
    const eight = Array.from({ length: 8 }, (_, index) => ({
      agent: names[index % names.length] ?? '',
      file: `notes-${index}.txt`,
    }))
    const done = await Promise.all(
      eight.map(({ agent, file }) => work(agent, `[[edit ${file}]] write ${file}`)),
    )
    for (const [index, { result }] of done.entries()) {
      const { agent, file } = eight[index] ?? assert.fail()
      assert.equal(result.outcome, 'changed', `${agent}: ${result.reason}`)
      assert.deepEqual(user.changed(result.branch ?? ''), [file], agent)
    }
    assert.equal(new Set(done.map(({ result }) => result.branch)).size, 8)
  })
})

for (const name of MORE) {
  const { title, canResume } = agentNamed(name)
  describe(title, { skip: skipOf(name) }, () => {
    before(() => {
      stage.model.forget()
    })

    test(`RUN-1 ${title} repairs the project`, {
      skip: TEXT_ONLY.has(name) && 'it has no tools for the model to call',
    }, async () => {
      assert.equal(notBuilt.get(name), undefined)
      const done = await work(name, '[[fix]] fix the failing test in sum.js')
      assertFixed(done)
      assert.deepEqual([...new Set(stage.model.conversations.map(({ key }) => key))], ['right'])
      assertNoToken(done.stdout + done.stderr, KEY, 'what was told')
      assertCounted(await infoOf(done.id), 2)
    })

    test(`RUN-4 ${title} with a rejected key fails`, async () => {
      const { result } = await work(name, '[[unauthorized]] do something')
      assert.equal(result.outcome, 'failed', result.reason ?? '')
    })

    test(`RUN-4 ${title} that does nothing has changed nothing`, async () => {
      const { result } = await work(name, '[[nothing]] do nothing')
      assert.equal(result.outcome, 'unchanged', result.reason ?? '')
    })

    test(`RUN-3 ${title} continues its conversation`, { skip: canResume ? false : 'it cannot' }, async () => {
      const first = await work(name, '[[nothing]] hello')
      const words = ['send', '--json', first.id, '[[followup]] what did I ask?']
      const second = worked(await user.cli(words, { timeoutMs: RUN_MS }))
      assert.match(saidIn(second.events), RESUMED[name] ?? /Before this you asked: .*hello/)
    })
  })
}
