/** Calls to the Docker daemon. dockerode is loaded with the first call. */

import { access, constants } from 'node:fs/promises'
import type { Duplex, Readable } from 'node:stream'
import * as z from 'zod'
import type { CallOptions } from '../../../core/call.ts'
import { AgentPodError, isAgentPodError } from '../../../core/error.ts'
import { readBytes } from '../../../util/stream/read-bytes.ts'
import { callSignal } from './call-signal.ts'
import { connectionOptions } from './connection.ts'
import { abortedError, unreachable } from './connection-error.ts'
import { type Endpoint, type EnvironmentVariables, findEndpoint } from './endpoint.ts'
import { responseError } from './response-error.ts'

/** The oldest Engine API with everything that this provider uses: Docker 20.10. */
const OLDEST_API = '1.41'
const LONGEST_ANSWER_BYTES = 64 * 1024 * 1024
/** The first caller connects for all, so its own deadline does not apply. */
const CONNECT: CallOptions = { timeoutMs: 10_000 }

export interface DaemonRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, string>> | undefined
  readonly body?: object | undefined
  /** The body: bytes of a tar archive. */
  readonly archive?: Readable | Buffer | undefined
  /** The value of X-Registry-Auth. */
  readonly registry?: object | undefined
}

/** The part of dockerode that sends every call. */
interface Modem {
  dial(options: object, done: (error: Error | null, answer: unknown) => void): void
}

const VERSION = z.looseObject({
  ApiVersion: z.string(),
  MinAPIVersion: z.string().optional(),
  Version: z.string(),
})

interface Connection {
  readonly modem: Modem
  readonly endpoint: Endpoint
  readonly apiVersion: string
  readonly engineVersion: string
  close(): void
}

export class Daemon {
  readonly #env: EnvironmentVariables
  #connection: Promise<Connection> | undefined
  #onConnected: () => void = () => undefined

  constructor(env: EnvironmentVariables) {
    this.#env = env
  }

  /** Calls back when the daemon is reached for the first time or after it was gone. */
  onConnected(listener: () => void): void {
    this.#onConnected = listener
  }

  /** One complete answer, parsed as JSON if it is JSON. */
  async json(ask: DaemonRequest, o: CallOptions): Promise<unknown> {
    const signal = callSignal(o)
    const { modem, endpoint } = await this.#connected()
    return answerOf(modem, endpoint, ask, { signal, o })
  }

  /** A streamed answer; the signal can end it at any time. */
  async stream(ask: DaemonRequest, o: CallOptions, signal: AbortSignal): Promise<Readable> {
    const { modem, endpoint } = await this.#connected()
    return (await dial(modem, endpoint, ask, { signal, o })) as Readable
  }

  /** A hijacked connection: raw bytes both ways. The signal only aborts the opening. */
  async hijack(ask: DaemonRequest, o: CallOptions, signal: AbortSignal): Promise<Duplex> {
    const { modem, endpoint } = await this.#connected()
    // Node also closes a hijacked connection when the request's signal aborts.
    const opening = new AbortController()
    const give = (): void => opening.abort(signal.reason)
    signal.addEventListener('abort', give, { once: true })
    try {
      signal.throwIfAborted()
      const how = { signal: opening.signal, o, hijack: true }
      return (await dial(modem, endpoint, ask, how)) as Duplex
    } finally {
      signal.removeEventListener('abort', give)
    }
  }

  async endpoint(): Promise<Endpoint> {
    return findEndpoint(this.#env)
  }

  async versions(): Promise<{ readonly api: string; readonly engine: string }> {
    const { apiVersion, engineVersion } = await this.#connected()
    return { api: apiVersion, engine: engineVersion }
  }

  close(): void {
    void this.#connection?.then(
      ({ close }) => close(),
      () => undefined,
    )
    this.#connection = undefined
  }

  /** Cached once it worked. A daemon that did not answer is tried again the next time. */
  #connected(): Promise<Connection> {
    if (this.#connection) return this.#connection
    const made = this.#connect()
    this.#connection = made
    made.then(this.#onConnected, () => {
      if (this.#connection === made) this.#connection = undefined
    })
    return made
  }

  async #connect(): Promise<Connection> {
    const [o, signal] = [CONNECT, callSignal(CONNECT)]
    const endpoint = await findEndpoint(this.#env)
    // Load nothing if there is no daemon.
    if (endpoint.kind === 'unix')
      await access(endpoint.path, constants.W_OK).catch((error) =>
        Promise.reject(unreachable(error, endpoint)),
      )
    const { default: Docker } = await import('dockerode')
    const { options, close } = connectionOptions(endpoint, this.#env)
    const open = (version?: string): Modem =>
      new Docker({ ...options, ...(version && { version }) }).modem as Modem
    try {
      const answer = await answerOf(open(), endpoint, { method: 'GET', path: '/version' }, { signal, o })
      const { ApiVersion, MinAPIVersion = OLDEST_API, Version } = parseAnswer(VERSION, answer)
      if (isOlder(ApiVersion, OLDEST_API)) throw tooOld(Version, ApiVersion)
      const spoken = isOlder(OLDEST_API, MinAPIVersion) ? MinAPIVersion : OLDEST_API
      return { modem: open(`v${spoken}`), endpoint, apiVersion: ApiVersion, engineVersion: Version, close }
    } catch (error) {
      close()
      throw error
    }
  }
}

interface DialOptions {
  readonly signal: AbortSignal
  readonly o: CallOptions
  readonly hijack?: boolean
}

/** dockerode would wait without limit for the rest of a cut answer, and buffer an answer of any length. */
async function answerOf(
  modem: Modem,
  endpoint: Endpoint,
  ask: DaemonRequest,
  how: DialOptions,
): Promise<unknown> {
  const stream = (await dial(modem, endpoint, ask, how)) as Readable
  try {
    return parsedJson((await readAnswer(stream)).toString('utf8'))
  } catch (error) {
    throw failure(error, endpoint, how)
  }
}

function parsedJson(text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text)
  } catch {
    return text
  }
}

function failure(error: unknown, endpoint: Endpoint, how: DialOptions): AgentPodError {
  if (isAgentPodError(error)) return error
  return responseError(error) ?? abortedError(error, how.o, how.signal) ?? unreachable(error, endpoint)
}

const GOOD = { 200: true, 201: true, 204: true, 304: true }

function dial(modem: Modem, endpoint: Endpoint, ask: DaemonRequest, how: DialOptions): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const fail = (error: unknown): void => reject(failure(error, endpoint, how))
    if (how.signal.aborted) return fail(how.signal.reason)
    modem.dial(
      {
        method: ask.method,
        path: ask.query ? `${ask.path}?` : ask.path,
        options: { _query: ask.query ?? {}, _body: ask.body ?? {} },
        ...(ask.archive && { file: ask.archive }),
        ...(ask.registry && { authconfig: ask.registry }),
        ...(how.hijack && { hijack: true, openStdin: true, allowEmpty: true }),
        isStream: true,
        statusCodes: GOOD,
        abortSignal: how.signal,
      },
      (error, answer) => (error ? fail(error) : resolve(answer)),
    )
  })
}

/** Checks an answer of the daemon. */
export function parseAnswer<T>(schema: z.ZodType<T>, answer: unknown): T {
  const parsed = schema.safeParse(answer)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new AgentPodError({
    code: 'unavailable',
    reason: 'docker.protocol',
    message: `the Docker daemon sent an unexpected answer (${issue?.path.join('.')}: ${issue?.message})`,
    hint: 'check that DOCKER_HOST is the address of a Docker daemon',
  })
}

/** Reads a small stream to its end; more than `most` bytes is an error. */
export function readAnswer(stream: Readable, most = LONGEST_ANSWER_BYTES): Promise<Buffer> {
  return readBytes(
    stream,
    most,
    () =>
      new AgentPodError({
        code: 'unavailable',
        reason: 'docker.protocol',
        message: 'the answer of the Docker daemon is too long',
      }),
  )
}

function isOlder(one: string, other: string): boolean {
  const [major = 0, minor = 0] = one.split('.').map(Number)
  const [otherMajor = 0, otherMinor = 0] = other.split('.').map(Number)
  return major < otherMajor || (major === otherMajor && minor < otherMinor)
}

function tooOld(engine: string, api: string): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'docker.old',
    message: `Docker ${engine.slice(0, 40)} speaks API ${api.slice(0, 10)}; AgentPod needs ${OLDEST_API}`,
    hint: 'install Docker 20.10 or newer',
  })
}
