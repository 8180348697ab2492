// What each agent really wrote while it fixed a failing test, told as events of ours. The recordings were
// made with the command that `launch` gives, against the model of test/model, with every question answered
// with yes.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { RunEventBody } from '../core/run.ts'
import type { Agent } from './agent.ts'
import { agentNamed } from './agents.ts'
import type { Assignment } from './assignment.ts'
import type { DriverStep, Question, TurnEnd } from './drivers/driver.ts'

const LOOK = 'find . -name node_modules -prune -o -name .git -prune -o -type f -print'
const EDIT = "sed -i 's/a - b/a + b/' sum.js"
const TOKENS = { input: 7200, cached: 4800, output: 240 }

interface Expected {
  readonly agent: string
  readonly file?: string
  /** Questions, each as `kind subject`. */
  readonly asked: readonly string[]
  /** Commands with their exit codes, where the agent tells them. */
  readonly commands: readonly (readonly [string, number | undefined])[]
  readonly edits: readonly RunEventBody[]
  readonly tokens: Readonly<Record<string, unknown>> | undefined
  readonly lastWords: string
}

const SUM: RunEventBody = { type: 'edit', path: 'sum.js', added: 1, removed: 1 }
const FIXED = 'I fixed sum.js: it adds now, and the tests pass.'

const AGENTS: readonly Expected[] = [
  {
    agent: 'claude',
    asked: [`bash ${LOOK}`, 'bash npm test', 'write sum.js', 'bash npm test'],
    // It tells exit codes of failures only.
    commands: [
      [LOOK, undefined],
      ['npm test', 1],
      ['npm test', undefined],
    ],
    edits: [SUM],
    tokens: { ...TOKENS, model: 'claude-sonnet-4-5' },
    lastWords: FIXED,
  },
  {
    agent: 'codex',
    asked: [`bash ${LOOK}`, 'bash npm test', 'bash cat sum.js', `bash ${EDIT}`, 'bash npm test'],
    commands: [
      [LOOK, 0],
      ['npm test', 1],
      ['cat sum.js', 0],
      [EDIT, 0],
      ['npm test', 0],
    ],
    edits: [],
    tokens: { ...TOKENS, model: 'gpt-5.5' },
    lastWords: FIXED,
  },
  {
    agent: 'opencode',
    asked: [`bash ${LOOK}`, 'bash npm test', 'write sum.js', 'bash npm test'],
    commands: [
      [LOOK, 0],
      ['npm test', 1],
      ['npm test', 0],
    ],
    edits: [SUM],
    tokens: undefined,
    lastWords: FIXED,
  },
  {
    agent: 'gemini',
    asked: ['bash npm test', 'write sum.js', 'bash npm test'],
    commands: [
      [LOOK, undefined],
      ['npm test', undefined],
      ['npm test', undefined],
    ],
    edits: [SUM],
    tokens: { input: 12_000, cached: 0, output: 240, model: 'gemini-2.5-pro' },
    lastWords: FIXED,
  },
  {
    agent: 'qwen',
    asked: [`bash ${LOOK}`, 'bash npm test', 'write sum.js', 'bash npm test'],
    commands: [
      [LOOK, 0],
      ['npm test', 1],
      ['npm test', 0],
    ],
    edits: [SUM],
    tokens: TOKENS,
    lastWords: FIXED,
  },
  {
    agent: 'copilot',
    asked: [`bash ${LOOK}`, 'bash npm test', `bash ${EDIT}`, 'bash npm test'],
    commands: [
      [LOOK, 0],
      ['npm test', 1],
      [EDIT, 0],
      ['npm test', 0],
    ],
    edits: [],
    tokens: TOKENS,
    lastWords: FIXED,
  },
  {
    agent: 'cline',
    asked: [`bash ${LOOK}`, 'bash npm test', 'bash cat sum.js', `bash ${EDIT}`, 'bash npm test'],
    commands: [
      [LOOK, undefined],
      ['npm test', undefined],
      ['cat sum.js', undefined],
      [EDIT, undefined],
      ['npm test', undefined],
    ],
    edits: [],
    tokens: undefined,
    lastWords: FIXED,
  },
  {
    agent: 'pi',
    asked: [],
    commands: [
      [LOOK, undefined],
      ['npm test', undefined],
      ['npm test', undefined],
    ],
    edits: [SUM],
    tokens: { ...TOKENS, model: 'claude-sonnet-4-5' },
    lastWords: FIXED,
  },
  { agent: 'continue', asked: [], commands: [], edits: [], tokens: undefined, lastWords: FIXED },
]

for (const expected of AGENTS)
  test(`a recorded fix by ${expected.agent} is read`, () => {
    const agent = agentNamed(expected.agent)
    const told = replay(agent, expected.file ?? `${expected.agent}-fix.jsonl`)
    assert.deepEqual(told.end, { how: 'done', message: undefined })
    assert.ok(told.session, 'it says what its conversation is called')
    assert.deepEqual(
      told.asked.map(({ about }) => `${about.kind} ${about.subject}`),
      expected.asked,
    )
    assert.deepEqual(
      told.events.flatMap((event) => (event.type === 'command' ? [[event.command, event.exitCode]] : [])),
      expected.commands,
    )
    assert.deepEqual(
      told.events.filter(({ type }) => type === 'edit'),
      expected.edits,
    )
    assert.equal(lastWords(told.events), expected.lastWords)
    const { costUsd: _, ...tokens } = told.tokens ?? { costUsd: undefined }
    assert.deepEqual(dropUndefined(tokens), expected.tokens ?? {})
    framed(told.events)
  })

test('aider’s plain text is read for edits and usage', () => {
  const told = replay(agentNamed('aider'), 'aider-fix.txt')
  assert.deepEqual(told.end, { how: 'done', message: undefined })
  assert.deepEqual(
    told.events.filter(({ type }) => type === 'tool').map((event) => event.type === 'tool' && event.title),
    ['edit sum.js'],
  )
  assert.deepEqual(told.tokens, { input: 2400, cached: 1600, output: 80, costUsd: 0.0089, model: undefined })
})

interface Told {
  readonly events: readonly RunEventBody[]
  readonly asked: readonly Question[]
  readonly session: string | undefined
  readonly tokens: DriverStep<unknown>['tokens']
  readonly end: TurnEnd | undefined
}

/** Feeds a recording to a driver, whose state goes through JSON each time as it does when it is stored. */
function replay(agent: Agent, file: string): Told {
  const events: RunEventBody[] = []
  const asked: Question[] = []
  let session: string | undefined
  let tokens: DriverStep<unknown>['tokens']
  let end: TurnEnd | undefined
  let state: unknown
  const take = (step: DriverStep<unknown>): void => {
    state = JSON.parse(JSON.stringify(step.state))
    assert.ok(JSON.stringify(state).length < 16_384, 'the state stays small')
    events.push(...step.events)
    asked.push(...step.questions)
    session = step.session ?? session
    tokens = step.tokens ?? tokens
    end ??= step.end
    for (const { permission } of step.questions) take(agent.driver.answer(state, permission, 'allow'))
  }
  take(agent.driver.begin(assignmentFor(agent)))
  for (const line of readFileSync(join(import.meta.dirname, 'fixtures', file), 'utf8').split('\n'))
    if (line !== '') take(agent.driver.line(state, line))
  take(agent.driver.exit(state, 0))
  return { events, asked, session, tokens, end }
}

function assignmentFor(agent: Agent): Assignment {
  const [credential] = agent.credentials
  assert.ok(credential)
  return {
    directory: `/var/lib/agentpod-${agent.name}`,
    home: '/home/user',
    workspace: '/home/user/w',
    model: undefined,
    credential,
    baseUrl: credential.baseUrl,
    mcpServers: [],
    asks: agent.canAsk,
    session: undefined,
    prompt: 'fix it',
    command: [],
  }
}

function lastWords(events: readonly RunEventBody[]): string {
  const said = events.flatMap((event) => (event.type === 'message' ? [event] : []))
  const last = said.at(-1)?.message
  return said
    .filter(({ message }) => message === last)
    .map(({ text }) => text)
    .join('')
}

/** Every call that begins ends, once, under the same name. */
function framed(events: readonly RunEventBody[]): void {
  const open = new Set<string>()
  for (const event of events) {
    if (event.type !== 'tool') continue
    if (event.status === 'started') {
      assert.ok(!open.has(event.tool), `${event.tool} begins twice`)
      open.add(event.tool)
    } else if (event.status === 'running')
      assert.ok(open.has(event.tool), `${event.tool} prints before it begins`)
    else assert.ok(open.delete(event.tool), `${event.tool} ends without having begun`)
  }
  assert.equal(open.size, 0)
}

function dropUndefined(value: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined))
}
