import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Agent } from '../agent.ts'
import { agentNamed } from '../agents.ts'
import type { Assignment } from '../assignment.ts'

function begun(agent: Agent): unknown {
  return agent.driver.begin({ workspace: '/home/user/w', command: [] } as unknown as Assignment).state
}

test('lines of a custom command are messages, and its exit code decides', () => {
  const { driver } = agentNamed('custom')
  const state = begun(agentNamed('custom'))
  assert.deepEqual(driver.line(state, '{"a":1}').events, [
    { type: 'message', from: 'agent', message: 'm1', text: '{"a":1}\n' },
  ])
  assert.deepEqual(driver.exit(state, 0).end, { how: 'done', message: undefined })
  assert.deepEqual(driver.exit(state, 3).end, { how: 'failed', message: 'it exited with code 3' })
  assert.deepEqual(driver.exit(driver.cancel(state).state, 143).end, { how: 'canceled', message: undefined })
})

test('pi fails if its model fails, even with exit code 0, but not if a retry succeeds', () => {
  const { driver } = agentNamed('pi')
  const message = (stopReason: string, errorMessage?: string): string =>
    JSON.stringify({ type: 'message_end', message: { role: 'assistant', stopReason, errorMessage } })
  const failed = driver.line(begun(agentNamed('pi')), message('error', '401 no')).state
  assert.deepEqual(driver.exit(failed, 0).end, { how: 'failed', message: '401 no' })
  const again = driver.line(failed, message('stop')).state
  assert.equal(driver.exit(again, 0).end?.how, 'done')
})

test('aider fails if its model fails, even with exit code 0', () => {
  const { driver } = agentNamed('aider')
  const failed = driver.line(begun(agentNamed('aider')), 'litellm.AuthenticationError: no').state
  assert.deepEqual(driver.exit(failed, 0).end, { how: 'failed', message: 'litellm.AuthenticationError: no' })
  const again = driver.line(failed, 'Tokens: 1.5k sent, 20 received.').state
  assert.equal(driver.exit(again, 0).end?.how, 'done')
})

test('continue fails if it reports an error', () => {
  const { driver } = agentNamed('continue')
  const step = driver.line(begun(agentNamed('continue')), '{"status":"error","message":"no key"}')
  assert.deepEqual(driver.exit(step.state, 0).end, { how: 'failed', message: 'no key' })
})

test('SECURITY: hostile lines never throw in line drivers, and states stay small', () => {
  const values = [null, 1, 'x'.repeat(100_000), [], {}, [[]], { a: { b: [] } }]
  const types = [
    'session',
    'message_update',
    'message_end',
    'tool_execution_start',
    'tool_execution_end',
    'toString',
  ]
  const fields = [
    'id',
    'cwd',
    'message',
    'assistantMessageEvent',
    'toolCallId',
    'toolName',
    'args',
    'result',
    'response',
  ]
  for (const name of ['pi', 'continue', 'aider', 'custom']) {
    const { driver } = agentNamed(name)
    let state = begun(agentNamed(name))
    const take = (line: string): void => {
      const step = driver.line(state, line)
      state = JSON.parse(JSON.stringify(step.state)) as unknown
      for (const event of step.events) assert.ok(JSON.stringify(event).length < 150_000)
    }
    for (const type of types)
      for (const field of fields)
        for (const value of values) take(JSON.stringify({ type, toolCallId: 'x', [field]: value }))
    for (let number = 0; number < 200; number++)
      take(
        JSON.stringify({
          type: 'tool_execution_start',
          toolCallId: `c${number}`,
          args: { path: 'p'.repeat(9000) },
        }),
      )
    for (const line of [
      '',
      '{',
      '\u0000',
      '{"type":"message_end","message":{"usage":{"input":-5,"cost":{"total":1e400}}}}',
    ])
      take(line)
    assert.ok(JSON.stringify(state).length < 512 * 1024, name)
    assert.ok(driver.exit(state, 0).end)
  }
})
