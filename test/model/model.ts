/**
 * A model service for tests. Agents speak to it as to a real one, over real connections; its answers come
 * from scenarios. A prompt names its scenario by a marker, such as `[[fix]]`. The next answer depends on the
 * request alone, so many conversations can run at once.
 */
import { createHash, randomUUID } from 'node:crypto'
import { createServer as createHttp, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createHttps } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Conversation, Step } from './conversation.ts'
import { filler, TITLE } from './deed.ts'
import { anthropic } from './protocols/anthropic.ts'
import { chat } from './protocols/chat.ts'
import { gemini } from './protocols/gemini.ts'
import type { Protocol } from './protocols/protocol.ts'
import { responses } from './protocols/responses.ts'
import { isScenario, type ScenarioName, scenarioOf } from './scenarios/all.ts'
import { listen } from './talk.ts'

export interface ModelOptions {
  /** For TLS: one certificate for all its names. */
  readonly tls?: { readonly cert: string; readonly key: string }
  /** The accepted keys. If absent, any key is accepted, but a key is required. */
  readonly keys?: readonly string[]
  /** For prompts without a marker. */
  readonly scenario?: ScenarioName
  readonly host?: string
  readonly port?: number
  /** Called for each request, after the answer was decided. */
  readonly notice?: (request: ModelRequest) => void
}

/** A request and a summary of its answer. */
export interface ModelRequest {
  readonly method: string
  /** With the query string. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly protocol: string
  readonly model: string
  readonly key: 'right' | 'wrong' | 'missing' | 'placeholder'
  /** Whether the body contains an accepted key, which must not be there. */
  readonly keyInBody: boolean
  /** Its beginning. */
  readonly body: string
  readonly tools: readonly string[]
  readonly scenario: string
  /** A status other than 200, a tool, or the kind of a step. */
  readonly answer: string
}

export interface Model extends AsyncDisposable {
  readonly url: string
  readonly requests: readonly ModelRequest[]
  close(): Promise<void>
}

const PROTOCOLS = [anthropic, responses, chat, gemini]
const MODELS = ['claude-sonnet-5', 'gpt-5.5', 'gemini-3-pro']
/** As `src/secrets/placeholder.ts` makes them. */
const PLACEHOLDER = /^agentpod[a-z0-9]{40}$/i
const LARGEST_BODY = 32 * 1024 * 1024
const LONGEST_KEPT = 256 * 1024
const MOST_REPEATS_KNOWN = 1000

export async function startModel(options: ModelOptions = {}): Promise<Model> {
  const requests: ModelRequest[] = []
  const parts: Parts = {
    options,
    seen: new Map(),
    tell: (request) => {
      requests.push(request)
      options.notice?.(request)
    },
  }
  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    answer(parts, request, response).catch(() => response.destroy())
  }
  const server = options.tls ? createHttps(options.tls, serve) : createHttp(serve)
  server.on('upgrade', (request: IncomingMessage, socket: Duplex) => refuseUpgrade(parts, request, socket))
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port ?? 0, options.host ?? '127.0.0.1', resolve)
  })
  const { address, port } = server.address() as AddressInfo
  const close = async (): Promise<void> => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  const url = `${options.tls ? 'https' : 'http'}://${address}:${port}`
  return { url, requests, close, [Symbol.asyncDispose]: close }
}

interface Parts {
  readonly options: ModelOptions
  /** How often a request was received, by a digest of its content. */
  readonly seen: Map<string, number>
  readonly tell: (request: ModelRequest) => void
}

async function answer(parts: Parts, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://model')
  const body = await read(request)
  const protocol = request.method === 'POST' ? PROTOCOLS.find(({ path }) => path.test(pathname)) : undefined
  const noted = note(parts.options, request, body, protocol, searchParams)
  if (!protocol) {
    const page = sidePage(request.method ?? '', pathname)
    parts.tell({ ...noted, answer: String(page?.status ?? 404) })
    return json(response, page?.status ?? 404, page?.body ?? { error: { message: 'There is nothing here.' } })
  }
  if (noted.key !== 'right') {
    const { status, message } = protocol.badKey
    parts.tell({ ...noted, answer: String(status) })
    return json(response, status, protocol.refusal(status, message))
  }
  const conversation = protocol.read(JSON.parse(body.toString()), pathname)
  const { scenario = parts.options.scenario ?? 'nothing', talk } = listen(
    conversation,
    repeatsOf(parts, conversation),
  )
  const step = isScenario(scenario)
    ? filledIn(scenarioOf(scenario)(talk), conversation)
    : ({ kind: 'error', status: 400, message: `no scenario is named ${scenario}` } as const)
  const { model, tools, streams } = conversation
  parts.tell({ ...noted, model, tools: tools.map(({ name }) => name), scenario, answer: inShort(step) })
  await take(protocol, step, { model, streams }, response)
}

function note(
  { keys }: ModelOptions,
  request: IncomingMessage,
  body: Buffer,
  protocol: Protocol | undefined,
  query: URLSearchParams,
): ModelRequest {
  // Other paths need the key too, in one of the three ways.
  const key = [...(protocol ? [protocol] : PROTOCOLS)]
    .map((one) => one.key(request.headers, query))
    .find((one) => one !== undefined)
  const headers = Object.entries(request.headers).map(([name, value]) => [name, String(value)])
  return {
    method: request.method ?? '',
    path: request.url ?? '',
    headers: Object.fromEntries(headers),
    protocol: protocol?.name ?? 'none',
    model: '',
    key: judge(key, keys),
    keyInBody: keys?.some((one) => body.includes(one)) ?? false,
    body: body.toString('utf8', 0, LONGEST_KEPT),
    tools: [],
    scenario: '',
    answer: '',
  }
}

function judge(key: string | undefined, keys: readonly string[] | undefined): ModelRequest['key'] {
  if (key === undefined || key === '') return 'missing'
  if (PLACEHOLDER.test(key)) return 'placeholder'
  return keys === undefined || keys.includes(key) ? 'right' : 'wrong'
}

/** Other requests of agents: whether the service is up, how long a text is, which models exist. */
function sidePage(method: string, path: string): { status: number; body: unknown } | undefined {
  if (method === 'HEAD' || path === '/' || path === '/api/hello') return { status: 200, body: {} }
  if (path.endsWith('/v1/messages/count_tokens')) return { status: 200, body: { input_tokens: 2000 } }
  if (path.endsWith(':countTokens')) return { status: 200, body: { totalTokens: 2000 } }
  if (path.endsWith('/v1beta/models'))
    return { status: 200, body: { models: MODELS.map((name) => ({ name: `models/${name}` })) } }
  if (path.endsWith('/models'))
    return {
      status: 200,
      body: {
        object: 'list',
        data: MODELS.map((id) => ({ id, object: 'model', type: 'model', display_name: id })),
      },
    }
  return undefined
}

/** Agents number their requests, so a repeated request is recognised by its content only. */
function repeatsOf({ seen }: Parts, { model, history, form }: Conversation): number {
  const digest = createHash('sha256')
    .update(JSON.stringify([model, history, form]))
    .digest('hex')
  const repeats = seen.get(digest) ?? 0
  if (seen.size >= MOST_REPEATS_KNOWN) seen.clear()
  seen.set(digest, repeats + 1)
  return repeats
}

/** A request for a title is not part of the conversation, although it contains the prompt. */
function filledIn(step: Step, { form }: Conversation): Step {
  if (form.length === 0 || step.kind === 'error') return step
  const fields = form.filter(({ required }) => required).map((field) => [field.name, filler(field, TITLE)])
  return { kind: 'text', text: JSON.stringify(Object.fromEntries(fields)) }
}

function inShort(step: Step): string {
  if (step.kind === 'call') return step.call.tool
  return step.kind === 'error' ? String(step.status) : step.kind
}

async function take(
  protocol: Protocol,
  step: Step,
  { model, streams }: { readonly model: string; readonly streams: boolean },
  response: ServerResponse,
): Promise<void> {
  if (step.kind === 'error') {
    const { status, message, retryAfterS } = step
    if (retryAfterS !== undefined) response.setHeader('retry-after', retryAfterS)
    return json(response, status, protocol.refusal(status, message))
  }
  const call = step.kind === 'call' ? step.call : undefined
  const said = { id: randomUUID().replaceAll('-', ''), model, text: step.text, call }
  if (!streams && step.kind !== 'cut') return json(response, 200, protocol.whole(said))
  const pieces = protocol.stream(said)
  const everyMs = step.kind === 'text' ? (step.everyMs ?? 0) : 0
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  for (const [index, piece] of pieces.entries()) {
    if (response.destroyed) return
    if (step.kind === 'cut' && index > pieces.length / 2) {
      // Waits a moment, so that the client receives the beginning before the connection breaks.
      await pause(50)
      return void response.destroy()
    }
    response.write(piece)
    if (everyMs > 0) await pause(everyMs)
  }
  response.end()
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}

/** Codex tries a websocket first, and continues without one if it is refused. */
function refuseUpgrade({ options, tell }: Parts, request: IncomingMessage, socket: Duplex): void {
  socket.on('error', () => socket.destroy())
  const noted = note(options, request, Buffer.alloc(0), undefined, new URLSearchParams())
  tell({ ...noted, answer: '426' })
  socket.end('HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
}

async function read(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > LARGEST_BODY) throw new Error('the request is too large')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
