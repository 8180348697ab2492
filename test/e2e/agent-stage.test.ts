/** The stage that agents are tested on, with curl in the place of an agent. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { homeAt } from '../../src/core/home.ts'
import { USAGE } from '../model/conversation.ts'
import { AgentStage } from '../support/agent-stage.ts'
import { noInternet } from '../support/internet.ts'

const skip = noInternet()
const KEY = 'sk-ant-the-real-one'
const PACKAGE = 'a'.repeat(64)
const RECIPE = {
  base: { name: 'host' as const },
  steps: [{ name: 'agent', title: 'an agent', run: 'mkdir -p /opt/agent && echo built > /opt/agent/file' }],
}

describe('the stage', () => {
  let stage: AgentStage
  let layer: string
  let shared: string

  before(async () => {
    if (skip) return
    shared = mkdtempSync(join(tmpdir(), 'agentpod-packages-'))
    writeFileSync(join(shared, PACKAGE), 'of an earlier run')
    stage = await AgentStage.open({ keys: [KEY], sites: ['site.example'], packages: shared })
    const { outside } = stage
    const { digest } = await outside.client().builds.build(RECIPE)
    assert.ok(digest)
    layer = digest
    await outside.ok(['create', '--name', 'early'])
    await outside.ok(['exec', 'early', '--', 'sh', '-c', 'echo early > "$HOME/file"'])
    await outside.ok(['stop', 'early'])
    const { packageCache } = homeAt(stage.home)
    assert.deepEqual(readdirSync(packageCache), [PACKAGE], 'what earlier runs downloaded is there')
    writeFileSync(join(packageCache, 'b'.repeat(64)), 'of this run')
    writeFileSync(join(packageCache, '.tmp-unfinished'), '')
    await stage.close()
    assert.deepEqual(readdirSync(shared).sort(), [PACKAGE, 'b'.repeat(64)], 'what is whole is kept')
  })
  after(async () => {
    if (skip) return
    try {
      await stage[Symbol.asyncDispose]()
    } finally {
      rmSync(shared, { recursive: true, force: true })
    }
  })

  test('the stage takes layers and stopped sandboxes from the real network to its own', {
    skip,
  }, async () => {
    const { world } = stage
    await world.ok(['start', 'early'])
    assert.equal(await world.ok(['exec', 'early', '--', 'sh', '-c', 'cat "$HOME/file"']), 'early\n')
    const box = await world.client().create({ environment: { digest: layer } })
    assert.equal(await world.ok(['exec', box.id, '--', 'cat', '/opt/agent/file']), 'built\n')
    await world.ok(['destroy', 'early', box.id])
  })

  test('the stage resolves the name of a model service to the scripted model, with the real key', {
    skip,
  }, async () => {
    const { world, model } = stage
    const bound = ['--host', 'api.anthropic.com', '--header', 'x-api-key']
    await world.ok(['secret', 'set', 'ANTHROPIC_API_KEY', ...bound], { input: KEY })
    const reach = ['--allow', 'api.anthropic.com', '--allow', 'site.example']
    await world.ok(['create', '--name', 'box', '--secret', 'ANTHROPIC_API_KEY', ...reach])
    const inside = (script: string): Promise<string> => world.ok(['exec', 'box', '--', 'sh', '-c', script])
    const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: '[[nothing]]' }] })
    const curl = 'curl -sS -m 20 -H "x-api-key: $ANTHROPIC_API_KEY"'

    const answer = await inside(`${curl} -d '${body}' https://api.anthropic.com/v1/messages`)
    assert.match(answer, /There is nothing to do here/)
    assert.equal((JSON.parse(answer) as { usage: { input_tokens: number } }).usage.input_tokens, USAGE.input)
    assert.deepEqual(
      model.conversations.map(({ key, scenario }) => [key, scenario]),
      [['right', 'nothing']],
    )
    assert.match(await inside('printenv ANTHROPIC_API_KEY'), /^agentpod\w{40}\n$/)

    model.forget()
    await inside('curl -sS -m 20 -d "{}" https://api.anthropic.com/v1/messages')
    assert.deepEqual(
      model.conversations.map(({ key, answer }) => [key, answer]),
      [['missing', '401']],
    )
    assert.match(await inside('curl -sS -m 20 https://site.example/'), /^hello from site\.example/)
    await world.ok(['destroy', 'box'])
  })
})
