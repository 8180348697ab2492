/** An agent in the middle of its work, with a secret, continues in copies with memory and in the original. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { brokenProject, noPackages, payingWith, User } from '../support/agent-runs.ts'
import { AgentStage } from '../support/agent-stage.ts'
import { newToken } from '../support/canary.ts'
import { NO_GVISOR, RUNSC } from '../support/gvisor.ts'
import { noInternet } from '../support/internet.ts'
import { until } from '../support/world.ts'

const KEY = newToken()
const PROMPT = '[[fix]] fix the failing test'
const COPIES = 4
const WORK_MS = 180_000
let skip: string | false = NO_GVISOR ?? noInternet()
if (!skip) skip = (await noPackages(['claude'])) ?? false

describe('an agent in the middle of its work, on gVisor', { skip }, () => {
  let stage: AgentStage
  let user: User

  before(async () => {
    stage = await AgentStage.open({ keys: [KEY], env: { AGENTPOD_RUNSC: RUNSC } })
    writeFileSync(join(stage.home, 'config.toml'), 'isolation = "gvisor"\n')
    const project = brokenProject(stage.directory())
    await stage.outside.ok(['build', '--agent', 'claude'], { cwd: project.root, timeoutMs: 600_000 })
    user = new User(await stage.close(), project, payingWith(KEY))
  })
  after(() => stage?.[Symbol.asyncDispose]())

  test('STATE-14 RUN-1 four copies with memory and the original each repair the project, with one secret', async () => {
    const { model, world } = stage
    const pod = world.client()
    const run = user.cli(['run', '--agent', 'claude', '--time', '3m', PROMPT], { timeoutMs: WORK_MS })
    // The agent has listed the files, and nothing is repaired yet.
    const ended_ = run.then(({ stderr, stdout }) => assert.fail(`the run has ended: ${stderr}\n${stdout}`))
    await Promise.race([
      ended_,
      until('the agent is at work', () => model.conversations.length >= 2, WORK_MS),
    ])
    ended_.catch(() => undefined)
    const [info] = await user.runs()
    const original = await pod.get(info?.sandboxId ?? '')
    assert.equal(original.info.isolation, 'gvisor')
    const copies = await original.fork({ count: COPIES, name: 'agent', memory: true })
    const askedBefore = model.conversations.length

    const { code, stderr } = await run
    assert.equal(code, 0, stderr)
    const [ended] = await user.runs()
    assert.equal(ended?.outcome, 'changed')
    assert.deepEqual(user.changed(ended?.branch ?? ''), ['sum.js'])

    const repaired = async (box: Sandbox): Promise<boolean> => {
      const script = 'grep -l "a + b" "$(find / -name sum.js -not -path "/proc/*" 2>/dev/null | head -n 1)"'
      return (await box.exec('sh', { args: ['-c', script], user: 'root' }).wait()).exitCode === 0
    }
    for (const copy of copies) await until(`${copy.id} has repaired it`, () => repaired(copy), WORK_MS)
    // The placeholder of the original works in each copy, and the value reaches none.
    assert.ok(model.conversations.length >= askedBefore + COPIES, 'copies ask too')
    assert.deepEqual([...new Set(model.conversations.map(({ key }) => key))], ['right'])
    for (const copy of copies) {
      const { stdout } = await copy
        .exec('sh', { args: ['-c', 'cat /proc/*/environ | tr "\\0" "\\n"'], user: 'root' })
        .wait()
      assert.ok(!stdout.includes(KEY))
      assert.match(stdout, /agentpod[a-z0-9]{40}/, 'the control: the placeholder is there')
      await copy.destroy()
    }
    pod.close()
  })
})
