/** pi, which prints lines of JSON. It never asks: only the sandbox limits it. */

import type { RunEventBody, ToolKind } from '../../core/run.ts'
import { type JsonObject, listAt, stringAt, valueAt } from '../../util/untrusted-json.ts'
import type { Agent } from '../agent.ts'
import type { AgentFile, Assignment, Credential, Launch } from '../assignment.ts'
import { ANTHROPIC, OPENAI } from '../credentials.ts'
import { endByExit, lineDriver, type Reading } from '../drivers/json-lines.ts'
import { clip, clipOutput, LONGEST_ERROR, LONGEST_TEXT, LONGEST_TITLE } from '../drivers/output/clip.ts'
import { amountAt } from '../drivers/output/json.ts'
import { patchCounts } from '../drivers/output/line-counts.ts'
import { isSession } from '../drivers/output/session-name.ts'
import { workspacePath } from '../drivers/output/workspace-path.ts'
import { BUILD_NODE } from '../install.ts'

const GEMINI: Credential = {
  variable: 'GEMINI_API_KEY',
  title: 'an API key of Google AI',
  baseUrl: 'https://generativelanguage.googleapis.com/v1beta',
  header: 'x-goog-api-key',
  scheme: { kind: 'bare' },
}

/** pi's name of the provider that a key is for. */
const PROVIDERS: Readonly<Record<string, string>> = {
  [ANTHROPIC.variable]: 'anthropic',
  [OPENAI.variable]: 'openai',
  [GEMINI.variable]: 'google',
}
const PROGRAM = 'node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js'

/** Plain JSON, because it is the driver's state. */
interface PiState {
  readonly workspace: string
  readonly speech: number
  readonly speaking: string
  /** Running tool calls, with their input. */
  readonly calls: readonly Call[]
  readonly used: {
    readonly input: number
    readonly cached: number
    readonly output: number
    readonly costUsd: number
  }
  readonly failure: string | undefined
}

interface Call {
  readonly id: string
  readonly tool: string
  readonly number: number
  readonly command?: string | undefined
  readonly path?: string | undefined
}

const MOST_CALLS = 64
const KINDS: Readonly<Record<string, ToolKind>> = {
  bash: 'execute',
  read: 'read',
  edit: 'edit',
  write: 'edit',
  grep: 'search',
  find: 'search',
  ls: 'search',
}

const START: PiState = {
  workspace: '',
  speech: 0,
  speaking: '',
  calls: [],
  used: { input: 0, cached: 0, output: 0, costUsd: 0 },
  failure: undefined,
}

export const pi: Agent = {
  name: 'pi',
  title: 'pi',
  coAuthor: { name: 'pi', email: 'noreply@pi.dev' },
  install: { kind: 'npm', node: BUILD_NODE, packages: ['@earendil-works/pi-coding-agent@0.87.1'] },
  credentials: [ANTHROPIC, OPENAI, GEMINI],
  driver: lineDriver<PiState>({
    start: START,
    read: (own, message) => (message ? read(own, message) : { own }),
    end: ({ failure }, exitCode) =>
      failure === undefined ? endByExit(exitCode) : { how: 'failed', message: failure },
  }),
  canAsk: false,
  canResume: true,
  takesMcp: false,
  launch: (assignment) => launch(assignment, ['-p', '--mode', 'json'], ['--', assignment.prompt]),
  interactive: (assignment) => launch(assignment, [], []),
}

function launch(assignment: Assignment, first: readonly string[], last: readonly string[]): Launch {
  const { directory, model, credential, session } = assignment
  const provider = PROVIDERS[credential.variable] ?? 'anthropic'
  return {
    command: [
      `${directory}/node/bin/node`,
      `${directory}/${PROGRAM}`,
      ...first,
      ...(model === undefined
        ? ['--provider', provider]
        : ['--model', model.startsWith(`${provider}/`) ? model : `${provider}/${model}`]),
      ...(session === undefined ? [] : ['--session', session]),
      ...last,
    ],
    variables: { PI_OFFLINE: '1', PI_TELEMETRY: '0', PI_SKIP_VERSION_CHECK: '1' },
    files: modelFiles(assignment, provider),
  }
}

/** The settings for a known provider at another address. */
function modelFiles({ baseUrl, credential }: Assignment, provider: string): AgentFile[] {
  if (baseUrl === credential.baseUrl) return []
  const providers = { providers: { [provider]: { baseUrl } } }
  return [{ path: '.pi/agent/models.json', content: `${JSON.stringify(providers, null, 2)}\n` }]
}

function read(own: PiState, message: JsonObject): Reading<PiState> {
  switch (stringAt(message, 'type')) {
    case 'session': {
      const session = stringAt(message, 'id')
      return {
        own: { ...own, workspace: stringAt(message, 'cwd') ?? '' },
        session: isSession(session) ? session : undefined,
      }
    }
    case 'message_update':
      return speak(own, message)
    case 'message_end':
      return messageEnd(own, message)
    case 'tool_execution_start':
      return toolStart(own, message)
    case 'tool_execution_end':
      return toolEnd(own, message)
    default:
      return { own }
  }
}

function speak(own: PiState, message: JsonObject): Reading<PiState> {
  const kind = stringAt(message, 'assistantMessageEvent', 'type')
  const text = stringAt(message, 'assistantMessageEvent', 'delta')
  if ((kind !== 'text_delta' && kind !== 'thinking_delta') || !text) return { own }
  const speech = own.speech + (own.speaking === kind ? 0 : 1)
  const said = { message: `m${speech}`, text: clip(text, LONGEST_TEXT) }
  const event: RunEventBody =
    kind === 'text_delta' ? { type: 'message', from: 'agent', ...said } : { type: 'thought', ...said }
  return { own: { ...own, speech, speaking: kind }, events: [event] }
}

/** Each message of the model has its own token counts and says whether it failed. */
function messageEnd(own: PiState, message: JsonObject): Reading<PiState> {
  const said = valueAt(message, 'message')
  if (stringAt(said, 'role') !== 'assistant') return { own: { ...own, speaking: '' } }
  const add = (key: string): number => amountAt(said, 'usage', key) ?? 0
  const used = {
    input: own.used.input + add('input') + add('cacheWrite'),
    cached: own.used.cached + add('cacheRead'),
    output: own.used.output + add('output'),
    costUsd: own.used.costUsd + (amountAt(said, 'usage', 'cost', 'total') ?? 0),
  }
  const isError = stringAt(said, 'stopReason') === 'error'
  const failure = isError
    ? clip(stringAt(said, 'errorMessage') ?? 'the model failed', LONGEST_ERROR)
    : undefined
  const model = stringAt(said, 'model')
  return {
    own: { ...own, speaking: '', used, failure },
    tokens: { ...used, model: model === undefined ? undefined : clip(model, 200) },
  }
}

function toolStart(own: PiState, message: JsonObject): Reading<PiState> {
  const id = stringAt(message, 'toolCallId')
  if (id === undefined || id.length > 512) return { own }
  const command = stringAt(message, 'args', 'command')
  const path = stringAt(message, 'args', 'path')
  const call: Call = {
    id,
    tool: clip(stringAt(message, 'toolName') ?? 'a tool', 100),
    number: own.calls.reduce((most, one) => Math.max(most, one.number), 0) + 1,
    command: command === undefined ? undefined : clipOutput(command),
    path: path === undefined ? undefined : workspacePath(path, own.workspace),
  }
  return {
    own: { ...own, speaking: '', calls: [...own.calls, call].slice(-MOST_CALLS) },
    events: [{ ...toolEvent(call), status: 'started' }],
  }
}

function toolEvent(call: Call): Omit<Extract<RunEventBody, { type: 'tool' }>, 'status'> {
  const kind = Object.hasOwn(KINDS, call.tool) ? KINDS[call.tool] : undefined
  const title = call.command ?? (call.path === undefined ? call.tool : `${call.tool} ${call.path}`)
  return { type: 'tool', tool: `t${call.number}`, kind: kind ?? 'other', title: clip(title, LONGEST_TITLE) }
}

function toolEnd(own: PiState, message: JsonObject): Reading<PiState> {
  const call = own.calls.find(({ id }) => id === stringAt(message, 'toolCallId'))
  if (!call) return { own }
  const isDone = valueAt(message, 'isError') !== true
  const text = listAt(message, 'result', 'content')
    .slice(0, 100)
    .flatMap((one) => stringAt(one, 'text') ?? [])
    .join('\n')
  const output = text === '' ? {} : { output: clipOutput(text) }
  const patch = stringAt(message, 'result', 'details', 'patch')
  const isEdit = isDone && toolEvent(call).kind === 'edit' && call.path !== undefined
  const events: RunEventBody[] = [
    ...(call.command === undefined ? [] : [{ type: 'command' as const, command: call.command, ...output }]),
    ...(isEdit ? [{ type: 'edit' as const, path: call.path ?? '', ...patchCounts(patch ?? '') }] : []),
    {
      ...toolEvent(call),
      status: isDone ? 'done' : 'failed',
      ...(call.command === undefined && !isEdit && output),
    },
  ]
  return { own, events }
}
