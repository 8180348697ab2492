import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RunEventBody } from '../../../core/run.ts'
import type { Assignment } from '../../assignment.ts'
import type { Driver, DriverStep } from '../driver.ts'
import { type AcpOptions, type AcpState, acpDriver } from './acp-driver.ts'

const WAYS: AcpOptions = { modes: { bypass: ['yolo'], asking: ['default'] } }
const MODES = { currentModeId: 'default', availableModes: [{ id: 'default' }, { id: 'yolo' }] }
const ASSIGNMENT: Assignment = {
  directory: '/var/lib/agentpod-x',
  home: '/home/user',
  workspace: '/home/user/w',
  model: undefined,
  credential: { variable: 'KEY', title: '', baseUrl: '', header: '', scheme: { kind: 'bare' } },
  baseUrl: '',
  mcpServers: [],
  asks: false,
  session: undefined,
  prompt: 'do it',
  command: [],
}

/** A conversation with a driver: what it was told, and what came of it. */
class Talk {
  readonly driver: Driver<AcpState>
  readonly sent: Record<string, unknown>[] = []
  readonly events: RunEventBody[] = []
  last: DriverStep<AcpState>
  state: AcpState

  constructor(assignment: Partial<Assignment> = {}, ways: Partial<AcpOptions> = {}) {
    this.driver = acpDriver({ ...WAYS, ...ways })
    this.last = this.driver.begin({ ...ASSIGNMENT, ...assignment })
    this.state = this.last.state
    this.#took(this.last)
  }

  #took(step: DriverStep<AcpState>): DriverStep<AcpState> {
    this.last = step
    this.state = JSON.parse(JSON.stringify(step.state)) as AcpState
    for (const line of step.send) this.sent.push(JSON.parse(line) as Record<string, unknown>)
    this.events.push(...step.events)
    return step
  }

  line(line: string): DriverStep<AcpState> {
    return this.#took(this.driver.line(this.state, line))
  }

  says(message: Readonly<Record<string, unknown>>): DriverStep<AcpState> {
    return this.line(JSON.stringify({ jsonrpc: '2.0', ...message }))
  }

  /** Answers what it was asked last. */
  replies(result: unknown): DriverStep<AcpState> {
    return this.says({ id: this.sent.at(-1)?.['id'], result })
  }

  fails(error: unknown): DriverStep<AcpState> {
    return this.says({ id: this.sent.at(-1)?.['id'], error })
  }

  update(update: Readonly<Record<string, unknown>>, sessionId = 's1'): DriverStep<AcpState> {
    return this.says({ method: 'session/update', params: { sessionId, update } })
  }

  asks(toolCall: unknown, id: unknown = 7): DriverStep<AcpState> {
    const options = [
      { optionId: 'always', kind: 'allow_always' },
      { optionId: 'yes', kind: 'allow_once' },
      { optionId: 'no', kind: 'reject_once' },
    ]
    return this.says({
      id,
      method: 'session/request_permission',
      params: { sessionId: 's1', toolCall, options },
    })
  }

  answer(permission: string, answer: 'allow' | 'deny'): DriverStep<AcpState> {
    return this.#took(this.driver.answer(this.state, permission, answer))
  }

  cancel(): DriverStep<AcpState> {
    return this.#took(this.driver.cancel(this.state))
  }

  methods(): unknown[] {
    return this.sent.map((one) => one['method'] ?? one['result'] ?? one['error'])
  }
}

/** A talk in which the prompt has been given. */
function working(assignment: Partial<Assignment> = {}, ways: Partial<AcpOptions> = {}): Talk {
  const talk = new Talk({ asks: true, ...assignment }, ways)
  talk.replies({ protocolVersion: 1, agentCapabilities: {} })
  talk.replies({ sessionId: 's1', modes: MODES })
  return talk
}

for (const session of ['', '-x', '--yolo', ' x', 'a\nb', 'x'.repeat(600)])
  test(`a session id is refused: ${JSON.stringify(session.slice(0, 9))}`, () => {
    const talk = new Talk({})
    talk.replies({ protocolVersion: 1 })
    const step = talk.replies({ sessionId: session, modes: MODES })
    assert.deepEqual([step.session, step.end?.how], [undefined, 'failed'])
  })

test('an ACP turn: initialize, a new session, the mode, the prompt, the end', () => {
  const talk = new Talk({ mcpServers: [{ name: 'files', command: 'node', args: ['x'], env: { A: 'b' } }] })
  assert.deepEqual(talk.sent[0]?.['params'], {
    protocolVersion: 1,
    clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
    clientInfo: { name: 'agentpod', title: 'AgentPod', version: '1' },
  })
  talk.replies({ protocolVersion: 1 })
  assert.deepEqual(talk.sent[1]?.['params'], {
    cwd: '/home/user/w',
    mcpServers: [{ name: 'files', command: 'node', args: ['x'], env: [{ name: 'A', value: 'b' }] }],
  })
  assert.equal(talk.replies({ sessionId: 's1', modes: MODES }).session, 's1')
  assert.deepEqual(talk.sent[2]?.['params'], { sessionId: 's1', modeId: 'yolo' })
  talk.replies({})
  assert.deepEqual(talk.sent[3]?.['params'], { sessionId: 's1', prompt: [{ type: 'text', text: 'do it' }] })
  const usage = { inputTokens: 10, outputTokens: 2, cachedReadTokens: 5, cachedWriteTokens: 1 }
  const { end, tokens } = talk.replies({ stopReason: 'end_turn', usage })
  assert.deepEqual(end, { how: 'done', message: undefined })
  assert.deepEqual(tokens, { input: 11, cached: 5, output: 2, costUsd: undefined, model: undefined })
  assert.deepEqual(
    talk.update({ sessionUpdate: 'agent_message_chunk', content: { text: 'late' } }).events,
    [],
  )
})

test('every request that opens an ACP session has the agent’s _meta', () => {
  const ways: Partial<AcpOptions> = { sessionMeta: (prompt) => ({ its: { title: prompt } }) }
  const met = (assignment: Partial<Assignment>, agentCapabilities: unknown): unknown[] => {
    const talk = new Talk(assignment, ways)
    talk.replies({ protocolVersion: 1, agentCapabilities })
    const { method, params } = talk.sent[1] as { method: string; params: Record<string, unknown> }
    return [method, params['_meta']]
  }
  const meta = { its: { title: 'do it' } }
  assert.deepEqual(met({}, {}), ['session/new', meta])
  assert.deepEqual(met({ session: 's1' }, { loadSession: true }), ['session/load', meta])
  const resumes = { sessionCapabilities: { resume: {} } }
  assert.deepEqual(met({ session: 's1' }, resumes), ['session/resume', meta])
})

test('ACP stop reasons become ends of the turn', () => {
  for (const [stopReason, how] of [
    ['end_turn', 'done'],
    ['max_tokens', 'limit'],
    ['max_turn_requests', 'limit'],
    ['refusal', 'refused'],
    ['cancelled', 'refused'],
    ['something new', 'failed'],
    [undefined, 'failed'],
    [7, 'failed'],
  ])
    assert.equal(working().replies({ stopReason }).end?.how, how, String(stopReason))
  assert.deepEqual(working().fails({ code: -1, message: 'no', data: { details: 'key refused' } }).end, {
    how: 'failed',
    message: 'no: key refused',
  })
  const passedOn = JSON.stringify({ error: { code: 401, message: 'key revoked' } })
  assert.equal(working().fails({ code: 401, message: passedOn }).end?.message, 'key revoked')
})

test('an ACP turn that ends with a complaint has failed', () => {
  const talk = working({}, { complaint: /^(Error: .*)/s })
  talk.update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'Err' } })
  talk.update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'or: 401\n' } })
  assert.deepEqual(talk.replies({ stopReason: 'end_turn' }).end, { how: 'failed', message: 'Error: 401' })
})

test('an ACP agent that cannot be set to ask does not begin', () => {
  const talk = new Talk({ asks: true })
  talk.replies({})
  const none = talk.replies({
    sessionId: 's1',
    modes: { currentModeId: 'yolo', availableModes: [{ id: 'yolo' }] },
  })
  assert.equal(none.end?.how, 'failed')
  const refused = new Talk({ asks: true })
  refused.replies({})
  refused.replies({ sessionId: 's1', modes: { ...MODES, currentModeId: 'yolo' } })
  assert.equal(refused.fails({ message: 'not now' }).end?.message, 'mode default: not now')
  // The other way round there is nothing to fear: what it asks is answered by the rules.
  const bypass = new Talk({ asks: false })
  bypass.replies({})
  bypass.replies({ sessionId: 's1', modes: MODES })
  assert.deepEqual(bypass.fails({ message: 'not now' }).events, [
    { type: 'note', text: 'mode yolo: not now' },
  ])
  assert.equal(bypass.sent.at(-1)?.['method'], 'session/prompt')
})

test('an ACP model is set as offered, or by its option', () => {
  const configOptions = [
    { id: 'provider', category: 'model', currentValue: 'a', options: [{ value: 'a' }] },
    {
      id: 'model',
      category: 'model',
      currentValue: 'a/one',
      options: [{ options: [{ value: 'a/two', name: 'Two' }] }],
    },
  ]
  const talk = new Talk({ model: 'two', asks: true })
  talk.replies({})
  talk.replies({ sessionId: 's1', modes: MODES, configOptions })
  assert.deepEqual(talk.sent.at(-1)?.['params'], { sessionId: 's1', configId: 'model', value: 'a/two' })
  const unknown = new Talk({ model: 'three', asks: true })
  unknown.replies({})
  unknown.replies({ sessionId: 's1', modes: MODES, configOptions })
  assert.equal(unknown.sent.at(-1)?.['method'], 'session/prompt')
  const any = new Talk({ model: 'three', asks: true }, { takesAnyModel: true })
  any.replies({})
  any.replies({ sessionId: 's1', modes: MODES, configOptions })
  assert.deepEqual(any.sent.at(-1)?.['params'], { sessionId: 's1', configId: 'model', value: 'three' })
})

test('an ACP conversation continues by resume or load, without repeating old messages', () => {
  const talk = new Talk({ session: 'old', asks: true })
  talk.replies({ agentCapabilities: { loadSession: true, sessionCapabilities: { resume: {} } } })
  assert.equal(talk.sent.at(-1)?.['method'], 'session/resume')
  talk.fails({ message: 'not found' })
  assert.equal(talk.sent.at(-1)?.['method'], 'session/load')
  talk.update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'old words' } }, 'old')
  talk.update(
    { sessionUpdate: 'tool_call', toolCallId: 't', kind: 'execute', rawInput: { command: 'rm' } },
    'old',
  )
  const opened = talk.replies({ modes: MODES })
  assert.equal(opened.session, 'old')
  assert.deepEqual(talk.events, [])
  talk.update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'new words' } }, 'old')
  assert.deepEqual(talk.events, [{ type: 'message', from: 'agent', message: 'm1', text: 'new words' }])
  const never = new Talk({ session: 'old' })
  assert.equal(never.replies({ agentCapabilities: {} }).end?.how, 'failed')
})

test('old messages after an ACP load are waited for', () => {
  const talk = new Talk({ session: 'old', asks: true }, { replaysLate: true })
  talk.replies({ agentCapabilities: { loadSession: true } })
  talk.replies({ modes: MODES })
  const old = { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'old' } }
  for (let times = 0; times < 3; times++) {
    assert.equal(talk.sent.at(-1)?.['method'], 'session/set_mode')
    talk.update(old, 'old')
    talk.replies({})
  }
  talk.replies({})
  assert.equal(talk.sent.at(-1)?.['method'], 'session/prompt')
  assert.deepEqual(talk.events, [])
})

test('endless old messages after an ACP load are waited for only so long', () => {
  const talk = new Talk({ session: 'old', asks: true }, { replaysLate: true })
  talk.replies({ agentCapabilities: { loadSession: true } })
  talk.replies({ modes: MODES })
  for (let times = 0; times < 60 && talk.sent.at(-1)?.['method'] === 'session/set_mode'; times++) {
    talk.update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'old' } }, 'old')
    talk.replies({})
  }
  assert.equal(talk.sent.at(-1)?.['method'], 'session/prompt')
})

test('an ACP agent that requires authentication is authenticated once', () => {
  const talk = new Talk({ asks: true }, { authMethod: 'api-key' })
  talk.replies({})
  talk.fails({ code: -32000, message: 'Authentication required' })
  assert.deepEqual(talk.sent.at(-1)?.['params'], { methodId: 'api-key' })
  talk.replies({})
  assert.equal(talk.sent.at(-1)?.['method'], 'session/new')
  assert.equal(talk.fails({ code: -32000, message: 'Authentication required' }).end?.how, 'failed')
})

test('ACP updates become events', () => {
  const talk = working()
  talk.update({ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text: 'hm' } })
  talk.update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'a' } })
  talk.update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'b\u001B[31m' } })
  talk.update({
    sessionUpdate: 'plan',
    entries: [{ content: 'one', status: 'in_progress' }, { content: 'two', status: '__proto__' }, null],
  })
  talk.update({ sessionUpdate: 'tool_call', toolCallId: 'x', kind: 'edit', title: 'Edit', status: 'pending' })
  talk.update({
    sessionUpdate: 'tool_call_update',
    toolCallId: 'x',
    status: 'completed',
    content: [{ type: 'diff', path: '/home/user/w/a/../b.js', oldText: 'a\nb\n', newText: 'a\nc\nd\n' }],
  })
  talk.update({ sessionUpdate: 'user_message_chunk', content: { type: 'text', text: 'echo' } })
  talk.update({ sessionUpdate: 'usage_update', used: 10, size: 100, cost: { amount: 0.5, currency: 'USD' } })
  talk.update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'elsewhere' } }, 's2')
  assert.deepEqual(talk.events, [
    { type: 'thought', message: 'm1', text: 'hm' },
    { type: 'message', from: 'agent', message: 'm2', text: 'a' },
    { type: 'message', from: 'agent', message: 'm2', text: 'b\u001B[31m' },
    {
      type: 'plan',
      entries: [
        { text: 'one', status: 'doing' },
        { text: 'two', status: 'pending' },
        { text: '', status: 'pending' },
      ],
    },
    { type: 'tool', tool: 't1', kind: 'edit', title: 'Edit', status: 'started' },
    { type: 'edit', path: 'b.js', added: 2, removed: 1 },
    { type: 'tool', tool: 't1', kind: 'edit', title: 'Edit', status: 'done' },
  ])
  const { tokens } = talk.replies({ stopReason: 'end_turn', usage: { inputTokens: 1, outputTokens: 1 } })
  assert.equal(tokens?.costUsd, 0.5)
})

test('output of a running ACP command is reported once, in pieces or as a whole', () => {
  const talk = working()
  const about = (id: string, more: Readonly<Record<string, unknown>>): void =>
    void talk.update({ sessionUpdate: 'tool_call_update', toolCallId: id, ...more })
  const whole = (text: string): unknown => [{ type: 'content', content: { type: 'text', text } }]
  for (const id of ['a', 'b'])
    talk.update({
      sessionUpdate: 'tool_call',
      toolCallId: id,
      kind: 'execute',
      rawInput: { command: 'make' },
    })
  about('a', { _meta: { terminal_output_delta: { data: 'one\n' } } })
  about('a', { _meta: { terminal_output_delta: { data: `${'x'.repeat(5000)}two\n` } } })
  about('b', { status: 'in_progress', content: whole('one\n') })
  about('b', { status: 'in_progress', content: whole('one\n') })
  about('b', { status: 'in_progress', content: whole('one\ntwo\n') })
  about('a', { status: 'completed' })
  const running = talk.events.flatMap((event) =>
    event.type === 'tool' && event.status === 'running' ? [[event.tool, event.output?.slice(-8)]] : [],
  )
  assert.deepEqual(running, [
    ['t1', 'one\n'],
    ['t1', 'xxxxtwo\n'],
    ['t2', 'one\n'],
    ['t2', 'one\ntwo\n'],
  ])
  for (const event of talk.events) if (event.type === 'tool') assert.ok((event.output ?? '').length <= 500)
  const [command] = talk.events.filter(({ type }) => type === 'command')
  assert.ok(command?.type === 'command' && command.output?.startsWith('one\n'), 'its end tells all of it')
})

test('RUN-2 a question has the subject that rules are written about', () => {
  const diff = (path: string): unknown => ({ type: 'diff', path, oldText: '', newText: 'x' })
  const cases: readonly (readonly [Readonly<Record<string, unknown>>, string, string])[] = [
    [{ kind: 'execute', rawInput: { command: 'npm test' } }, 'bash', 'npm test'],
    [{ kind: 'execute', rawInput: { command: ['bash', '-lc', 'a && b'] } }, 'bash', 'a && b'],
    [
      { kind: 'execute', rawInput: { command: ['git', 'commit', '-m', 'a b'] } },
      'bash',
      "git commit -m 'a b'",
    ],
    [{ kind: 'execute', rawInput: { commands: ['a', 'b'] } }, 'bash', 'a\nb'],
    [{ kind: 'execute', title: 'rm -rf x' }, 'bash', 'rm -rf x'],
    // Agents call it reading when a command only reads.
    [{ kind: 'read', rawInput: { command: 'cat /etc/passwd' } }, 'bash', 'cat /etc/passwd'],
    [{ kind: 'edit', locations: [{ path: '/home/user/w/a.js' }] }, 'write', 'a.js'],
    [{ kind: 'edit', content: [diff('a.js'), diff('/etc/x')] }, 'write', 'a.js\n/etc/x'],
    [{ kind: 'delete', rawInput: { path: '../../x' } }, 'write', '/home/x'],
    [{ kind: 'edit', locations: [{ path: 'a\nb' }] }, 'write', 'a\uFFFDb'],
    [
      { kind: 'other', rawInput: '*** Begin Patch\n*** Add File: a\n+x\n*** Delete File: b\n*** End Patch' },
      'write',
      'a\nb',
    ],
    [{ kind: 'fetch', rawInput: { url: 'https://Example.com/x?y' } }, 'network', 'example.com:443'],
    [{ kind: 'fetch', rawInput: { url: 'http://example.com:8080' } }, 'network', 'example.com:8080'],
    [{ kind: 'fetch', rawInput: { query: 'x' } }, 'network', 'web-search'],
    [{ kind: 'other', title: 'poke' }, 'mcp', 'agent/poke'],
  ]
  for (const [call, kind, subject] of cases) {
    const { questions } = working().asks({ toolCallId: 'x', title: 'a title', ...call })
    assert.equal(questions[0]?.about.kind, kind, JSON.stringify(call))
    assert.equal(questions[0]?.about.subject, subject)
  }
})

test('an ACP question names all files that were named before', () => {
  const talk = working()
  talk.update({
    sessionUpdate: 'tool_call',
    toolCallId: 'x',
    kind: 'edit',
    content: [{ type: 'diff', path: 'secret', oldText: '', newText: '' }],
  })
  const { questions } = talk.asks({ toolCallId: 'x', locations: [{ path: 'harmless' }] })
  assert.equal(questions[0]?.about.subject, 'secret\nharmless')
})

test('ACP actions that change nothing are allowed without a question', () => {
  const talk = working()
  const step = talk.asks({ toolCallId: 'x', kind: 'read', locations: [{ path: '/etc/hosts' }] })
  assert.deepEqual(step.questions, [])
  assert.deepEqual(talk.sent.at(-1)?.['result'], { outcome: { outcome: 'selected', optionId: 'yes' } })
})

test('RUN-2 an answer is for one time, and given once', () => {
  const talk = working()
  const [first] = talk.asks({ toolCallId: 'x', kind: 'execute', rawInput: { command: 'a' } }, 'q1').questions
  const [second] = talk.asks({ toolCallId: 'y', kind: 'execute', rawInput: { command: 'b' } }, 0).questions
  talk.answer(second?.permission ?? '', 'deny')
  assert.deepEqual(talk.sent.at(-1), {
    jsonrpc: '2.0',
    id: 0,
    result: { outcome: { outcome: 'selected', optionId: 'no' } },
  })
  talk.answer(first?.permission ?? '', 'allow')
  assert.deepEqual(talk.sent.at(-1), {
    jsonrpc: '2.0',
    id: 'q1',
    result: { outcome: { outcome: 'selected', optionId: 'yes' } },
  })
  for (const permission of [first?.permission ?? '', 'p99', '__proto__'])
    assert.deepEqual(talk.answer(permission, 'allow').send, [])
  // What was refused has not run.
  const failed = talk.update({ sessionUpdate: 'tool_call_update', toolCallId: 'y', status: 'failed' })
  assert.deepEqual(
    failed.events.map(({ type }) => type),
    ['tool'],
  )
})

test('SECURITY: an ACP action that is too long to check is refused', () => {
  const long = (length: number): string => `x${' '.repeat(length)}; rm -rf /`
  for (const call of [
    { kind: 'execute', rawInput: { command: long(70_000) } },
    { kind: 'execute', title: long(600) },
    { kind: 'edit', locations: [{ path: `a/${'b'.repeat(5000)}` }] },
    { kind: 'edit', locations: Array.from({ length: 500 }, (_, at) => ({ path: `f${at}` })) },
  ]) {
    const talk = working()
    assert.deepEqual(talk.asks({ toolCallId: 'x', ...call }).questions, [])
    assert.deepEqual(talk.sent.at(-1)?.['result'], { outcome: { outcome: 'selected', optionId: 'no' } })
  }
})

test('SECURITY: an ACP question without an allow-once option is not answered with allow-always', () => {
  const talk = working()
  const options = [{ optionId: 'always', kind: 'allow_always' }]
  const toolCall = { toolCallId: 'x', kind: 'execute', rawInput: { command: 'a' } }
  talk.says({ id: 1, method: 'session/request_permission', params: { sessionId: 's1', toolCall, options } })
  assert.deepEqual(talk.sent.at(-1)?.['result'], { outcome: { outcome: 'cancelled' } })
})

test('SECURITY: ACP requests for files, terminals and unknown methods are refused', () => {
  const talk = working()
  for (const method of ['fs/read_text_file', 'fs/write_text_file', 'terminal/create', 'x/y', '__proto__']) {
    talk.says({ id: 5, method, params: { path: '/etc/passwd' } })
    assert.deepEqual(talk.sent.at(-1)?.['error'], { code: -32601, message: `${method} is not supported` })
  }
})

test('canceling an ACP turn leaves no question open', () => {
  const talk = working()
  talk.asks({ toolCallId: 'x', kind: 'execute', rawInput: { command: 'a' } }, 3)
  talk.cancel()
  assert.deepEqual(talk.sent.slice(-2), [
    { jsonrpc: '2.0', method: 'session/cancel', params: { sessionId: 's1' } },
    { jsonrpc: '2.0', id: 3, result: { outcome: { outcome: 'cancelled' } } },
  ])
  assert.deepEqual(talk.cancel().send, [])
  talk.asks({ toolCallId: 'y', kind: 'execute', rawInput: { command: 'b' } }, 4)
  assert.deepEqual(talk.sent.at(-1)?.['result'], { outcome: { outcome: 'selected', optionId: 'no' } })
  const other = working()
  other.cancel()
  assert.deepEqual(talk.says({ id: 3, result: { stopReason: 'cancelled' } }).end, {
    how: 'canceled',
    message: undefined,
  })
  assert.equal(other.driver.exit(other.state, 137).end?.how, 'canceled')
  assert.equal(new Talk().cancel().end?.how, 'canceled')
})

test('an ACP process that exits before its turn ends has failed', () => {
  const talk = working()
  assert.deepEqual(talk.driver.exit(talk.state, 3).end, {
    how: 'failed',
    message: 'it exited with code 3 before it was done',
  })
})

test('SECURITY: hostile lines never throw in the ACP driver, and its state stays small', () => {
  const values: readonly unknown[] = [
    null,
    true,
    0,
    -1,
    1e308,
    '',
    'x'.repeat(100_000),
    [],
    [null],
    {},
    { __proto__: null },
    JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}') as unknown,
    { text: [] },
    { type: 'diff', path: 1 },
    { toolCallId: 'x', rawInput: { command: [null, {}, []] } },
  ]
  const keys = ['id', 'method', 'params', 'result', 'error', 'jsonrpc']
  const talk = working()
  for (const value of values) {
    for (const key of keys) talk.says({ method: 'session/update', id: 9, [key]: value })
    for (const kind of [
      'agent_message_chunk',
      'plan',
      'tool_call',
      'tool_call_update',
      'usage_update',
      'toString',
    ])
      for (const field of [
        'content',
        'entries',
        'toolCallId',
        'kind',
        'title',
        'status',
        'rawInput',
        'rawOutput',
        'cost',
      ])
        talk.update({ sessionUpdate: kind, toolCallId: 'x', status: 'completed', [field]: value })
    talk.asks(value, value)
    talk.asks({ toolCallId: 'z', kind: 'execute', rawInput: value, options: value }, 1)
    talk.says({ id: 1, method: 'session/request_permission', params: value })
  }
  for (const line of [
    '',
    '{',
    '[]',
    '{"a":',
    'null',
    '[[[[',
    `{"a":${'['.repeat(200_000)}`,
    '{"id":1}'.repeat(3),
  ])
    assert.deepEqual(talk.line(line).send, [])
  for (let number = 0; number < 300; number++) {
    talk.update({
      sessionUpdate: 'tool_call',
      toolCallId: `t${number}`,
      title: 'x'.repeat(2000),
      kind: 'read',
    })
    talk.update({
      sessionUpdate: 'tool_call_update',
      toolCallId: `t${number}`,
      _meta: { terminal_output_delta: { data: 'x'.repeat(50_000) } },
    })
  }
  for (let number = 0; number < 200; number++)
    talk.asks({ toolCallId: `q${number}`, kind: 'execute', rawInput: { command: 'a' } }, number)
  assert.ok(JSON.stringify(talk.state).length < 256 * 1024)
  assert.ok(talk.state.asked.length <= 64)
  assert.equal(({} as Record<string, unknown>)['polluted'], undefined)
  for (const event of talk.events) assert.ok(JSON.stringify(event).length < 200_000)
})

test('unexpected ACP answers change nothing', () => {
  const talk = working()
  const before = JSON.stringify(talk.state)
  for (const id of [1, 2, 99, '3', null, {}, [3], true]) talk.says({ id, result: { stopReason: 'end_turn' } })
  // The prompt's own number, as a number, is the only one.
  const { id } = talk.state.awaited ?? { id: -1 }
  assert.equal(id, 3)
  assert.equal(JSON.stringify(talk.state), before)
  assert.equal(talk.says({ id, result: { stopReason: 'end_turn' } }).end?.how, 'done')
  assert.equal(talk.says({ id, result: { stopReason: 'refusal' } }).end, undefined)
})
