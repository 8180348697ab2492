/** Calls to the Docker daemon. Nothing of dockerode is loaded before the first one. */
import { access, constants } from 'node:fs/promises'
import type { Duplex, Readable } from 'node:stream'
import { z } from 'zod'
import type { CallOptions } from '../../core/call.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import { callSignal } from './call-signal.ts'
import { connectionOptions } from './connection.ts'
import { unreachable, withoutAnswer } from './daemon-error.ts'
import { type Endpoint, type Environment, findEndpoint } from './endpoint.ts'
import { refused } from './refusal.ts'

/** The oldest Engine API that has what this provider uses: Docker 20.10. */
const OLDEST_API = '1.41'
const LONGEST_ANSWER_BYTES = 64 * 1024 * 1024
/** Whoever comes first asks for all, so that their own deadline does not count. */
const CONNECT: CallOptions = { timeoutMs: 10_000 }

export interface Ask {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, string>> | undefined
  readonly body?: object | undefined
  /** Bytes of a tar archive as the body. */
  readonly archive?: Readable | Buffer | undefined
  /** For X-Registry-Auth. */
  readonly registry?: object | undefined
}

/** The part of dockerode that carries every call. */
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
  readonly #env: Environment
  #connection: Promise<Connection> | undefined
  #onConnected: () => void = () => undefined

  constructor(env: Environment) {
    this.#env = env
  }

  /** Calls back whenever the daemon was reached after it was not known to be there. */
  onConnected(listener: () => void): void {
    this.#onConnected = listener
  }

  /** One whole answer, as JSON where it is some. */
  async json(ask: Ask, o: CallOptions): Promise<unknown> {
    const signal = callSignal(o)
    const { modem, endpoint } = await this.#connected()
    return answerOf(modem, endpoint, ask, { signal, o })
  }

  /** An answer that comes in pieces; the signal ends it at any time. */
  async stream(ask: Ask, o: CallOptions, signal: AbortSignal): Promise<Readable> {
    const { modem, endpoint } = await this.#connected()
    return (await dial(modem, endpoint, ask, { signal, o })) as Readable
  }

  /** A connection that the daemon hands over: raw bytes both ways from here on. The signal is for the opening alone. */
  async hijack(ask: Ask, o: CallOptions, signal: AbortSignal): Promise<Duplex> {
    const { modem, endpoint } = await this.#connected()
    // Node ends a connection that was handed over, too, when the request's signal aborts.
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

  /** Remembered once it worked. A daemon that did not answer is asked again the next time. */
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
    // Where there is no daemon, nothing is loaded for it.
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

/** dockerode would wait for ever for the rest of an answer that was cut off, and hold one of any length. */
async function answerOf(modem: Modem, endpoint: Endpoint, ask: Ask, how: DialOptions): Promise<unknown> {
  const stream = (await dial(modem, endpoint, ask, how)) as Readable
  try {
    return parsedJson((await collect(stream)).toString('utf8'))
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
  return refused(error) ?? withoutAnswer(error, how.o, how.signal) ?? unreachable(error, endpoint)
}

const GOOD = { 200: true, 201: true, 204: true, 304: true }

function dial(modem: Modem, endpoint: Endpoint, ask: Ask, how: DialOptions): Promise<unknown> {
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

/** What the daemon says is checked once, here. */
export function parseAnswer<T>(schema: z.ZodType<T>, answer: unknown): T {
  const parsed = schema.safeParse(answer)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new AgentPodError({
    code: 'unavailable',
    reason: 'docker.protocol',
    message: `the Docker daemon answered in a way that is not known (${issue?.path.join('.')}: ${issue?.message})`,
    hint: 'check that DOCKER_HOST leads to a Docker daemon',
  })
}

/** All of a small stream; more than `most` bytes is an error. */
export async function collect(stream: Readable, most = LONGEST_ANSWER_BYTES): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > most) {
      stream.destroy()
      throw new AgentPodError({
        code: 'unavailable',
        reason: 'docker.protocol',
        message: 'the Docker daemon’s answer is too long',
      })
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
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
