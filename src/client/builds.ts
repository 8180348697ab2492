/** Environments: recipes that are built into layers, once. */
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import type {
  BuildEventView,
  BuildRequest,
  LayerView,
  PrunedView,
  ToolchainsView,
} from '../api/schema/build.ts'
import { AgentPodError } from '../core/error.ts'
import { connectError, type Transport } from './transport.ts'

export type BuildStep = Extract<BuildEventView, { step: unknown }>['step']

export interface BuildOptions {
  /** Steps of one project are held against each other to say what changed. */
  readonly project?: string | undefined
  /** The archives that steps name, by digest; asked for only where a step has to be built. */
  readonly files?: ((digest: string) => Readable | Buffer) | undefined
  /** Where it is built; the default provider when left out. */
  readonly provider?: string | undefined
  readonly keepFailed?: boolean | undefined
  readonly again?: string | undefined
  readonly signal?: AbortSignal | undefined
  onProgress?(text: string): void
  onStep?(step: BuildStep): void
  onOutput?(step: string, data: Buffer): void
}

export interface Built {
  /** What `create` takes as `environment.digest`; undefined for a recipe without steps. */
  readonly digest: string | undefined
  /** The digest of the base's own layer, where it has one. */
  readonly base: string | undefined
  readonly sizeBytes: number
}

const BUILDS = '/v1/builds'
/** A piece of output is far smaller. */
const LONGEST_LINE = 32 * 1024 * 1024

export class Builds {
  readonly #transport: Transport

  /** Use `AgentPod.builds`. */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Builds what is not there yet. `failed_precondition` names the step that failed. */
  async build(recipe: BuildRequest['recipe'], o: BuildOptions = {}): Promise<Built> {
    const first = await this.#build(recipe, o)
    if (!('needs' in first)) return first
    for (const digest of first.needs) await this.#upload(digest, o)
    const second = await this.#build(recipe, o)
    if (!('needs' in second)) return second
    throw new AgentPodError({
      code: 'unavailable',
      reason: 'build.files',
      message: 'files for the build were sent and are gone again',
      hint: 'try again',
    })
  }

  /** What a provider has to build with; the default one when left out. */
  async toolchains(provider?: string): Promise<ToolchainsView> {
    const query = provider === undefined ? '' : `?${new URLSearchParams({ provider })}`
    return (await this.#transport.json('GET', `${BUILDS}/toolchains${query}`)) as ToolchainsView
  }

  async layers(): Promise<LayerView[]> {
    return (await this.#transport.json('GET', `${BUILDS}/layers`)) as LayerView[]
  }

  /** Removes layers nobody stands on until what is left takes at most so much. */
  async prune(keepBytes: number, o: { readonly dryRun?: boolean } = {}): Promise<PrunedView> {
    return (await this.#transport.json('POST', `${BUILDS}/prune`, { keepBytes, ...o })) as PrunedView
  }

  async #upload(digest: string, o: BuildOptions): Promise<void> {
    const body = o.files?.(digest)
    const response = await this.#transport.open({
      method: 'POST',
      path: `${BUILDS}/files/${digest}`,
      headers: { 'content-type': 'application/x-tar' },
      body,
      signal: o.signal,
    })
    response.resume()
  }

  async #build(
    recipe: BuildRequest['recipe'],
    o: BuildOptions,
  ): Promise<Built | { readonly needs: readonly string[] }> {
    const { project, provider, keepFailed, again } = o
    const body: BuildRequest = { recipe, project, provider, keepFailed, again }
    const response = await this.#transport.open({
      method: 'POST',
      path: BUILDS,
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify(body)),
      signal: o.signal,
    })
    for await (const event of lines(response)) {
      if ('built' in event)
        return { digest: event.built.digest, base: event.built.base, sizeBytes: event.built.sizeBytes }
      if ('needs' in event) return event
      if ('error' in event) throw connectError(event.error, 'the build failed')
      if ('progress' in event) o.onProgress?.(event.progress)
      if ('step' in event) o.onStep?.(event.step)
      if ('output' in event) o.onOutput?.(event.output.name, Buffer.from(event.output.data, 'base64'))
    }
    throw new AgentPodError({
      code: 'unavailable',
      reason: 'stream.cut',
      message: 'the server went away during the build',
      hint: 'try again: what was built is there',
    })
  }
}

async function* lines(response: IncomingMessage): AsyncGenerator<BuildEventView> {
  let rest = ''
  response.setEncoding('utf8')
  for await (const text of response as AsyncIterable<string>) {
    const parts = (rest + text).split('\n')
    rest = parts.pop() ?? ''
    if (rest.length > LONGEST_LINE) throw damaged()
    for (const part of parts) yield read(part)
  }
}

function read(line: string): BuildEventView {
  try {
    return JSON.parse(line) as BuildEventView
  } catch (error) {
    throw damaged(error)
  }
}

function damaged(cause?: unknown): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'stream.malformed',
    message: 'what the server said about the build is no message',
    cause,
  })
}
