/** Builds of environments: each recipe is built into layers once. */
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import type {
  BuildEventView,
  BuildRequestBody,
  DockerfileBuildBody,
  LayerView,
  PrunedView,
  ToolchainsView,
} from '../api/schema/build.ts'
import { AgentPodError } from '../core/error.ts'
import { connectError, type Transport } from './transport.ts'

export type BuildStep = Extract<BuildEventView, { step: unknown }>['step']

export interface BuildOptions {
  /** Builds of one project are compared to report what changed. */
  readonly project?: string | undefined
  /** The archives that steps use, by digest; requested only if a step has to be built. */
  readonly files?: ((digest: string) => Readable | Buffer) | undefined
  /** The provider that builds it; the default one when left out. */
  readonly provider?: string | undefined
  readonly keepFailed?: boolean | undefined
  readonly again?: string | undefined
  readonly signal?: AbortSignal | undefined
  onProgress?(text: string): void
  onStep?(step: BuildStep): void
  onOutput?(step: string, data: Buffer): void
}

export interface Built {
  /** The value of `environment.digest` for `create`; undefined for a recipe without steps. */
  readonly digest: string | undefined
  /** The digest of the base's layer, if it has one. */
  readonly base: string | undefined
  readonly sizeBytes: number
}

export type DockerfileDescription = DockerfileBuildBody['dockerfile']
export type DockerfileWarning = Extract<BuildEventView, { warnings: unknown }>['warnings'][number]

export interface DockerfileBuildOptions extends Omit<BuildOptions, 'files' | 'again'> {
  /** The build context: a tar archive whose sha256 is `dockerfile.context`. */
  readonly context?: (() => Readable | Buffer) | undefined
  onWarnings?(warnings: readonly DockerfileWarning[]): void
}

/** The result of a Dockerfile. */
export interface BuiltDockerfile {
  /** The value of `environment.digest` for `create`; undefined if the result is an image as it is. */
  readonly digest: string | undefined
  /** The stored image, if the description has a tag. */
  readonly image: { readonly ref: string; readonly digest: string } | undefined
  /** The image's configuration. */
  readonly config: unknown
  readonly steps: number
  readonly sizeBytes: number
}

const BUILDS = '/v1/builds'
/** Far more than one piece of output. */
const LONGEST_LINE = 32 * 1024 * 1024

export class Builds {
  readonly #transport: Transport

  /** Use `AgentPod.builds`. */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Builds the layers that do not exist yet. `failed_precondition` names the step that failed. */
  async build(recipe: BuildRequestBody['recipe'], o: BuildOptions = {}): Promise<Built> {
    const first = await this.#build(recipe, o)
    if (!('needs' in first)) return first
    for (const digest of first.needs) await this.#upload(digest, o)
    const second = await this.#build(recipe, o)
    if (!('needs' in second)) return second
    throw uploadLost()
  }

  /** Builds a Dockerfile. `failed_precondition` names the line that failed. */
  async dockerfile(
    dockerfile: DockerfileDescription,
    o: DockerfileBuildOptions = {},
  ): Promise<BuiltDockerfile> {
    const { project, provider, keepFailed } = o
    const body: DockerfileBuildBody = { dockerfile, project, provider, keepFailed }
    const ask = (): Promise<AnsweredBuild> => this.#stream(`${BUILDS}/dockerfile`, body, o)
    let answer = await ask()
    if ('needs' in answer) {
      for (const digest of answer.needs) await this.#upload(digest, { ...o, files: o.context })
      answer = await ask()
    }
    if ('needs' in answer) throw uploadLost()
    const { digest, image, config = '{}', steps = 0, sizeBytes } = answer
    return { digest, image, config: JSON.parse(config) as unknown, steps, sizeBytes }
  }

  /** The tools that a provider can build with; the default provider when left out. */
  async toolchains(
    provider?: string,
    o: { /** Whether to list this machine's tools; true if left out. */ readonly host?: boolean } = {},
  ): Promise<ToolchainsView> {
    const query = new URLSearchParams({
      ...(provider !== undefined && { provider }),
      ...(o.host === false && { host: 'false' }),
    }).toString()
    const path = `${BUILDS}/toolchains${query === '' ? '' : `?${query}`}`
    return (await this.#transport.json('GET', path)) as ToolchainsView
  }

  async layers(): Promise<LayerView[]> {
    return (await this.#transport.json('GET', `${BUILDS}/layers`)) as LayerView[]
  }

  /** Removes unused layers until the rest takes at most `keepBytes`. */
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
    recipe: BuildRequestBody['recipe'],
    o: BuildOptions,
  ): Promise<Built | { readonly needs: readonly string[] }> {
    const { project, provider, keepFailed, again } = o
    const body: BuildRequestBody = { recipe, project, provider, keepFailed, again }
    const answer = await this.#stream(BUILDS, body, o)
    return 'needs' in answer
      ? answer
      : { digest: answer.digest, base: answer.base, sizeBytes: answer.sizeBytes }
  }

  async #stream(
    path: string,
    body: object,
    o: Pick<DockerfileBuildOptions, 'signal' | 'onProgress' | 'onStep' | 'onOutput' | 'onWarnings'>,
  ): Promise<AnsweredBuild> {
    const response = await this.#transport.open({
      method: 'POST',
      path,
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify(body)),
      signal: o.signal,
    })
    for await (const event of lines(response)) {
      if ('built' in event) return event.built
      if ('needs' in event) return event
      if ('error' in event) throw connectError(event.error, 'the build failed')
      if ('progress' in event) o.onProgress?.(event.progress)
      if ('warnings' in event) o.onWarnings?.(event.warnings)
      if ('step' in event) o.onStep?.(event.step)
      if ('output' in event) o.onOutput?.(event.output.name, Buffer.from(event.output.data, 'base64'))
    }
    throw new AgentPodError({
      code: 'unavailable',
      reason: 'stream.cut',
      message: 'the connection to the server was lost during the build',
      hint: 'try again: finished steps are not built again',
    })
  }
}

type AnsweredBuild =
  | Extract<BuildEventView, { built: unknown }>['built']
  | { readonly needs: readonly string[] }

function uploadLost(): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'build.files',
    message: 'the server no longer has the files that were uploaded for the build',
    hint: 'try again',
  })
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
    message: 'the server sent a malformed line about the build',
    cause,
  })
}
