import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import type { PermissionAbout } from '../../../core/run.ts'
import { objectAt, stringAt } from '../../../util/untrusted-json.ts'
import { AGENTS, agentNamed } from '../../agents.ts'
import type { Assignment, McpServer } from '../../assignment.ts'
import { readLine } from './json.ts'
import { prefixedToolName, splitToolName } from './mcp-name.ts'

const SERVERS = ['notes', 'notes_old', 'my-notes', 'a__b', 'context7', 'mcp_x']
const SESSION = 'session-1'
const OPENED = {
  sessionId: SESSION,
  modes: { currentModeId: 'other', availableModes: [{ id: 'default' }, { id: 'read-only' }] },
}
const OPTIONS = [
  { optionId: 'yes', name: 'Yes', kind: 'allow_once' },
  { optionId: 'no', name: 'No', kind: 'reject_once' },
]

function assignmentFor(name: string, asks: boolean): Assignment {
  const [credential] = agentNamed(name).credentials
  assert.ok(credential)
  const mcpServers = SERVERS.map((server): McpServer => ({ name: server, command: 'x', args: [], env: {} }))
  return {
    directory: '/var/lib/agentpod-x',
    home: '/home/user',
    workspace: '/home/user/w',
    model: undefined,
    credential,
    baseUrl: credential.baseUrl,
    mcpServers,
    asks,
    session: undefined,
    prompt: 'do it',
    command: [],
  }
}

/** What a question is held to be about, after the calls that were told before it. */
function aboutIn(name: string, calls: readonly unknown[], toolCall: unknown): PermissionAbout | undefined {
  const { driver } = agentNamed(name)
  let step = driver.begin(assignmentFor(name, true))
  const told = (message: object): void => {
    step = driver.line(step.state, JSON.stringify({ jsonrpc: '2.0', ...message }))
  }
  for (;;) {
    const sent = readLine(step.send.at(-1) ?? '')
    assert.ok(sent, JSON.stringify(step.end))
    const method = stringAt(sent, 'method')
    if (method === 'session/prompt') break
    told({ id: objectAt({ sent }, 'sent')['id'], result: method === 'session/new' ? OPENED : {} })
  }
  for (const update of calls) told({ method: 'session/update', params: { sessionId: SESSION, update } })
  const params = { sessionId: SESSION, toolCall, options: OPTIONS }
  told({ id: 'q', method: 'session/request_permission', params })
  return step.questions[0]?.about
}

const begun = (call: object): object => ({ sessionUpdate: 'tool_call', status: 'pending', ...call })
const meta = (claudeCode: object): object => ({
  toolCallId: 'c',
  kind: 'other',
  title: 'x',
  _meta: { claudeCode },
})
const named = (toolCallId: string): object => ({ toolCallId, kind: 'other', title: '{"text":"x"}' })
const qwen = (toolName: string, kind = 'other'): object => ({
  toolCallId: 'c',
  kind,
  title: 'x',
  _meta: { toolName },
})
const titled = (title: string, kind = 'other'): object => ({ toolCallId: 'c', kind, title })

/** An agent, what its question says, what its call said before, and what it is about. */
const QUESTIONS: readonly (readonly [string, object, readonly object[], string])[] = [
  ['claude', meta({ toolName: 'mcp__notes__remember' }), [], 'mcp notes/remember'],
  ['claude', meta({ toolName: 'mcp__a__b__c' }), [], 'mcp a__b/c'],
  ['claude', meta({ toolName: 'mcp__own__b__c' }), [], 'mcp own/b__c'],
  ['claude', meta({ toolName: 'mcp__o__n__c', mcpServer: { name: 'o__n' } }), [], 'mcp o__n/c'],
  ['qwen', qwen('mcp__notes__remember'), [], 'mcp notes/remember'],
  ['qwen', qwen('mcp__a__b__c', 'read'), [], 'mcp a__b/c'],
  // What comes after the name is the model's service's, and may be missing.
  ['gemini', named('mcp_notes_remember__call_1'), [], 'mcp notes/remember'],
  ['gemini', named('mcp_notes_remember__f81d4fae'), [], 'mcp notes/remember'],
  ['gemini', named('mcp_notes_remember-1763294400000-1'), [], 'mcp notes/remember'],
  ['gemini', named('mcp_notes_old_remember__f81d4fae'), [], 'mcp notes_old/remember'],
  ['gemini', named('mcp_my-notes_get__all__f81d4fae'), [], 'mcp my-notes/get__all'],
  ['gemini', named('mcp_x_remember__f81d4fae'), [], 'mcp mcp_x/remember'],
  ['gemini', named('mcp_own_remember__f81d4fae'), [], 'mcp own/remember'],
  ['opencode', titled('notes_remember'), [], 'mcp notes/remember'],
  ['opencode', titled('notes_old_remember'), [], 'mcp notes_old/remember'],
  ['opencode', titled('context7_get_library_docs', 'search'), [], 'mcp context7/get_library_docs'],
  ['cline', titled('notes__remember: {"text":"x"}'), [], 'mcp notes/remember'],
  ['copilot', titled('remember'), [begun(titled('notes-remember'))], 'mcp notes/remember'],
  ['copilot', titled('Look around'), [begun(titled('my-notes-look'))], 'mcp my-notes/look'],
  [
    'codex',
    { toolCallId: 'c', kind: 'execute', status: 'pending' },
    [begun({ toolCallId: 'c', kind: 'execute', rawInput: { server: 'notes', tool: 'remember' } })],
    'mcp notes/remember',
  ],
  [
    'codex',
    {
      toolCallId: 'elicitation:1',
      kind: 'execute',
      title: 'MCP tool call approval',
      rawInput: { serverName: 'notes', description: 'Allow the notes MCP server to run tool "remember"?' },
    },
    [],
    'mcp notes/remember',
  ],
  // A command that begins like a tool is a command.
  ['opencode', { ...titled('notes_x', 'execute'), rawInput: { command: 'notes_x' } }, [], 'bash notes_x'],
  ['copilot', { ...titled('notes-x', 'execute'), rawInput: { command: 'notes-x' } }, [], 'bash notes-x'],
]

for (const [agent, question, calls, about] of QUESTIONS)
  test(`RUN-23 a question of ${agent} is about ${about}: ${JSON.stringify(question).slice(0, 90)}`, () => {
    const found = aboutIn(agent, calls, question)
    assert.equal(`${found?.kind} ${found?.subject}`, about)
  })

test('a joined tool name is split after the longest matching server', () => {
  for (const [name, mark, found] of [
    ['notes_remember', '_', 'notes/remember'],
    ['notes_old_remember', '_', 'notes_old/remember'],
    ['note_remember', '_', undefined],
    ['notes', '_', undefined],
  ] as const)
    assert.equal(splitToolName(name, mark, SERVERS), found)
  for (const name of [undefined, '', 'bash', 'mcp__', 'mcp__notes', 'xmcp__notes__y'])
    assert.equal(prefixedToolName(name, SERVERS), undefined)
})

test('every agent that can ask tells tools of MCP servers from its own', () => {
  const asking = AGENTS.filter(
    ({ takesMcp, canAsk, install }) => takesMcp && canAsk && install.kind !== 'none',
  )
  const tried = new Set(QUESTIONS.map(([agent]) => agent))
  assert.deepEqual(
    asking.map(({ name }) => name).filter((name) => !tried.has(name)),
    [],
  )
})

test('a project that is trusted for its MCP servers cannot set permissions', () => {
  const asking = agentNamed('qwen').launch(assignmentFor('qwen', true))
  const free = agentNamed('qwen').launch(assignmentFor('qwen', false))
  assert.ok(asking.command.includes('--allowed-mcp-server-names'))
  assert.ok(!free.command.includes('--allowed-mcp-server-names'))
  const file = asking.variables['QWEN_CODE_SYSTEM_SETTINGS_PATH']?.replace('/home/user/', '')
  assert.ok(asking.files.some(({ path, content }) => path === file && content.includes('disableAllHooks')))
  assert.equal(free.variables['QWEN_CODE_SYSTEM_SETTINGS_PATH'], undefined)
})

test('RUN-23 a project that would run commands without a question is refused', () => {
  const cases: readonly (readonly [string, string, string, number])[] = [
    ['gemini', 'README.md', 'hooks', 0],
    ['gemini', '.gemini/settings.json', '{"ui":{}}', 0],
    ['gemini', '.gemini/settings.json', '{"hooks":{}}', 1],
    ['gemini', '.gemini/settings.json', '{"tools":{"discoveryCommand":"x"}}', 1],
    ['gemini', '.gemini/settings.json', '{"mcpServers":{}}', 1],
    ['gemini', '.gemini/settings.json', '{"\\u0068ooks":{}}', 1],
    ['gemini', '.gemini/extensions/x/gemini-extension.json', '{}', 1],
    ['copilot', 'README.md', 'hooks', 0],
    ['copilot', '.github/copilot/settings.json', '{}', 0],
    ['copilot', '.github/hooks/x.json', '{}', 1],
    ['copilot', '.claude/settings.json', '{"hooks":{}}', 1],
    ['copilot', '.github/copilot/settings.local.json', '{"\\u0068ooks":{}}', 1],
  ]
  for (const [name, path, content, code] of cases) {
    const project = mkdtempSync(join(tmpdir(), 'agent-project-'))
    try {
      mkdirSync(dirname(join(project, path)), { recursive: true })
      writeFileSync(join(project, path), content)
      const { command } = agentNamed(name).launch(assignmentFor(name, true))
      const [shell = '', flag = '', script = ''] = command
      const { status, stderr } = spawnSync(shell, [flag, script, project, 'true'], { encoding: 'utf8' })
      assert.equal(status, code, `${name} ${path} ${content}`)
      if (code !== 0) assert.match(stderr, /cannot be made to ask/)
      assert.ok(!agentNamed(name).launch(assignmentFor(name, false)).command.includes(script))
    } finally {
      rmSync(project, { recursive: true, force: true })
    }
  }
})

test('claude starts no hooks and servers of a project without a question', () => {
  const [asking, free] = [true, false].map((asks) =>
    agentNamed('claude').launch(assignmentFor('claude', asks)),
  )
  const file = asking?.command[(asking?.command.indexOf('--import') ?? -1) + 1]?.replace('/home/user/', '')
  const shim = asking?.files.find(({ path }) => path === file)?.content ?? ''
  assert.match(shim, /--strict-mcp-config.*disableAllHooks: true/s)
  assert.ok(!free?.command.includes('--import'))
})

test('copilot does not see read-only marks of tools if it has to ask', () => {
  const configOf = (asks: boolean): string => {
    const { files } = agentNamed('copilot').launch(assignmentFor('copilot', asks))
    return files.find(({ path }) => path.endsWith('mcp-config.json'))?.content ?? ''
  }
  assert.match(configOf(true), /readOnlyHint/)
  assert.doesNotMatch(configOf(false), /readOnlyHint/)
})
