import assert from 'node:assert/strict'
import { test } from 'node:test'
import { agentNamed } from '../agents/agents.ts'
import { isAgentPodError } from '../core/error.ts'
import { checkRequest, type NewRun } from './check-request.ts'

const server = (name: string): NewRun['mcpServers'][number] => ({ name, command: 'x', args: [], env: {} })

function asked(agent: string, pattern: string, servers: readonly string[]): string | undefined {
  const request: NewRun = {
    agent,
    prompt: 'do it',
    number: 1,
    files: [],
    command: ['x'],
    credential: agentNamed(agent).credentials[0]?.variable,
    mcpServers: servers.map(server),
    permissions: { bash: [], write: [], mcp: [{ pattern, decision: 'deny' }], network: [] },
    limits: { timeMs: 1000, answerMs: 1000 },
    keepMs: 0,
  }
  try {
    checkRequest(agentNamed(agent), request)
    return undefined
  } catch (error) {
    return isAgentPodError(error, 'invalid_argument') ? error.reason : String(error)
  }
}

test('RUN-23 a rule about one server is accepted only where it can be enforced', () => {
  const cases: readonly (readonly [string, string, string[], string | undefined])[] = [
    ['claude', 'notes/*', ['notes'], undefined],
    ['claude', 'notes/*', ['notes', 'notes2', 'other'], undefined],
    ['claude', 'notes/*', ['notes', 'notes_old'], 'run.mcp'],
    ['claude', 'notes/*', ['notes-old', 'notes'], 'run.mcp'],
    ['claude', '*', ['notes', 'notes_old'], undefined],
    ['acp', '*', ['notes'], undefined],
    ['acp', 'notes/*', ['notes'], 'run.permissions'],
    ['continue', '*', ['notes'], 'run.permissions'],
  ]
  for (const [agent, pattern, servers, expected] of cases)
    assert.equal(asked(agent, pattern, servers), expected, `${agent} ${pattern} ${servers}`)
})
