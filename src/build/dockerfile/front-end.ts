/** Asks podimage what a Dockerfile means, and what of the build context its instructions read. */
import { closeSync, openSync } from 'node:fs'
import { AgentPodError } from '../../core/error.ts'
import type { DockerfileRequest } from './dockerfile-request.ts'
import { contextAnswer, frontEndAnswer, type Graph, type Selected } from './graph.ts'

/** How podimage is called: one job in a process without rights. */
export type RunPodimage = (
  job: Readonly<Record<string, unknown>>,
  o: { readonly files?: readonly number[] | undefined; readonly signal: AbortSignal },
) => Promise<unknown>

export interface KnownImage {
  readonly ref: string
  readonly digest: string
  /** Its configuration as JSON. */
  readonly config: string
}

/** What one copy or mount reads. */
export interface Selection {
  readonly src: string
  readonly wildcard?: boolean | undefined
  readonly include?: readonly string[] | undefined
  readonly exclude?: readonly string[] | undefined
}

const CONVERT_MS = 60_000
const CONTEXT_MS = 10 * 60_000
/** A stage on an image whose ONBUILD instructions name another image, and so on. */
const MOST_ROUNDS = 20

export class FrontEnd {
  readonly #run: RunPodimage
  readonly #platform: string

  constructor(run: RunPodimage, platform: string) {
    this.#run = run
    this.#platform = platform
  }

  /** `resolve` finds the configuration of an image. */
  async graph(
    { name, content, target, args }: DockerfileRequest,
    o: { readonly signal: AbortSignal; resolve(ref: string): Promise<KnownImage> },
  ): Promise<Graph> {
    const images: KnownImage[] = []
    const file = Buffer.from(content, 'utf8').toString('base64')
    for (let round = 0; round < MOST_ROUNDS; round += 1) {
      const known = images.map((one) => ({ ...one, config: Buffer.from(one.config).toString('base64') }))
      const dockerfile = { name, content: file, target, args, platform: this.#platform, images: known }
      const signal = AbortSignal.any([o.signal, AbortSignal.timeout(CONVERT_MS)])
      const answer = frontEndAnswer.parse(await this.#run({ op: 'dockerfile', dockerfile }, { signal }))
      if ('graph' in answer) return answer.graph
      for (const ref of answer.needs) images.push(await o.resolve(ref))
    }
    throw new AgentPodError({
      code: 'invalid_argument',
      reason: 'dockerfile.images',
      message: `${name} needs images that need other images, more than ${MOST_ROUNDS} times`,
    })
  }

  /** Digests of what each selection contains, made from the archive itself. */
  async select(
    archive: string,
    copies: readonly Selection[],
    signal: AbortSignal,
  ): Promise<readonly Selected[]> {
    if (copies.length === 0) return []
    const fd = openSync(archive, 'r')
    try {
      const late = AbortSignal.any([signal, AbortSignal.timeout(CONTEXT_MS)])
      return contextAnswer.parse(
        await this.#run({ op: 'context', context: { copies } }, { files: [fd], signal: late }),
      ).copies
    } finally {
      closeSync(fd)
    }
  }
}
