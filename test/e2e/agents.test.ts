/**
 * Real agents in sandboxes, with a key that stays outside and a scripted model. `test/long/agents.test.ts`
 * has all agents.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, before, describe, test } from 'node:test'
import type { AgentPod } from '../../src/client/client.ts'
import type { Run, RunInfo } from '../../src/client/runs.ts'
import type { Compared } from '../../src/workbench/run/compare-runs.ts'
import { USAGE } from '../model/conversation.ts'
import { bareRun, bodiesOf, saidIn } from '../support/acp-user.ts'
import { brokenProject, noPackages, payingWith, User } from '../support/agent-runs.ts'
import { AgentStage } from '../support/agent-stage.ts'
import { assertNoToken, newToken } from '../support/canary.ts'
import { MACHINE, noInternet, PRIVATE_SITE } from '../support/internet.ts'
import type { CliResult } from '../support/world.ts'

const NAMES = ['claude', 'gemini']
/** What each of them speaks with its model. */
const PROTOCOLS: Readonly<Record<string, string>> = { claude: 'anthropic', gemini: 'gemini' }
const KEY = newToken()
const PROMPT = '[[fix]] fix the failing test'
let skip = noInternet()
if (!skip) skip = (await noPackages(NAMES)) ?? false

describe('Claude Code and Gemini CLI repair a project side by side', { skip }, () => {
  let stage: AgentStage
  let user: User
  let before_: Map<string, string>
  let call: CliResult
  let runs: (RunInfo & { readonly branch: string | null })[]

  before(async () => {
    stage = await AgentStage.open({ keys: [KEY] })
    const project = brokenProject(stage.directory())
    const agents = NAMES.flatMap((name) => ['--agent', name])
    await stage.outside.ok(['build', ...agents], { cwd: project.root, timeoutMs: 300_000 })
    user = new User(await stage.close(), project, payingWith(KEY))
    before_ = user.untouched()
    call = await user.cli(['run', ...agents, '--time', '2m', PROMPT], { timeoutMs: 180_000 })
    runs = (await user.runs()).toReversed()
  })
  after(() => stage[Symbol.asyncDispose]())

  test('RUN-1 two agents each change something, in their own sandboxes', () => {
    assert.equal(call.code, 0, call.stderr + call.stdout)
    assert.deepEqual(
      runs.map(({ agent, number, state, outcome, turn }) => ({ agent, number, state, outcome, turn })),
      NAMES.map((agent) => ({ agent, number: 1, state: 'ended', outcome: 'changed', turn: 1 })),
    )
    assert.equal(new Set(runs.map(({ sandboxId }) => sandboxId)).size, 2)
    assert.equal(new Set(runs.map(({ group }) => group)).size, 1)
    assert.notEqual(runs[0]?.group, null)
    for (const { agent, denials, reason } of runs)
      assert.deepEqual([agent, denials, reason], [agent, 0, null])
  })

  test('RUN-1 each agent has a branch with one commit, on which the tests of the project pass', () => {
    assert.deepEqual(
      user.branches(),
      NAMES.map((name) => `agentpod/fix-fix-the-failing-test-${name}-1`),
    )
    for (const { agent, id, branch } of runs) {
      assert.ok(branch)
      const { project } = user
      assert.equal(project.git('rev-list', '--count', `main..${branch}`), '1')
      assert.deepEqual(user.changed(branch), ['sum.js'])
      const message = project.git('log', '-1', '--format=%B', branch)
      assert.match(message, /^Co-authored-by: [\w ]+ <[\w.+@-]+>$/m)
      assert.match(message, new RegExp(`^AgentPod-Run: ${id}$`, 'm'))
      assert.match(project.git('log', '-1', '--format=%an <%ae>', branch), /^User <user@example\.com>$/)
      assert.match(testsIn(user.checkout(branch)), /pass 1\n/, agent)
    }
    assert.throws(() => testsIn(user.checkout('main')), 'the control: they fail without')
  })

  test('RUN-1 two agents touch nothing in the repository except their branches', () => {
    assert.deepEqual(user.untouched(), before_)
    assert.equal(user.project.git('status', '--porcelain'), '')
  })

  test('RUN-1 the model is asked with the right key, which no sandbox, event or output has', async () => {
    const { requests, conversations } = stage.model
    assert.ok(conversations.length >= 2 * 6, 'the control: it was asked')
    assert.deepEqual([...new Set(conversations.map(({ key }) => key))], ['right'])
    assert.ok(!requests.some(({ keyInBody }) => keyInBody))
    assertNoToken(call.stdout + call.stderr, KEY, 'what was told')
    for (const { agent, sandboxId } of runs) {
      const box = sandboxId ?? ''
      await user.ok(['start', box])
      const scan = (word: string, user_: string): Promise<CliResult> =>
        user.cli(['exec', '--user', user_, box, '--', 'sh', '-c', SCAN, 'sh', word])
      for (const name of ['user', 'root']) {
        const { stdout, code } = await scan(KEY, name)
        assert.deepEqual([code, stdout], [0, 'looked\n'], `${agent}, as ${name}`)
      }
      const placeholders = await scan('agentpod[a-z0-9]\\{40\\}', 'root')
      assert.match(placeholders.stdout, /environ/, 'the control: what stands for it is found')
      await user.ok(['stop', box])
    }
  })

  test('A16: Claude Code makes no call that nobody sees, such as for a title', () => {
    const asked = stage.model.conversations.filter(({ protocol }) => protocol === 'anthropic')
    assert.ok(asked.length >= 6, 'the control: it was asked')
    assert.deepEqual(
      asked.filter(({ tools }) => tools.length === 0).map(({ body }) => body),
      [],
    )
  })

  test('RUN-1 the usage of a run is what the model says it answered', () => {
    for (const { agent, usage } of runs) {
      const asked = stage.model.conversations.filter(({ protocol }) => protocol === PROTOCOLS[agent]).length
      const { input, cached, output, requests, source } = usage
      assert.deepEqual({ agent, source, requests }, { agent, source: 'wire', requests: asked })
      assert.deepEqual(
        { input, cached, output },
        { input: USAGE.input * asked, cached: USAGE.cached * asked, output: USAGE.output * asked },
      )
    }
  })

  test('RUN-24 a program of the workbench library runs an agent and gets a branch', async () => {
    const { stdout, stderr, code } = await user.program('examples/workbench/run-agent.ts', ['claude', PROMPT])
    assert.equal(code, 0, stderr)
    const branch = 'agentpod/fix-fix-the-failing-test-claude-2'
    assert.match(stdout, new RegExp(`changed: ${branch}\\n$`))
    assert.deepEqual(user.changed(branch), ['sum.js'])
    assert.match(testsIn(user.checkout(branch)), /pass 1\n/)
    assertNoToken(stdout + stderr, KEY, 'what was told')
  })

  test('`compare` runs the tests of the project in each run', async () => {
    const compared = JSON.parse(await user.ok(['compare', '--json'])) as Compared[]
    assert.deepEqual(
      compared.map(({ info, tests, changes, gated }) => [
        info.agent,
        tests.state,
        changes.map(({ path }) => path),
        gated,
      ]),
      NAMES.map((agent) => [agent, 'passed', ['sum.js'], 0]),
    )
  })
})

describe('an agent without a model of its own', { skip: noInternet() }, () => {
  let stage: AgentStage
  let pod: AgentPod

  before(async () => {
    stage = await AgentStage.open({ keys: [KEY], sites: ['site.example', 'other.example'] })
    const world = await stage.close()
    const bound = ['--host', 'api.anthropic.com', '--header', 'x-api-key']
    await world.ok(['secret', 'set', 'ANTHROPIC_API_KEY', ...bound], { input: KEY })
    pod = world.client()
  })
  after(() => stage[Symbol.asyncDispose]())

  const asking = (model: string): string => {
    const body = JSON.stringify({ model, messages: [{ role: 'user', content: '[[nothing]]' }] })
    return `sh curl -sS -m 20 -H "x-api-key: $ANTHROPIC_API_KEY" -d '${body}' https://api.anthropic.com/v1/messages`
  }
  const withKey = (prompt: string, costUsd?: number): Promise<Run> =>
    pod.runs.start(
      bareRun(prompt, { secret: 'ANTHROPIC_API_KEY', ...(costUsd !== undefined && { limits: { costUsd } }) }),
    )

  test('RUN-11 a run is stopped when its model calls cost more than its limit, and continues with a higher one', async () => {
    const one = await (await withKey(asking('claude-opus-5-5'))).ended()
    assert.equal(one.info.outcome, 'unchanged', one.info.reason ?? '')
    const cost = one.info.usage.costUsd ?? assert.fail(JSON.stringify(one.info.usage))
    assert.equal(one.info.usage.requests, 1)
    const prompt = `${Array.from({ length: 5 }, () => `${asking('claude-opus-5-5')}\nsleep 400`).join('\n')}\nforever`
    const many = await (await withKey(prompt, cost * 2.5)).ended()
    assert.equal(many.info.outcome, 'over_budget')
    assert.match(many.info.reason ?? '', /\$/)
    assert.equal(many.info.usage.requests, 3, 'as soon as it was known')
    const unraised = { code: 'failed_precondition', reason: 'run.over_budget' }
    await assert.rejects(many.send('say more'), unraised)
    const raised = await many.send(`${asking('claude-opus-5-5')}\nsay more`, {
      limits: { costUsd: cost * 10 },
    })
    const more = await raised.ended()
    assert.deepEqual([more.info.outcome, more.info.usage.requests], ['unchanged', 4], more.info.reason ?? '')
  })

  test('RUN-11 a run with a cost limit is stopped at once when the price of its model is unknown', async () => {
    const run = await (await withKey(`${asking('nobody-knows-this')}\nforever`, 100)).ended()
    assert.equal(run.info.outcome, 'over_budget')
    assert.match(run.info.reason ?? '', /nobody-knows-this/)
    const without = await (await withKey(asking('nobody-knows-this'))).ended()
    assert.deepEqual([without.info.outcome, without.info.usage.costUsd], ['unchanged', null], 'the control')
  })

  test('a run reaches a host that the user allows while it works, and no other', async () => {
    const tries =
      'for n in 1 2 3 4 5 6 7 8 9 10; do curl -sS -m 5 https://site.example/ && break; sleep 0.3; done'
    const run = await pod.runs.start(
      bareRun(
        `sh curl -sS -m 5 https://site.example/ 2>&1\nsleep 500\nsh ${tries}\nsh curl -sS -m 5 https://other.example/ 2>&1`,
      ),
    )
    for await (const { body } of run.follow()) {
      if (body.type !== 'permission.asked' || body.about.subject !== 'site.example:443') continue
      await run.answer(body.permission, 'allow')
      break
    }
    await run.ended()
    const events = await run.events()
    assert.match(saidIn(events), /hello from site\.example/)
    assert.doesNotMatch(saidIn(events), /hello from other\.example/)
    assert.deepEqual(
      [...new Set(bodiesOf(events, 'network.denied').map(({ host }) => host))],
      ['site.example', 'other.example'],
    )
  })

  test('A6: a run reaches a gateway at a private address on the named port, with a key, and nothing else', async () => {
    const bound = { name: 'GATEWAY_KEY', value: newToken(), header: 'x-api-key' }
    await pod.secrets.set({ ...bound, variable: 'GATEWAY_KEY', hosts: [PRIVATE_SITE] })
    const curl = 'curl -sS -m 5 -i -H "x-api-key: $GATEWAY_KEY"'
    const tries = [`https://${PRIVATE_SITE}/`, `http://${PRIVATE_SITE}/`, `https://${MACHINE.private}/`]
    const prompt = tries.map((url) => `sh ${curl} ${url} 2>&1`).join('\n')
    const said = async (named: string[] | undefined): Promise<string> => {
      const network = { secrets: ['GATEWAY_KEY'], ...(named && { addresses: { named } }) }
      const run = await (await pod.runs.start(bareRun(prompt, { network }))).ended()
      return saidIn(await run.events())
    }
    const before_ = stage.internet.network.at(PRIVATE_SITE).length
    assert.doesNotMatch(await said(undefined), /hello from/, 'the control: nothing opens it by itself')
    assert.equal(stage.internet.network.at(PRIVATE_SITE).length, before_)
    const words = await said([`${PRIVATE_SITE}:443`, `${MACHINE.private}:443`])
    assert.equal(words.match(/hello from/g)?.length, 1, words)
    const arrived = stage.internet.network.of('request').filter(({ to }) => to === PRIVATE_SITE)
    assert.deepEqual(
      arrived.map(({ port, headers }) => [port, headers[headers.indexOf('x-api-key') + 1]]),
      [[443, bound.value]],
    )
    assertNoToken(words, bound.value, 'what the agent was told')
    for (const named of ['127.0.0.1:443', '169.254.169.254:80', 'gateway.internal:443'])
      await assert.rejects(
        pod.create({ network: { addresses: { named: [named] } } }),
        { code: 'invalid_argument' },
        named,
      )
  })

  test('a run reaches a host that a rule allows from its second try on', async () => {
    const permissions = { network: [{ pattern: 'site.example', decision: 'allow' as const }] }
    const tries =
      'for n in 1 2 3 4 5 6 7 8 9 10; do curl -sS -m 5 https://site.example/ && break; sleep 0.3; done'
    const run = await (await pod.runs.start(bareRun(`sh ${tries}`, { permissions }))).ended()
    assert.match(saidIn(await run.events()), /hello from site\.example/)
  })
})

/** Not as a part of this test. */
function testsIn(cwd: string): string {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  return execFileSync('node', ['--test'], { cwd, env, stdio: 'pipe' }).toString()
}

/**
 * Files, environments and command lines inside that contain a text; the search would have the text on its own
 * command line.
 */
const SCAN = `
word=$1
printf %s "$word" > /tmp/.word
sleep 60 &
exec 2>/dev/null
find / -xdev -type f -size -20M ! -path '/usr/*' ! -path '/proc/*' ! -path '/sys/*' ! -path /tmp/.word -print0 | xargs -0 -r grep -l -f /tmp/.word
for pid in /proc/[0-9]*; do
  for file in environ cmdline; do
    [ "$pid/$file" = "/proc/$$/cmdline" ] && continue
    tr '\\0' '\\n' < "$pid/$file" | grep -q -f /tmp/.word && echo "$pid/$file"
  done
done
kill $!
rm -f /tmp/.word
echo looked
`
