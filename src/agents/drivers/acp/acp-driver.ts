/**
 * The Agent Client Protocol, version 1: JSON-RPC 2.0, one message per line, over standard input and output.
 * One driver for every agent that speaks it; differences between agents are in `AcpOptions`.
 *
 * SECURITY: the client offers neither files nor terminals. The agent does everything itself, in its sandbox.
 */

import type { RunEventBody } from '../../../core/run.ts'
import {
  isObject,
  type JsonObject,
  listAt,
  objectAt,
  stringAt,
  valueAt,
} from '../../../util/untrusted-json.ts'
import type { Driver, DriverStep, Question, Turn, TurnEnd } from '../driver.ts'
import { clip, LONGEST_ERROR, LONGEST_TEXT } from '../output/clip.ts'
import { readLine } from '../output/json.ts'
import { isSession } from '../output/session-name.ts'
import { permissionAbout, permissionOptions } from './permission.ts'
import { type Setting, settingsFor } from './settings.ts'
import {
  mergeTool,
  type ToolCallOptions,
  type ToolState,
  toolEvents,
  unfinishedToolEvents,
  withTool,
} from './tool-call.ts'
import { chunkTokens, promptTokens, type TokenCounting, type UsedTokens, updateTokens } from './usage.ts'

/** How an agent differs from the others. */
export interface AcpOptions extends ToolCallOptions {
  /**
   * Modes without and with questions; the first mode that the agent offers is used. Empty if files or
   * variables set it.
   */
  readonly modes: { readonly bypass: readonly string[]; readonly asking: readonly string[] }
  /** Other options to set, by id. */
  options?(asks: boolean): Readonly<Record<string, string>>
  /** Whether it accepts models that it does not offer, which are then set over the protocol. */
  readonly takesAnyModel?: boolean | undefined
  /** Whether it ignores MCP servers that the protocol names, so that its settings have to name them. */
  readonly ignoresMcp?: boolean | undefined
  /** The authentication method for the key, if the agent requires one. */
  readonly authMethod?: string | undefined
  /** How it counts tokens, if it deviates from the protocol. */
  readonly counting?: TokenCounting | undefined
  /** The `_meta` of requests that open a session, made from the prompt of the turn. */
  sessionMeta?(prompt: string): Readonly<Record<string, unknown>>
  /** Whether it keeps sending old messages after it reported that a conversation is loaded. */
  readonly replaysLate?: boolean | undefined
  /**
   * Matches the last message of a failed turn that the agent reports as done; the group is the error message.
   */
  readonly complaint?: RegExp | undefined
}

type Awaited = 'initialize' | 'authenticate' | 'new' | 'resume' | 'load' | 'setting' | 'prompt'

/** What remains to be done before the prompt can be sent. */
interface Job {
  readonly prompt: string
  readonly model: string | undefined
  readonly asks: boolean
  readonly mcpServers: Turn['mcpServers']
  readonly session: string | undefined
  readonly canResume: boolean
  readonly canLoad: boolean
  readonly hasAuthenticated: boolean
  readonly settings: readonly Setting[]
  /** How often it is still asked whether it has sent all old messages; 0 if that does not matter. */
  readonly patience: number
  /** Whether it sent anything since it was last asked. */
  readonly isTelling: boolean
}

interface Asked {
  readonly permission: string
  /** The agent's own id of the call. */
  readonly tool: string
  readonly id: string | number
  readonly allow: string
  readonly deny: string | undefined
}

export interface AcpState {
  readonly workspace: string
  /** Names of its MCP servers. */
  readonly servers: readonly string[]
  /** Undefined after the prompt was sent. */
  readonly job: Job | undefined
  readonly nextId: number
  /** The open request; there is at most one. */
  readonly awaited: { readonly id: number; readonly what: Awaited } | undefined
  readonly session: string | undefined
  readonly asked: readonly Asked[]
  readonly tools: readonly ToolState[]
  /** Counters for our own ids. */
  readonly count: { readonly tool: number; readonly permission: number; readonly speech: number }
  /** The kind of its last message, so that parts of one message are joined. */
  readonly speaking: 'message' | 'thought' | undefined
  /** The beginning of its last message. */
  readonly said: string
  readonly used: UsedTokens
  readonly isResumed: boolean
  readonly isCanceled: boolean
  readonly isOver: boolean
}

type AcpStep = DriverStep<AcpState>

const PROTOCOL_VERSION = 1
const MOST_ASKED = 64
const LONGEST_ID = 256
const LONGEST_SAID = 400
const MOST_PATIENCE = 50

export function acpDriver(ways: AcpOptions): Driver<AcpState> {
  return {
    talks: true,
    begin: (turn) => begin(turn, ways),
    line: (state, line) => onLine(state, line, ways),
    answer,
    cancel,
    exit,
  }
}

function begin({ workspace, prompt, model, asks, mcpServers, session }: Turn, ways: AcpOptions): AcpStep {
  const state: AcpState = {
    workspace,
    servers: mcpServers.map(({ name }) => name),
    job: {
      prompt,
      model,
      asks,
      mcpServers: ways.ignoresMcp ? [] : mcpServers,
      session,
      canResume: false,
      canLoad: false,
      hasAuthenticated: false,
      settings: [],
      patience: 0,
      isTelling: false,
    },
    nextId: 1,
    awaited: undefined,
    session: undefined,
    asked: [],
    tools: [],
    count: { tool: 0, permission: 0, speech: 0 },
    speaking: undefined,
    said: '',
    used: {},
    isResumed: session !== undefined,
    isCanceled: false,
    isOver: false,
  }
  return request(state, 'initialize', 'initialize', {
    protocolVersion: PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
    clientInfo: { name: 'agentpod', title: 'AgentPod', version: '1' },
  })
}

function onLine(state: AcpState, line: string, ways: AcpOptions): AcpStep {
  const message = state.isOver ? undefined : readLine(line)
  if (!message) return still(state)
  const method = stringAt(message, 'method')
  const id = valueAt(message, 'id')
  if (method === undefined) return onResponse(state, message, ways)
  if (id === undefined)
    return method === 'session/update' ? onUpdate(state, objectAt(message, 'params'), ways) : still(state)
  if (!isId(id)) return still(state)
  if (method === 'session/request_permission') return onQuestion(state, id, objectAt(message, 'params'), ways)
  return { ...still(state), send: [refusal(id, method)] }
}

/** Ids of JSON-RPC are strings and numbers; anything else gets no answer. */
function isId(id: unknown): id is string | number {
  return typeof id === 'string' ? id.length <= LONGEST_ID : typeof id === 'number' && Number.isFinite(id)
}

function refusal(id: string | number, method: string): string {
  const error = { code: -32601, message: `${clip(method, LONGEST_ID)} is not supported` }
  return JSON.stringify({ jsonrpc: '2.0', id, error })
}

function onResponse(state: AcpState, message: JsonObject, ways: AcpOptions): AcpStep {
  const { awaited, job } = state
  // An unexpected or repeated answer.
  if (!awaited || valueAt(message, 'id') !== awaited.id) return still(state)
  const next = { ...state, awaited: undefined }
  const error = valueAt(message, 'error')
  const result = valueAt(message, 'result')
  if (awaited.what === 'prompt')
    return error === undefined ? promptDone(next, result, ways) : failed(next, error)
  if (!job) return still(next)
  if (error !== undefined) return onRefusal(next, job, awaited.what, error, ways)
  switch (awaited.what) {
    case 'initialize':
      return opened(initialized(next, job, result), ways)
    case 'authenticate':
      return opened({ ...next, job: { ...job, hasAuthenticated: true } }, ways)
    case 'setting':
      return settle({ ...next, job: { ...job, settings: job.settings.slice(1) } }, ways)
    default:
      return onSession(next, job, awaited.what, result, ways)
  }
}

function initialized(state: AcpState, job: Job, result: unknown): AcpState {
  const canResume = isObject(valueAt(result, 'agentCapabilities', 'sessionCapabilities', 'resume'))
  const canLoad = valueAt(result, 'agentCapabilities', 'loadSession') === true
  return { ...state, job: { ...job, canResume, canLoad } }
}

/** Requests a session: the one to resume, or a new one. */
function opened(state: AcpState, ways: AcpOptions): AcpStep {
  const { job, workspace } = state
  if (!job) return still(state)
  const mcpServers = job.mcpServers.map(({ name, command, args, env }) => ({
    name,
    command,
    args,
    env: Object.entries(env).map(([key, value]) => ({ name: key, value })),
  }))
  const common = {
    cwd: workspace,
    mcpServers,
    ...(ways.sessionMeta && { _meta: ways.sessionMeta(job.prompt) }),
  }
  if (job.session === undefined) return request(state, 'new', 'session/new', common)
  const params = { ...common, sessionId: job.session }
  if (job.canResume) return request(state, 'resume', 'session/resume', params)
  if (job.canLoad) return request(state, 'load', 'session/load', params)
  return over(state, 'failed', 'it cannot resume an earlier conversation')
}

/** Handles a request that the agent refused, and tries the alternative. */
function onRefusal(state: AcpState, job: Job, what: Awaited, error: unknown, ways: AcpOptions): AcpStep {
  const isOpening = what === 'new' || what === 'resume' || what === 'load'
  const { authMethod } = ways
  if (isOpening && authMethod !== undefined && !job.hasAuthenticated && valueAt(error, 'code') === -32000) {
    const asked = { ...state, job: { ...job, hasAuthenticated: true } }
    return request(asked, 'authenticate', 'authenticate', { methodId: authMethod })
  }
  if (what === 'resume' && job.canLoad) return opened({ ...state, job: { ...job, canResume: false } }, ways)
  const [setting, ...settings] = job.settings
  if (what === 'setting' && setting && !setting.must) {
    const step = settle({ ...state, job: { ...job, settings } }, ways)
    return {
      ...step,
      events: [{ type: 'note', text: `${setting.what}: ${errorText(error)}` }, ...step.events],
    }
  }
  const prefix = what === 'setting' && setting ? `${setting.what}: ` : ''
  return over(state, 'failed', `${prefix}${errorText(error)}`)
}

function onSession(state: AcpState, job: Job, what: Awaited, result: unknown, ways: AcpOptions): AcpStep {
  const session = what === 'new' ? stringAt(result, 'sessionId') : job.session
  if (!isSession(session)) return over(state, 'failed', 'it returned no valid session id')
  const { asks, model } = job
  const wanted = settingsFor(result, {
    asks,
    model,
    modes: asks ? ways.modes.asking : ways.modes.bypass,
    options: ways.options?.(asks) ?? {},
    takesAnyModel: ways.takesAnyModel === true,
  })
  const known = { ...state, session }
  if ('failure' in wanted) return { ...over(known, 'failed', clip(wanted.failure, LONGEST_ERROR)), session }
  const patience = what === 'load' && ways.replaysLate ? MOST_PATIENCE : 0
  const ready = { ...job, settings: wanted.settings, patience, isTelling: patience > 0 }
  return { ...settle({ ...known, job: ready }, ways), session }
}

/** Sends the next setting, or the prompt after all settings. */
function settle(state: AcpState, ways: AcpOptions): AcpStep {
  const { job, session } = state
  if (!job) return still(state)
  const [setting] = job.settings
  if (setting) return request(state, 'setting', setting.method, { sessionId: session, ...setting.params })
  if (job.isTelling && job.patience > 0) {
    const [modeId] = job.asks ? ways.modes.asking : ways.modes.bypass
    const waiting = { ...state, job: { ...job, isTelling: false, patience: job.patience - 1 } }
    return request(waiting, 'setting', 'session/set_mode', { sessionId: session, modeId })
  }
  const prompt = [{ type: 'text', text: job.prompt }]
  return request({ ...state, job: undefined }, 'prompt', 'session/prompt', { sessionId: session, prompt })
}

function promptDone(state: AcpState, result: unknown, ways: AcpOptions): AcpStep {
  const used = promptTokens(state.used, result, ways.counting)
  const [, complaint] = ways.complaint?.exec(state.said) ?? []
  const end = endOf(stringAt(result, 'stopReason'), state.isCanceled)
  const isFailed = complaint !== undefined && end.how === 'done'
  const step = isFailed ? over(state, 'failed', complaint.trim()) : over(state, end.how, end.message)
  // Not every agent reports the end of a refused call.
  return { ...step, events: unfinishedToolEvents(state.tools), tokens: used.tokens }
}

function endOf(stopReason: string | undefined, isCanceled: boolean): TurnEnd {
  switch (stopReason) {
    case 'end_turn':
      return { how: 'done', message: undefined }
    case 'cancelled':
      // Some agents stop after a refusal.
      return isCanceled
        ? { how: 'canceled', message: undefined }
        : { how: 'refused', message: 'it stopped because its request was denied' }
    case 'refusal':
      return { how: 'refused', message: 'the model refused to continue' }
    case 'max_tokens':
      return { how: 'limit', message: 'the model reached its output limit' }
    case 'max_turn_requests':
      return { how: 'limit', message: 'the agent reached its limit of model requests' }
    default:
      return {
        how: 'failed',
        message: `it stopped for an unknown reason: ${clip(stopReason ?? 'none', 100)}`,
      }
  }
}

/** An agent that is told to stop may report that as an error. */
function failed(state: AcpState, error: unknown): AcpStep {
  return over(state, state.isCanceled ? 'canceled' : 'failed', errorText(error))
}

function errorText(error: unknown): string {
  const said = stringAt(error, 'message') ?? 'an error without a message'
  // Some agents pass on the error of the model's API.
  const message = stringAt(readLine(said), 'error', 'message') ?? said
  const data = valueAt(error, 'data')
  const more =
    typeof data === 'string'
      ? data
      : (stringAt(data, 'details') ?? stringAt(data, 'message') ?? stringAt(data, 'error'))
  return clip(more === undefined || message.includes(more) ? message : `${message}: ${more}`, LONGEST_ERROR)
}

function over(state: AcpState, how: TurnEnd['how'], message: string | undefined): AcpStep {
  const ended = { ...state, isOver: true, job: undefined, asked: [], tools: [], awaited: undefined }
  return { ...still(ended), end: { how, message } }
}

function onUpdate(state: AcpState, params: JsonObject, ways: AcpOptions): AcpStep {
  const update = objectAt(params, 'update')
  // A resumed conversation may be replayed from its beginning: everything before the prompt is old. Sessions
  // of subagents are skipped.
  if (state.job) return still({ ...state, job: { ...state.job, isTelling: true } })
  if (stringAt(params, 'sessionId') !== state.session) return still(state)
  switch (stringAt(update, 'sessionUpdate')) {
    case 'agent_message_chunk':
      return speak(state, 'message', update, ways)
    case 'agent_thought_chunk':
      return speak(state, 'thought', update, ways)
    case 'plan':
      return tell({ ...state, speaking: undefined }, [planEvent(update)])
    case 'tool_call':
    case 'tool_call_update':
      return onTool(state, update, ways)
    case 'usage_update':
      return onUsage(state, update)
    default:
      return still(state)
  }
}

/** Models stream a few words at a time; a longer piece was written by a program. */
const SENTENCE = 30

function speak(state: AcpState, kind: 'message' | 'thought', update: JsonObject, ways: AcpOptions): AcpStep {
  const used = chunkTokens(state.used, update, ways.counting)
  const text = stringAt(update, 'content', 'text')
  if (text === undefined || text === '') return { ...still({ ...state, used }), tokens: used.tokens }
  // An error that arrives as text in one piece is its own message, even if it interrupts another.
  const isWhole = text.endsWith('\n\n') || text.length >= SENTENCE
  const isNew = state.speaking !== kind || (isWhole && ways.complaint?.test(text) === true)
  const speech = state.count.speech + (isNew ? 1 : 0)
  const said = kind === 'thought' ? state.said : clip(`${isNew ? '' : state.said}${text}`, LONGEST_SAID)
  const next = { ...state, used, speaking: kind, said, count: { ...state.count, speech } }
  const words = { message: `m${speech}`, text: clip(text, LONGEST_TEXT) }
  return tell(next, [
    kind === 'message' ? { type: 'message', from: 'agent', ...words } : { type: 'thought', ...words },
  ])
}

const PLAN_STATUS: Readonly<Record<string, 'pending' | 'doing' | 'done'>> = {
  pending: 'pending',
  in_progress: 'doing',
  completed: 'done',
}

function planEvent(update: JsonObject): RunEventBody {
  const entries = listAt(update, 'entries')
    .slice(0, 100)
    .map((entry) => {
      const status = stringAt(entry, 'status') ?? ''
      return {
        text: clip(stringAt(entry, 'content') ?? '', 1000),
        status:
          (Object.hasOwn(PLAN_STATUS, status) ? PLAN_STATUS[status] : undefined) ?? ('pending' as const),
      }
    })
  return { type: 'plan', entries }
}

function onTool(state: AcpState, call: JsonObject, ways: AcpOptions): AcpStep {
  const { state: next, tool } = merged(state, call, ways)
  if (!tool) return still(state)
  const told = toolEvents(tool, call, ways)
  return tell({ ...next, speaking: undefined, tools: withTool(next.tools, told.tool) }, told.events)
}

function merged(
  state: AcpState,
  call: JsonObject,
  words: ToolCallOptions,
): { readonly state: AcpState; readonly tool: ToolState | undefined } {
  const id = stringAt(call, 'toolCallId')
  if (id === undefined || id === '' || id.length > LONGEST_ID) return { state, tool: undefined }
  const before = state.tools.find((one) => one.id === id)
  if (before?.isOver) return { state, tool: before }
  const number = state.count.tool + (before ? 0 : 1)
  const tool = mergeTool(before, call, {
    workspace: state.workspace,
    servers: state.servers,
    words,
    name: `t${number}`,
  })
  return { state: { ...state, count: { ...state.count, tool: number } }, tool }
}

function onUsage(state: AcpState, update: JsonObject): AcpStep {
  // The cost of a whole conversation cannot be used if only part of it belongs to this turn.
  const used = state.isResumed ? state.used : updateTokens(state.used, update)
  return { ...still({ ...state, used }), tokens: used.tokens }
}

function onQuestion(state: AcpState, id: string | number, params: JsonObject, ways: AcpOptions): AcpStep {
  const options = permissionOptions(params)
  const { state: known, tool } = merged(state, objectAt(params, 'toolCall'), ways)
  const about = tool && permissionAbout(tool)
  const isRefused =
    state.isCanceled || state.asked.length >= MOST_ASKED || options.allow === undefined || !tool
  // SECURITY: if it were truncated, the rules would see only part of it.
  if (isRefused || tool.isCut) return { ...still(known), send: [selected(id, options.deny)] }
  // Not every agent announces a call before it asks about it.
  const told = toolEvents(tool, { status: 'in_progress' }, ways)
  const next = { ...known, speaking: undefined, tools: withTool(known.tools, told.tool) }
  if (!about) return { ...tell(next, told.events), send: [selected(id, options.allow)] }
  const number = next.count.permission + 1
  const permission = `p${number}`
  const asked = [
    ...next.asked,
    { permission, tool: tool.id, id, allow: options.allow ?? '', deny: options.deny },
  ]
  const question: Question = { permission, about }
  const count = { ...next.count, permission: number }
  return { ...tell({ ...next, asked, count }, told.events), questions: [question] }
}

/** If the agent offers no refusal, the question is canceled. */
function selected(id: string | number, optionId: string | undefined): string {
  const outcome = optionId === undefined ? { outcome: 'cancelled' } : { outcome: 'selected', optionId }
  return JSON.stringify({ jsonrpc: '2.0', id, result: { outcome } })
}

function answer(state: AcpState, permission: string, said: 'allow' | 'deny'): AcpStep {
  const asked = state.asked.find((one) => one.permission === permission)
  if (!asked) return still(state)
  const left = state.asked.filter((one) => one !== asked)
  const isAllowed = said === 'allow'
  const tools = isAllowed
    ? state.tools
    : state.tools.map((one) => (one.id === asked.tool ? { ...one, isRefused: true } : one))
  const send = [selected(asked.id, isAllowed ? asked.allow : asked.deny)]
  return { ...still({ ...state, asked: left, tools }), send }
}

function cancel(state: AcpState): AcpStep {
  if (state.isOver || state.isCanceled) return still(state)
  const { asked, session, job } = state
  // Before the prompt only the process can be stopped.
  if (job || session === undefined) return over({ ...state, isCanceled: true }, 'canceled', undefined)
  const stop = JSON.stringify({ jsonrpc: '2.0', method: 'session/cancel', params: { sessionId: session } })
  const send = [stop, ...asked.map(({ id }) => selected(id, undefined))]
  return { ...still({ ...state, isCanceled: true, asked: [] }), send }
}

function exit(state: AcpState, exitCode: number): AcpStep {
  if (state.isOver) return still(state)
  if (state.isCanceled) return over(state, 'canceled', undefined)
  return over(state, 'failed', `it exited with code ${exitCode} before it was done`)
}

function request(state: AcpState, what: Awaited, method: string, params: unknown): AcpStep {
  const id = state.nextId
  const send = [JSON.stringify({ jsonrpc: '2.0', id, method, params })]
  return { ...still({ ...state, nextId: id + 1, awaited: { id, what } }), send }
}

function tell(state: AcpState, events: readonly RunEventBody[]): AcpStep {
  return { ...still(state), events }
}

function still(state: AcpState): AcpStep {
  return { state, events: [], send: [], questions: [] }
}
