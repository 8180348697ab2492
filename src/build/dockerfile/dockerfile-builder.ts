/**
 * Builds Dockerfiles. podimage says what has to be done, and names the images that it needs; they are
 * resolved here. Vertices whose layer exists are not run, nor what only they need.
 */
import { AgentPodError, invalid } from '../../core/error.ts'
import { imageText, parseImageRef } from '../../core/image-ref.ts'
import { EMPTY_IMAGE, type Image, type Provider } from '../../core/provider.ts'
import { KeyedLock } from '../../util/keyed-lock.ts'
import { DockerfileExecution, type DockerfileParts } from './dockerfile-execution.ts'
import type { DockerfileJob, DockerfileRequest, DockerfileResult } from './dockerfile-request.ts'
import { ResolvedGraph } from './resolved-graph.ts'

const PULL = { timeoutMs: 30 * 60_000 }

export class DockerfileBuilder {
  readonly #parts: DockerfileParts
  readonly #lock = new KeyedLock()

  constructor(parts: DockerfileParts) {
    this.#parts = parts
  }

  async build(request: DockerfileRequest, o: DockerfileJob): Promise<DockerfileResult> {
    const { files, frontEnd } = this.#parts
    if (request.tag !== undefined) checkTag(request.tag, o)
    if (request.context !== undefined && !files.has(o.who.owner, request.context))
      return { kind: 'needs', files: [request.context] }
    const images = new Map<string, Image>()
    const allowed = request.images && new Set(request.images.map((ref) => imageText(parseImageRef(ref))))
    const provider = await this.#provider(o)
    await this.#parts.ownLayers.sweep(provider)
    const resolve = async (ref: string): Promise<Image> => {
      const known = images.get(ref)
      if (known) return known
      const name = imageText(parseImageRef(ref))
      if (allowed && name !== EMPTY_IMAGE && !allowed.has(name)) throw imageRefused(request, ref)
      const image = await this.#image(provider, ref, o)
      images.set(ref, image)
      return image
    }
    const graph = await frontEnd.graph(request, {
      signal: o.signal,
      resolve: async (ref) => {
        const { digest, config } = await resolve(ref)
        if (config === undefined) throw noConfig(ref)
        return { ref, digest, config }
      },
    })
    await o.onWarnings(graph.warnings)
    const resolved = new ResolvedGraph(graph, images, provider)
    return await new DockerfileExecution(
      this.#parts,
      { request, resolved, provider, lock: this.#lock },
      o,
    ).run()
  }

  async #provider(o: DockerfileJob): Promise<Provider> {
    const { engine } = this.#parts
    const wish = { name: 'image' as const, image: EMPTY_IMAGE }
    const { provider } = await engine.providers.prepareBase(wish, () => undefined, {
      provider: o.provider,
      owner: o.who.owner,
    })
    const { rootMounts } = await provider.capabilities(PULL)
    if (provider.layers && provider.images?.store && rootMounts) return provider
    throw new AgentPodError({
      code: 'unsupported',
      reason: 'dockerfile.provider',
      message: `the provider ${provider.name} does not build Dockerfiles`,
      hint: 'leave --provider out: this machine builds them',
    })
  }

  #image(provider: Provider, ref: string, o: DockerfileJob): Promise<Image> {
    const tell = (text: string): void => void o.onEvent({ kind: 'progress', text })
    if (!provider.images) throw new TypeError('the provider was checked to have images')
    const name = imageText(parseImageRef(ref))
    return provider.images.ensure(name, tell, { ...PULL, signal: o.signal, isAnonymous: !o.who.isAdmin })
  }
}

export function checkTag(tag: string, { who }: Pick<DockerfileJob, 'who'>): void {
  const { digest } = parseImageRef(tag)
  if (digest !== undefined)
    throw invalid('image.reference', `${tag} names a digest; an image is stored under a tag`)
  // SECURITY: IM-09. Everybody on the server uses images by these names.
  if (who.isAdmin) return
  throw new AgentPodError({
    code: 'permission_denied',
    reason: 'image.tag',
    message: 'only an admin stores images under a name, because everybody on this server uses them by it',
    hint: 'leave the name out, and use the digest of the build',
  })
}

/** SECURITY: CF-04. The user saw this list when they approved the Dockerfile. */
function imageRefused({ name }: DockerfileRequest, ref: string): AgentPodError {
  return new AgentPodError({
    code: 'permission_denied',
    reason: 'dockerfile.image_refused',
    message: `${name} uses the image ${ref}, which is not one of those that it may use`,
    hint: 'name it in the list of images of the request',
  })
}

function noConfig(ref: string): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'dockerfile.image',
    message: `the configuration of the image ${ref} is not known`,
    hint: `\`agentpod image pull ${ref}\` gets it again`,
  })
}
