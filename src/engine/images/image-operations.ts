/** Container images that providers keep, and images made of environments, snapshots and sandboxes. */
import type { Readable } from 'node:stream'
import { AgentPodError, invalid, isAgentPodError } from '../../core/error.ts'
import { imageText, parseImageRef, unknownImage } from '../../core/image-ref.ts'
import { LOCAL, type Principal } from '../../core/principal.ts'
import type {
  FetchedFeature,
  ImageSource,
  Provider,
  RootRef,
  StoredImage,
  StoredImages,
} from '../../core/provider.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import { CALL } from '../call.ts'
import type { Context } from '../context.ts'
import { findSandbox } from '../find-sandbox.ts'
import { recordAudit } from '../record-audit.ts'
import { mayUseLayer, rootWithLayer } from '../snapshots/layers.ts'
import { discardSnapshot, takeSnapshot } from '../snapshots/snapshot.ts'

const PULL_MS = 60 * 60_000
const FEATURE_MS = 5 * 60_000
const PUSH_MS = 2 * 60 * 60_000
/** As many digits of an environment's digest as commands print. */
const SHORTEST_DIGEST = 12
const MOST_NAMED = 5

export interface PullRequest {
  readonly provider?: string | undefined
  readonly signal?: AbortSignal | undefined
  onProgress(line: string): void
}

/** A stored image with the sandboxes and snapshots that use it, by name or id. */
export interface UsedImage extends StoredImage {
  readonly usedBy: readonly string[]
}

export class ImageOperations {
  readonly #ctx: Context
  #transfers = 0

  constructor(ctx: Context) {
    this.#ctx = ctx
  }

  /** Pulls and pushes that are under way. */
  get busyCount(): number {
    return this.#transfers
  }

  /** Gets an image, or what its tag stands for now. */
  async pull(ref: string, o: PullRequest, who: Principal): Promise<UsedImage> {
    const { provider, store } = this.#store(o.provider)
    const call = { timeoutMs: PULL_MS, signal: o.signal, isAnonymous: !who.isAdmin }
    const image = await this.#transfer(() => store.pull(ref, o.onProgress, call))
    recordAudit(this.#ctx, who, 'image.pull', { subject: image.ref, data: { digest: image.digest } })
    return this.#listed(provider, image)
  }

  async list(o: { readonly provider?: string | undefined } = {}): Promise<UsedImage[]> {
    const { provider, store } = this.#store(o.provider)
    return (await store.list(CALL)).map((image) => this.#listed(provider, image))
  }

  /** By reference; `not_found` otherwise. */
  async get(ref: string, o: { readonly provider?: string | undefined } = {}): Promise<UsedImage> {
    const name = imageText(parseImageRef(ref))
    const found = (await this.list(o)).find((one) => one.ref === name)
    if (found) return found
    throw unknownImage(ref)
  }

  /** `conflict` while a sandbox or a snapshot uses it. */
  async remove(
    ref: string,
    o: { readonly provider?: string | undefined },
    who: Principal,
  ): Promise<UsedImage> {
    const image = await this.get(ref, o)
    if (image.usedBy.length > 0 && !(await this.#hasTwin(image, o))) throw used(image)
    const { store } = this.#store(o.provider)
    await store.remove(ref, CALL)
    recordAudit(this.#ctx, who, 'image.remove', { subject: image.ref })
    return image
  }

  /** Sends an environment, a snapshot or a sandbox to a registry, as an image. */
  async push(
    what: string,
    ref: string,
    o: Omit<PullRequest, 'provider'>,
    who: Principal,
  ): Promise<{ readonly digest: string }> {
    const name = imageText(parseImageRef(ref))
    return this.#withSource(what, who, async (source, store) => {
      const pushed = await store.push(source, name, o.onProgress, { timeoutMs: PUSH_MS, signal: o.signal })
      recordAudit(this.#ctx, who, 'image.push', { subject: name, data: { of: what, digest: pushed.digest } })
      return pushed
    })
  }

  /** Gets a Feature of development containers. */
  async feature(
    ref: string,
    o: { readonly signal?: AbortSignal | undefined },
    who: Principal,
  ): Promise<FetchedFeature> {
    // Features belong to no provider: any that speaks to registries gets them.
    const store = this.#ctx.providers.all.find(({ images }) => images?.store?.feature)?.images?.store
    const call = { timeoutMs: FEATURE_MS, signal: o.signal, isAnonymous: !who.isAdmin }
    const found = await this.#transfer(() => store?.feature?.(ref, call) ?? Promise.reject(noFeatures()))
    // The query of a signed address is a credential.
    const subject = ref.replace(/[?#].*$/s, '')
    recordAudit(this.#ctx, who, 'feature.fetch', { subject, data: { digest: found.digest } })
    return found
  }

  /** The same as an OCI layout, in a tar stream. */
  layout(what: string, who: Principal): Promise<Readable> {
    return this.#withSource(what, who, (source, store) => store.layout(source, { timeoutMs: PUSH_MS }))
  }

  async #transfer<T>(work: () => Promise<T>): Promise<T> {
    this.#transfers += 1
    try {
      return await work()
    } finally {
      this.#transfers -= 1
    }
  }

  #store(name: string | undefined): { readonly provider: Provider; readonly store: StoredImages } {
    const { providers } = this.#ctx
    const provider = name === undefined ? providers.default : providers.named(name)
    // A provider that keeps no images is not used by the question.
    const store = storeOf(provider)
    return { provider: providers.use(provider), store }
  }

  #listed({ name, layers }: Provider, image: StoredImage): UsedImage {
    const digests = layers?.of(image.root).join() ?? ''
    const isOn = (one: { readonly provider: string; readonly root?: RootRef | undefined }): boolean =>
      one.provider === name && one.root !== undefined && layers?.of(one.root).join() === digests
    const sandboxes = this.#ctx.registry.existing().filter(isOn)
    const snapshots = this.#ctx.snapshotRegistry.all().filter((one) => !one.layer && isOn(one))
    const built = this.#ctx.snapshotRegistry.all().filter((one) => one.layer && isOn(one))
    const named = [...sandboxes, ...snapshots].map((one) => one.name ?? one.id)
    const steps = built.length > 0 ? [`${built.length} built ${built.length === 1 ? 'layer' : 'layers'}`] : []
    return { ...image, usedBy: [...named, ...steps] }
  }

  /** Whether another reference keeps the same layers. */
  async #hasTwin(image: StoredImage, o: { readonly provider?: string | undefined }): Promise<boolean> {
    const layers = image.layers.join()
    return (await this.list(o)).some((one) => one.ref !== image.ref && one.layers.join() === layers)
  }

  /** Holds what is named while it is packed. A sandbox is packed as it is now. */
  async #withSource<T>(
    what: string,
    who: Principal,
    work: (source: ImageSource, store: StoredImages) => Promise<T>,
  ): Promise<T> {
    const ctx = this.#ctx
    const image = await this.#storedImage(what)
    if (image) return await work({ root: image.root, settings: image }, this.#store(undefined).store)
    const found = this.#find(what, who)
    if (found.kind === 'snapshot')
      return ctx.snapshotRegistry.using(found.snapshot, () => this.#pack(found.snapshot, work))
    const provider = ctx.providers.of(found.sandbox)
    storeOf(provider)
    if (provider.layers && provider.layers.of(found.sandbox.root ?? {}).length === 0) throw onMachine(what)
    const snapshot = await takeSnapshot(ctx, found.sandbox.id, { owner: who.owner, isTemporary: true })
    try {
      return await this.#pack(snapshot, work)
    } finally {
      await discardSnapshot(ctx, snapshot)
    }
  }

  /** An image of this server by its name, unless a sandbox or snapshot has that name. */
  async #storedImage(what: string): Promise<UsedImage | undefined> {
    const [, isNamed, ref = what] = /^(image:)?(.+)$/.exec(what) ?? []
    if (/^(?:sandbox|snapshot|environment):/.test(what)) return undefined
    const taken = orNone(() => this.#find(what, LOCAL))
    if (taken && isNamed === undefined) return undefined
    const name = orNone(() => imageText(parseImageRef(ref)))
    if (name === undefined || !this.#ctx.providers.default.images?.store) return undefined
    return (await this.list()).find((one) => one.ref === name)
  }

  async #pack<T>(
    snapshot: Snapshot,
    work: (source: ImageSource, store: StoredImages) => Promise<T>,
  ): Promise<T> {
    const provider = this.#ctx.providers.of(snapshot)
    const store = storeOf(provider)
    if (!snapshot.root || snapshot.state !== 'ready') throw unknownSource(snapshot.name ?? snapshot.id)
    if (provider.layers && provider.layers.of(snapshot.root).length === 0)
      throw onMachine(snapshot.name ?? snapshot.id)
    const { environment } = snapshot.spec
    const base = environment.image === undefined ? undefined : await this.#base(store, environment.image)
    const { inherited = {}, path = [], workdir } = environment
    const paths = [...path, inherited['PATH'] ?? DEFAULT_PATH]
    const user = snapshot.layer ? (base?.user ?? 'root') : environment.user
    const pack = (source: ImageSource): Promise<T> => this.#transfer(() => work(source, store))
    return pack({
      // A layer's root has what is below it, as that of a snapshot.
      root: rootWithLayer(snapshot),
      settings: {
        // SECURITY: IM-05. Variables of a request may be secrets, so they are no part of an image.
        env: { ...inherited, PATH: paths.join(':') },
        user,
        workdir: workdir || base?.workdir,
        command: base?.command,
        ports: base?.ports,
        labels: base?.labels,
      },
    })
  }

  async #base(store: StoredImages, ref: string): Promise<StoredImage | undefined> {
    const { digest, ...name } = parseImageRef(ref)
    // Builds pin the digest that the tag stood for.
    const isSame = (one: StoredImage): boolean =>
      one.ref === imageText({ ...name, digest }) ||
      (one.digest === digest && one.ref === imageText({ ...name }))
    return (await store.list(CALL)).find(isSame)
  }

  #find(
    what: string,
    who: Principal,
  ):
    | { readonly kind: 'sandbox'; readonly sandbox: NonNullable<ReturnType<typeof findSandbox>> }
    | { readonly kind: 'snapshot'; readonly snapshot: Snapshot } {
    const [, kind, ref = what] = /^(sandbox|snapshot|environment):(.+)$/.exec(what) ?? []
    const is = (one: string): boolean => kind === undefined || kind === one
    const sandbox = is('sandbox') ? orNone(() => findSandbox(this.#ctx, ref, who)) : undefined
    const snapshot = is('snapshot') ? orNone(() => this.#ctx.snapshotRegistry.get(ref, who)) : undefined
    if (sandbox && sandbox.endedAt === undefined && snapshot)
      throw invalid(
        'image.source',
        `${ref} is the name of a sandbox and of a snapshot`,
        `write sandbox:${ref} or snapshot:${ref}`,
      )
    if (sandbox && sandbox.endedAt === undefined) return { kind: 'sandbox', sandbox }
    if (snapshot) return { kind: 'snapshot', snapshot }
    const layer = is('environment') ? this.#environment(ref, who) : undefined
    if (layer) return { kind: 'snapshot', snapshot: layer }
    throw unknownSource(what)
  }

  #environment(ref: string, who: Principal): Snapshot | undefined {
    if (ref.length < SHORTEST_DIGEST || !/^[0-9a-f]+$/.test(ref)) return undefined
    const found = this.#ctx.snapshotRegistry
      .all()
      .flatMap((one) => (one.layer && one.state === 'ready' ? [{ ...one, layer: one.layer }] : []))
      .filter((one) => one.layer.key.startsWith(ref) && mayUseLayer(who, one))
    return found.length === 1 ? found[0] : undefined
  }
}

const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

function storeOf({ name, images }: Provider): StoredImages {
  if (images?.store) return images.store
  throw new AgentPodError({
    code: 'unsupported',
    reason: 'provider.image_store',
    message: images
      ? `the images of ${name} are kept by its daemon`
      : `${name} does not support container images`,
    hint: images
      ? `use the commands of ${name}, such as \`${name} image ls\``
      : 'scripts/build builds podimage, which they need',
  })
}

function noFeatures(): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'provider.features',
    message: 'no provider of this server gets Features of development containers',
    hint: 'scripts/build builds podimage, which they need',
  })
}

function orNone<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch (error) {
    if (isAgentPodError(error, 'not_found') || isAgentPodError(error, 'invalid_argument')) return undefined
    throw error
  }
}

function used({ ref, usedBy }: UsedImage): AgentPodError {
  const more = usedBy.length > MOST_NAMED ? ` and ${usedBy.length - MOST_NAMED} more` : ''
  return new AgentPodError({
    code: 'conflict',
    reason: 'image.used',
    message: `the image ${ref} is in use by ${usedBy.slice(0, MOST_NAMED).join(', ')}${more}`,
    hint: 'destroy the sandboxes, remove the snapshots, and `agentpod prune --keep 0GB` removes unused layers',
  })
}

function unknownSource(what: string): AgentPodError {
  return new AgentPodError({
    code: 'not_found',
    reason: 'image.source',
    message: `there is no sandbox, snapshot, image or built environment ${JSON.stringify(what)}`,
    hint: '`agentpod ls` and `agentpod snapshot ls` list names; `agentpod build` prints the digest of an environment',
  })
}

function onMachine(what: string): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'image.push_base',
    message: `the base of ${what} is this machine (host), whose files cannot become an image`,
    hint: 'make it with --base debian or --image, and push that',
  })
}
