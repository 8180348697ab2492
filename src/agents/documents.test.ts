// Documents that list every agent agree with the catalog.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { AGENTS, agentNamed } from './agents.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const NAMES = AGENTS.map(({ name }) => name)

/** The rows of the table whose first heading is `agent`, without the headings. */
function tableIn(path: string): string[][] {
  const lines = readFileSync(join(ROOT, path), 'utf8').split('\n')
  const start = lines.findIndex((line) => line.startsWith('| agent |'))
  assert.ok(start >= 0, `${path} has a table of agents`)
  const rest = lines.slice(start + 2)
  return rest
    .slice(
      0,
      rest.findIndex((line) => !line.startsWith('|')),
    )
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )
}

test('src/agents/README.md has a row for every agent', () => {
  assert.deepEqual(
    tableIn('src/agents/README.md').map(([name]) => name),
    NAMES,
  )
})

test('docs/guides/agents.md says of every agent its version, its keys and what it can do', () => {
  const rows = tableIn('docs/guides/agents.md')
  assert.deepEqual(
    rows.map(([first = '']) => /^`([^`]+)`/.exec(first)?.[1]),
    NAMES,
  )
  for (const [first = '', installed = '', pays = '', asks = '', resumes = '', mcp = ''] of rows) {
    const agent = agentNamed(/^`([^`]+)`/.exec(first)?.[1] ?? '')
    const { install, name } = agent
    if (install.kind !== 'none') {
      const version = /[@=](\d[^@=]*)$/.exec(install.packages[0] ?? '')?.[1] ?? ''
      assert.ok(installed.startsWith(`${install.kind}, `) && installed.includes(version), name)
    }
    for (const { variable, signIn } of agent.credentials)
      assert.ok(signIn || pays.includes(`\`${variable}\``), `${name}: ${variable}`)
    assert.equal(asks.startsWith('yes'), agent.canAsk, name)
    assert.equal(resumes !== 'no', agent.canResume, name)
    assert.equal(mcp, agent.takesMcp ? 'yes' : 'no', name)
  }
})
