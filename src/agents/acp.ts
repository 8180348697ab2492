/**
 * The Agent Client Protocol, version 1: JSON-RPC 2.0, a message a line, over standard input and output. One driver for every agent that speaks it;
 * what is different about one of them is in `AcpWays`.
 *
 * SECURITY: the client offers neither files nor terminals. Whatever the agent does it does by itself, inside its sandbox.
 */
import type { RunEventBody } from '../core/run.ts'
import { aboutTool, optionsIn } from './acp-permission.ts'
import { type Setting, settingsFor } from './acp-settings.ts'
import { mergeTool, openEvents, type ToolState, type ToolWords, toolEvents, withTool } from './acp-tool.ts'
import { type Counting, chunkTokens, promptTokens, type Used, updateTokens } from './acp-usage.ts'
import { clip, LONGEST_ERROR, LONGEST_TEXT } from './clip.ts'
import type { Driver, Question, Step, Turn, TurnEnd } from './driver.ts'
import { at, isObject, type Json, listAt, objectAt, readLine, textAt } from './json.ts'
import { isSession } from './session.ts'

/** What is particular about an agent. */
export interface AcpWays extends ToolWords {
  /** Modes in which it asks nothing, and in which it asks; the first that it offers is taken. Empty: its files or variables say so. */
  readonly modes: { readonly bypass: readonly string[]; readonly asking: readonly string[] }
  /** Other options to set, by id. */
  options?(asks: boolean): Readonly<Record<string, string>>
  /** Whether it takes models that it does not offer, and has to be told them here. */
  readonly takesAnyModel?: boolean | undefined
  /** Whether servers have to be written down for it, since it does not start those that the protocol names. */
  readonly ignoresMcp?: boolean | undefined
  /** How it is told to use the key that it finds, where it wants to be told. */
  readonly authMethod?: string | undefined
  /** How it counts tokens, where it is not as the protocol means it. */
  readonly counting?: Counting | undefined
  /** The `_meta` of requests that open a session, made from the prompt of the turn. */
  sessionMeta?(prompt: string): Readonly<Record<string, unknown>>
  /** Whether it goes on telling an old conversation after it has said that it is loaded. */
  readonly replaysLate?: boolean | undefined
  /** Fits its last message where it calls a turn done that has failed; the group in it is what is worth telling. */
  readonly complaint?: RegExp | undefined
}

type Awaited = 'initialize' | 'authenticate' | 'new' | 'resume' | 'load' | 'setting' | 'prompt'

/** What is still to be done before the prompt can be given. */
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
  /** How often it is still asked whether it has told all of an old conversation; 0 where that is not the question. */
  readonly patience: number
  /** Whether it has told anything since it was asked last. */
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
  /** Names of the MCP servers that it was given. */
  readonly servers: readonly string[]
  /** Undefined once the prompt is given. */
  readonly job: Job | undefined
  readonly nextId: number
  /** One request at a time. */
  readonly awaited: { readonly id: number; readonly what: Awaited } | undefined
  readonly session: string | undefined
  readonly asked: readonly Asked[]
  readonly tools: readonly ToolState[]
  /** Numbers that names of ours are made of. */
  readonly count: { readonly tool: number; readonly permission: number; readonly speech: number }
  /** What it said last, so that parts of one message are known as such. */
  readonly speaking: 'message' | 'thought' | undefined
  /** The beginning of its last message. */
  readonly said: string
  readonly used: Used
  readonly isResumed: boolean
  readonly isCanceled: boolean
  readonly isOver: boolean
}

type AcpStep = Step<AcpState>

const PROTOCOL_VERSION = 1
const MOST_ASKED = 64
const LONGEST_ID = 256
const LONGEST_SAID = 400
const MOST_PATIENCE = 50

export function acpDriver(ways: AcpWays): Driver<AcpState> {
  return {
    talks: true,
    begin: (turn) => begin(turn, ways),
    line: (state, line) => onLine(state, line, ways),
    answer,
    cancel,
    exit,
  }
}

function begin({ workspace, prompt, model, asks, mcpServers, session }: Turn, ways: AcpWays): AcpStep {
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

function onLine(state: AcpState, line: string, ways: AcpWays): AcpStep {
  const message = state.isOver ? undefined : readLine(line)
  if (!message) return still(state)
  const method = textAt(message, 'method')
  const id = at(message, 'id')
  if (method === undefined) return onResponse(state, message, ways)
  if (id === undefined)
    return method === 'session/update' ? onUpdate(state, objectAt(message, 'params'), ways) : still(state)
  if (!isId(id)) return still(state)
  if (method === 'session/request_permission') return onQuestion(state, id, objectAt(message, 'params'), ways)
  return { ...still(state), send: [refusal(id, method)] }
}

/** JSON-RPC has texts and numbers for ids; whatever else stands there gets no answer. */
function isId(id: unknown): id is string | number {
  return typeof id === 'string' ? id.length <= LONGEST_ID : typeof id === 'number' && Number.isFinite(id)
}

function refusal(id: string | number, method: string): string {
  const error = { code: -32601, message: `${clip(method, LONGEST_ID)} is not supported` }
  return JSON.stringify({ jsonrpc: '2.0', id, error })
}

function onResponse(state: AcpState, message: Json, ways: AcpWays): AcpStep {
  const { awaited, job } = state
  // An answer that nobody waits for, or that comes a second time.
  if (!awaited || at(message, 'id') !== awaited.id) return still(state)
  const next = { ...state, awaited: undefined }
  const error = at(message, 'error')
  const result = at(message, 'result')
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
  const canResume = isObject(at(result, 'agentCapabilities', 'sessionCapabilities', 'resume'))
  const canLoad = at(result, 'agentCapabilities', 'loadSession') === true
  return { ...state, job: { ...job, canResume, canLoad } }
}

/** Asks for a session: the one that goes on, or a new one. */
function opened(state: AcpState, ways: AcpWays): AcpStep {
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
  return over(state, 'failed', 'it cannot go on with an earlier conversation')
}

/** What it would not do, and what is tried instead. */
function onRefusal(state: AcpState, job: Job, what: Awaited, error: unknown, ways: AcpWays): AcpStep {
  const isOpening = what === 'new' || what === 'resume' || what === 'load'
  const { authMethod } = ways
  if (isOpening && authMethod !== undefined && !job.hasAuthenticated && at(error, 'code') === -32000) {
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

function onSession(state: AcpState, job: Job, what: Awaited, result: unknown, ways: AcpWays): AcpStep {
  const session = what === 'new' ? textAt(result, 'sessionId') : job.session
  if (!isSession(session)) return over(state, 'failed', 'it did not say what its conversation is called')
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

/** The next setting, or the prompt when all are made. */
function settle(state: AcpState, ways: AcpWays): AcpStep {
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

function promptDone(state: AcpState, result: unknown, ways: AcpWays): AcpStep {
  const used = promptTokens(state.used, result, ways.counting)
  const [, complaint] = ways.complaint?.exec(state.said) ?? []
  const end = endOf(textAt(result, 'stopReason'), state.isCanceled)
  const isFailed = complaint !== undefined && end.how === 'done'
  const step = isFailed ? over(state, 'failed', complaint.trim()) : over(state, end.how, end.message)
  // Not every agent tells of the end of a call that it was refused.
  return { ...step, events: openEvents(state.tools), tokens: used.tokens }
}

function endOf(stopReason: string | undefined, isCanceled: boolean): TurnEnd {
  switch (stopReason) {
    case 'end_turn':
      return { how: 'done', message: undefined }
    case 'cancelled':
      // Some stop when they are refused something.
      return isCanceled
        ? { how: 'canceled', message: undefined }
        : { how: 'refused', message: 'it stopped, since it was refused what it asked for' }
    case 'refusal':
      return { how: 'refused', message: 'the model refused to go on' }
    case 'max_tokens':
      return { how: 'limit', message: 'the model came to the end of what it may write' }
    case 'max_turn_requests':
      return { how: 'limit', message: 'the agent came to the end of what it may ask the model' }
    default:
      return {
        how: 'failed',
        message: `it stopped for a reason that is not known: ${clip(stopReason ?? 'none', 100)}`,
      }
  }
}

/** An agent that is told to stop may call that an error. */
function failed(state: AcpState, error: unknown): AcpStep {
  return over(state, state.isCanceled ? 'canceled' : 'failed', errorText(error))
}

function errorText(error: unknown): string {
  const said = textAt(error, 'message') ?? 'an error without a message'
  // Some hand on what the model's service wrote.
  const message = textAt(readLine(said), 'error', 'message') ?? said
  const data = at(error, 'data')
  const more =
    typeof data === 'string'
      ? data
      : (textAt(data, 'details') ?? textAt(data, 'message') ?? textAt(data, 'error'))
  return clip(more === undefined || message.includes(more) ? message : `${message}: ${more}`, LONGEST_ERROR)
}

function over(state: AcpState, how: TurnEnd['how'], message: string | undefined): AcpStep {
  const ended = { ...state, isOver: true, job: undefined, asked: [], tools: [], awaited: undefined }
  return { ...still(ended), end: { how, message } }
}

function onUpdate(state: AcpState, params: Json, ways: AcpWays): AcpStep {
  const update = objectAt(params, 'update')
  // A conversation that goes on may be told once more from its beginning: what comes before the prompt is old. Sessions of helpers are not told.
  if (state.job) return still({ ...state, job: { ...state.job, isTelling: true } })
  if (textAt(params, 'sessionId') !== state.session) return still(state)
  switch (textAt(update, 'sessionUpdate')) {
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

/** Models speak a word at a time; what is longer was written by a program. */
const SENTENCE = 30

function speak(state: AcpState, kind: 'message' | 'thought', update: Json, ways: AcpWays): AcpStep {
  const used = chunkTokens(state.used, update, ways.counting)
  const text = textAt(update, 'content', 'text')
  if (text === undefined || text === '') return { ...still({ ...state, used }), tokens: used.tokens }
  // An error that comes as words, in one piece, is a message of its own, also where it cuts another short.
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

function planEvent(update: Json): RunEventBody {
  const entries = listAt(update, 'entries')
    .slice(0, 100)
    .map((entry) => {
      const status = textAt(entry, 'status') ?? ''
      return {
        text: clip(textAt(entry, 'content') ?? '', 1000),
        status:
          (Object.hasOwn(PLAN_STATUS, status) ? PLAN_STATUS[status] : undefined) ?? ('pending' as const),
      }
    })
  return { type: 'plan', entries }
}

function onTool(state: AcpState, call: Json, ways: AcpWays): AcpStep {
  const { state: next, tool } = merged(state, call, ways)
  if (!tool) return still(state)
  const told = toolEvents(tool, call, ways)
  return tell({ ...next, speaking: undefined, tools: withTool(next.tools, told.tool) }, told.events)
}

function merged(
  state: AcpState,
  call: Json,
  words: ToolWords,
): { readonly state: AcpState; readonly tool: ToolState | undefined } {
  const id = textAt(call, 'toolCallId')
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

function onUsage(state: AcpState, update: Json): AcpStep {
  // What it says a conversation has cost is of no use where only a part of it is this turn's.
  const used = state.isResumed ? state.used : updateTokens(state.used, update)
  return { ...still({ ...state, used }), tokens: used.tokens }
}

function onQuestion(state: AcpState, id: string | number, params: Json, ways: AcpWays): AcpStep {
  const options = optionsIn(params)
  const { state: known, tool } = merged(state, objectAt(params, 'toolCall'), ways)
  const about = tool && aboutTool(tool)
  const isRefused =
    state.isCanceled || state.asked.length >= MOST_ASKED || options.allow === undefined || !tool
  // SECURITY: of what is cut only a part would be held against the rules.
  if (isRefused || tool.isCut) return { ...still(known), send: [selected(id, options.deny)] }
  // Not every agent tells of a call before it asks about it.
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

/** Without a word for no, it is told that nobody will answer. */
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
  // Before the prompt there is nothing to stop but the process.
  if (job || session === undefined) return over({ ...state, isCanceled: true }, 'canceled', undefined)
  const stop = JSON.stringify({ jsonrpc: '2.0', method: 'session/cancel', params: { sessionId: session } })
  const send = [stop, ...asked.map(({ id }) => selected(id, undefined))]
  return { ...still({ ...state, isCanceled: true, asked: [] }), send }
}

function exit(state: AcpState, exitCode: number): AcpStep {
  if (state.isOver) return still(state)
  if (state.isCanceled) return over(state, 'canceled', undefined)
  return over(state, 'failed', `it ended with exit code ${exitCode} before it was done`)
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
