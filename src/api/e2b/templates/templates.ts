/**
 * Templates of E2B's API: their records, and their builds, which run on when the client that asked for one is
 * gone. A template becomes a recipe, which the builder turns into layers.
 */
import { randomUUID } from 'node:crypto'
import type { BuildEvent } from '../../../build/build-request.ts'
import { BUILD_LABEL } from '../../../build/build-sandbox.ts'
import type { Builder, BuildResult } from '../../../build/builder.ts'
import type { InputFiles } from '../../../build/input-files.ts'
import { knownAccess, type PackagePresets } from '../../../build/package-presets.ts'
import type {
  MadeTemplate,
  TemplateBuild,
  TemplateRecord,
  TemplateStore,
} from '../../../core/build/template.ts'
import { AgentPodError, asAgentPodError } from '../../../core/error.ts'
import type { SandboxId } from '../../../core/id.ts'
import { isImageRef } from '../../../core/image-ref.ts'
import { LOCAL, type Principal } from '../../../core/principal.ts'
import type { Engine } from '../../../engine/engine.ts'
import { LAYER_OWNER } from '../../../engine/snapshots/layers.ts'
import { ignore, type Log } from '../../../telemetry/log.ts'
import type { Clock } from '../../../util/clock.ts'
import { type Random, randomWord } from '../../../util/random.ts'
import { findSnapshot } from '../snapshots.ts'
import { unsupportedOption } from '../unsupported.ts'
import { BASE, BASE_FOUND, BASE_TEMPLATE, type FoundTemplate, sandboxFrom } from './sandbox-from.ts'
import type { NewTemplateBody, StartBuildBody } from './schema.ts'
import { TemplateBuildLog } from './template-build-log.ts'
import type { TemplateFiles } from './template-files.ts'
import { DEFAULT_TAG, isTemplateId, LATEST_TAG, parseTemplateRef } from './template-name.ts'
import { imageOrigin, START_SERVICE, stepNumber, type Translated, translate } from './translate-steps.ts'

export interface TemplateParts {
  readonly engine: Engine
  readonly builder: Builder
  /** The builder's own input files. */
  readonly inputs: InputFiles
  readonly files: TemplateFiles
  readonly store: TemplateStore
  readonly presets: PackagePresets
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  /** Templates that every key has, by name. */
  readonly builtIn: Readonly<Record<string, () => Promise<MadeTemplate>>>
  /** How long a start command may take until the template is ready. */
  readonly readyMs?: number | undefined
}

/** SECURITY: CP-16. Limits for each owner. */
const MOST_TEMPLATES = 200
const MOST_BUILDS_KEPT = 20
const MOST_TAGS = 100
const MOST_RUNNING = 4

const DEFAULT_CPUS = 2
const DEFAULT_MEMORY_MIB = 4096
/** E2B waits this long for a start command. */
const READY_MS = 10 * 60_000
const CHECK_TTL_MS = 30 * 60_000
const PATIENCE_MS = 50_000
/** The images that E2B builds its own templates from. */
const BASE_IMAGES = /^(?:docker\.io\/)?e2bdev\/(base|code-interpreter)(?::[\w.-]+)?$/
const PROJECT = 'e2b'
const INTERPRETER = 'code-interpreter-v1'
/** On the sandbox that checks a template, so that it is found when the build is canceled. */
const CHECK_LABEL = 'agentpod/template-build'

interface Running {
  readonly owner: string
  readonly templateId: string
  readonly stop: AbortController
  readonly log: TemplateBuildLog
  done: Promise<void>
}

/** What a template is built on. */
interface Origin {
  readonly made: MadeTemplate
  /** A template of the server that must be built first. */
  readonly builtIn?: string | undefined
}

export class Templates {
  readonly #parts: TemplateParts
  readonly #running = new Map<string, Running>()
  /** Built-in templates that are being built, by owner and name. */
  readonly #making = new Map<string, Promise<MadeTemplate>>()
  /** Ends of builds that could not be stored, because the disk was full. */
  readonly #unsaved = new Map<string, TemplateBuild>()
  readonly #closing = new AbortController()

  constructor(parts: TemplateParts) {
    this.#parts = parts
  }

  /** Builds of an earlier server process have ended with it. */
  open(): void {
    const { store, files, clock } = this.#parts
    files.sweep()
    for (const { id } of store.templates())
      for (const build of store.builds(id))
        if (build.status === 'building')
          store.saveBuild({
            ...build,
            status: 'error',
            updatedAt: clock.now(),
            finishedAt: clock.now(),
            reason: { message: 'the server stopped during the build; build the template again' },
          })
  }

  async close(): Promise<void> {
    this.#closing.abort()
    for (const { stop } of this.#running.values()) stop.abort()
    await Promise.allSettled([...this.#running.values()].map(({ done }) => done))
  }

  get builtInNames(): string[] {
    return [BASE_TEMPLATE, ...Object.keys(this.#parts.builtIn)]
  }

  list(who: Principal): TemplateRecord[] {
    return this.#parts.store.templates().filter(({ owner }) => who.isAdmin || owner === who.owner)
  }

  /**
   * By id or name. A template of another key is found only if it is public.
   *
   * SECURITY: CP-25. A name means the caller's own template, or a public one of the user who runs the server.
   * Public templates of other keys need their id, so that nobody answers to a name that others expect.
   */
  find(ref: string, who: Principal): TemplateRecord | undefined {
    const all = this.#parts.store.templates()
    const mayUse = (one: TemplateRecord): boolean => who.isAdmin || one.isPublic || one.owner === who.owner
    const named = all.filter((one) => one.name === ref && mayUse(one))
    return (
      named.find(({ owner }) => owner === who.owner) ??
      all.find((one) => one.id === ref && mayUse(one)) ??
      named.find(({ owner }) => owner === LOCAL.owner) ??
      (who.isAdmin && named.length === 1 ? named[0] : undefined)
    )
  }

  /** The caller's own template, for changes. `not_found` for those of others. */
  own(ref: string, who: Principal): TemplateRecord {
    const found = this.find(parseTemplateRef(ref).name, who)
    if (found && (who.isAdmin || found.owner === who.owner)) return found
    throw unknownTemplate(ref)
  }

  builds({ id }: TemplateRecord): TemplateBuild[] {
    return this.#parts.store.builds(id)
  }

  /** A build of the caller's template, with the logs so far. */
  build(templateId: string, buildId: string, who: Principal): TemplateBuild {
    const template = this.own(templateId, who)
    const build = this.#parts.store.build(buildId)
    if (!build || build.templateId !== template.id)
      throw new AgentPodError({
        code: 'not_found',
        reason: 'template.build_unknown',
        message: `template ${template.name} has no build ${buildId.slice(0, 64)}`,
      })
    const running = this.#running.get(buildId)
    if (running) return { ...build, logs: running.log.lines }
    const ended = this.#unsaved.get(buildId)
    if (!ended) return build
    this.#save(ended)
    return ended
  }

  /** The build that a tag names; the newest ready one for the default tag, if nothing has it. */
  tagged(template: TemplateRecord, tag: string | undefined): TemplateBuild | undefined {
    const { store } = this.#parts
    const all = store.tags(template.id)
    const tagged = (wanted: string): (typeof all)[number] | undefined => all.find((one) => one.tag === wanted)
    const found = tagged(tag ?? DEFAULT_TAG) ?? (tag === LATEST_TAG ? tagged(DEFAULT_TAG) : undefined)
    if (found) return store.build(found.buildId)
    const isDefault = tag === undefined || tag === LATEST_TAG
    return isDefault ? store.builds(template.id).find(({ status }) => status === 'ready') : undefined
  }

  /** A new build of a template, which is made if there is none of this name. It waits for its steps. */
  request(body: NewTemplateBody, who: Principal): { template: TemplateRecord; build: TemplateBuild } {
    const { store, clock, random } = this.#parts
    const asked = body.name ?? body.alias
    const { name, tag } = asked ? parseTemplateRef(asked) : { name: randomWord(random, 12), tag: undefined }
    if (this.builtInNames.includes(name))
      throw new AgentPodError({
        code: 'already_exists',
        reason: 'template.built_in',
        message: `${name} is a template of the server`,
        hint: 'choose another name',
      })
    const now = clock.now()
    const own = store.templates().filter(({ owner }) => owner === who.owner)
    const known = own.find((one) => one.name === name || one.id === name)
    if (!known) this.#checkName(name, who)
    if (!known && own.length >= MOST_TEMPLATES)
      throw new AgentPodError({
        code: 'resource_exhausted',
        reason: 'template.many',
        message: `this key already has ${MOST_TEMPLATES} templates`,
        hint: 'delete some first',
      })
    const template: TemplateRecord = known
      ? { ...known, updatedAt: now }
      : {
          id: `tpl${randomWord(random, 20)}`,
          owner: who.owner,
          name,
          isPublic: false,
          createdAt: now,
          updatedAt: now,
          spawnCount: 0,
        }
    const tags = [...new Set([...(tag === undefined ? [] : [tag]), ...(body.tags ?? [])])]
    const build: TemplateBuild = {
      id: randomUUID(),
      templateId: template.id,
      status: 'waiting',
      tags: tags.length === 0 ? [DEFAULT_TAG] : tags,
      cpus: body.cpuCount ?? DEFAULT_CPUS,
      memoryMib: body.memoryMB ?? DEFAULT_MEMORY_MIB,
      createdAt: now,
      updatedAt: now,
      logs: [],
    }
    store.saveTemplate(template)
    store.saveBuild(build)
    this.#forgetOld(template)
    return { template, build }
  }

  /** A name that already means something else would never be found. */
  #checkName(name: string, who: Principal): void {
    const snapshot = findSnapshot(this.#parts.engine, name, who)
    if (!snapshot && !isTemplateId(name)) return
    throw new AgentPodError({
      code: 'already_exists',
      reason: 'template.name_taken',
      message: snapshot
        ? `there is a snapshot named ${name}`
        : `${name} has the form of the id of a template`,
      hint: 'choose another name',
    })
  }

  /** Starts a build; it continues in the background. */
  async start(build: TemplateBuild, body: StartBuildBody, who: Principal): Promise<void> {
    const { store, clock, presets, files } = this.#parts
    if (build.status !== 'waiting' || this.#running.has(build.id))
      throw new AgentPodError({
        code: 'conflict',
        reason: 'template.build_started',
        message: `the build ${build.id} was already started`,
        hint: 'request a new build',
      })
    const running = [...this.#running.values()].filter(({ owner }) => owner === who.owner)
    if (running.length >= MOST_RUNNING)
      throw new AgentPodError({
        code: 'resource_exhausted',
        reason: 'template.builds',
        message: `this key already has ${MOST_RUNNING} builds of templates running`,
        hint: 'wait until one has finished',
        retry: { afterMs: 5000 },
      })
    const one: Running = {
      owner: who.owner,
      templateId: build.templateId,
      stop: new AbortController(),
      log: new TemplateBuildLog(clock),
      done: Promise.resolve(),
    }
    // INVARIANT: nothing is awaited between the checks above and this, so a build starts once.
    this.#running.set(build.id, one)
    try {
      const origin = await this.#origin(body, who)
      const translated = translate(body, {
        origin: origin.made,
        archiveOf: (hash) => files.digestOf(who.owner, hash),
        access: await knownAccess(presets),
        cap: who.network,
        readyMs: this.#parts.readyMs ?? READY_MS,
        earlier: this.#newest(build.templateId)?.made?.recipe.steps ?? [],
        again: () => randomUUID(),
      })
      // The template may have been deleted meanwhile.
      if (!store.build(build.id)) throw unknownTemplate(build.templateId)
      store.saveBuild({ ...build, status: 'building', updatedAt: clock.now() })
      one.done = this.#run(build, { ...translated, builtIn: origin.builtIn }, who, one).finally(() =>
        this.#running.delete(build.id),
      )
    } catch (error) {
      this.#running.delete(build.id)
      throw error
    }
  }

  #newest(templateId: string): TemplateBuild | undefined {
    return this.#parts.store.builds(templateId).find(({ status }) => status === 'ready')
  }

  async remove(template: TemplateRecord): Promise<void> {
    const running = [...this.#running.values()].filter(({ templateId }) => templateId === template.id)
    for (const { stop } of running) stop.abort()
    await Promise.allSettled(running.map(({ done }) => done))
    this.#parts.store.removeTemplate(template.id)
  }

  setPublic(template: TemplateRecord, isPublic: boolean): void {
    this.#parts.store.saveTemplate({ ...template, isPublic, updatedAt: this.#parts.clock.now() })
  }

  tags(template: TemplateRecord): ReturnType<TemplateStore['tags']> {
    return this.#parts.store.tags(template.id)
  }

  assignTags(target: string, tags: readonly string[], who: Principal): TemplateBuild {
    const template = this.own(target, who)
    const build = this.tagged(template, parseTemplateRef(target).tag)
    if (!build) throw unknownTemplate(target)
    const all = new Set([...this.#parts.store.tags(template.id).map(({ tag }) => tag), ...tags])
    if (all.size > MOST_TAGS)
      throw new AgentPodError({
        code: 'resource_exhausted',
        reason: 'template.tags',
        message: `template '${template.name}' would have more than ${MOST_TAGS} tags`,
        hint: 'remove some first',
      })
    for (const tag of tags)
      this.#parts.store.saveTag({
        templateId: template.id,
        tag,
        buildId: build.id,
        createdAt: this.#parts.clock.now(),
      })
    return build
  }

  removeTags(name: string, tags: readonly string[], who: Principal): void {
    const template = this.own(name, who)
    for (const tag of tags) this.#parts.store.removeTag(template.id, tag)
  }

  /** What a sandbox starts from. A template of the server is built when it is first asked for. */
  async resolve(ref: string, who: Principal): Promise<FoundTemplate | undefined> {
    const { name, tag } = parseTemplateRef(ref)
    if (name === BASE_TEMPLATE) return BASE_FOUND
    if (Object.hasOwn(this.#parts.builtIn, name))
      return { id: name, name, made: await this.#soon(name, this.#builtIn(name, who)) }
    const record = this.find(name, who)
    if (!record) return undefined
    const build = this.tagged(record, tag)
    if (!build?.made)
      throw new AgentPodError({
        code: 'not_found',
        reason: 'template.not_built',
        message:
          tag === undefined
            ? `template '${name}' has no build that is ready`
            : `template '${name}' has no build with the tag '${tag}'`,
        hint: 'build it, and wait until the build is ready',
      })
    this.#shareLayer(build.made, record, who)
    return {
      id: record.id,
      name: record.name,
      made: build.made,
      cpus: build.cpus,
      memoryMib: build.memoryMib,
      record,
    }
  }

  /** Counts a sandbox that was started from a template. */
  spawned(record: TemplateRecord): void {
    const now = this.#parts.clock.now()
    const known = this.#parts.store.templates().find(({ id }) => id === record.id)
    if (known)
      this.#parts.store.saveTemplate({ ...known, spawnCount: known.spawnCount + 1, lastSpawnedAt: now })
  }

  /** SECURITY: CP-24. Only the owner of a template makes it public; others may then use its layers. */
  #shareLayer({ digest }: MadeTemplate, record: TemplateRecord, who: Principal): void {
    if (digest === undefined) return
    const { engine } = this.#parts
    const layer = engine.layers.get(digest)
    if (!layer)
      throw new AgentPodError({
        code: 'not_found',
        reason: 'template.pruned',
        message: `the layers of template '${record.name}' were removed from this server`,
        hint: 'build the template again',
      })
    if (!record.isPublic || record.owner === who.owner) return
    // All of them: a template that is built on it needs the layers below as well.
    for (let one: typeof layer | undefined = layer; one; one = engine.layers.get(one.layer.parent ?? ''))
      engine.layers.addOwner(one, who.owner)
  }

  /** Builds a template of the server, once for callers that ask at the same time. */
  #builtIn(name: string, who: Principal): Promise<MadeTemplate> {
    const { builder } = this.#parts
    const key = `${who.owner} ${name}`
    const running = this.#making.get(key)
    if (running) return running
    const make = async (): Promise<MadeTemplate> => {
      const made = await this.#recipeOf(name)
      const result = await builder.build(made.recipe, {
        project: PROJECT,
        // The recipe is the server's own, so the limits of the key do not apply to its network.
        who: { owner: who.owner, isAdmin: who.isAdmin },
        signal: this.#closing.signal,
        keepFailed: false,
        onEvent: () => undefined,
      })
      return result.kind === 'built' ? { ...made, digest: result.digest } : made
    }
    const making = make().finally(() => this.#making.delete(key))
    making.catch(() => undefined)
    this.#making.set(key, making)
    return making
  }

  async #recipeOf(name: string): Promise<MadeTemplate> {
    const made = await this.#parts.builtIn[name]?.()
    if (made) return made
    throw unknownTemplate(name)
  }

  /** SDKs wait a minute for an answer. A first build takes longer, so it goes on and the client is told. */
  async #soon(name: string, making: Promise<MadeTemplate>): Promise<MadeTemplate> {
    const late = Promise.withResolvers<never>()
    const cancel = this.#parts.clock.after(PATIENCE_MS, () => late.reject(stillBuilding(name)))
    try {
      return await Promise.race([making, late.promise])
    } finally {
      cancel()
    }
  }

  async #origin(body: StartBuildBody, who: Principal): Promise<Origin> {
    const { fromImage, fromTemplate, fromImageRegistry } = body
    const [, own] = BASE_IMAGES.exec(fromImage ?? '') ?? []
    const named = fromTemplate || (own === 'code-interpreter' ? INTERPRETER : undefined)
    if (named) {
      const { name } = parseTemplateRef(named)
      // Its build takes minutes the first time; the build of this template waits for it.
      if (Object.hasOwn(this.#parts.builtIn, name)) return { made: await this.#recipeOf(name), builtIn: name }
      const found = await this.resolve(named, who)
      if (found) return { made: found.made }
      throw unknownTemplate(named)
    }
    if (!fromImage || own === 'base') return { made: BASE }
    if (fromImageRegistry !== undefined && fromImageRegistry !== null)
      throw unsupportedOption(
        'fromImageRegistry',
        'the user who runs the server logs in to the registry with `docker login`',
      )
    if (!isImageRef(fromImage))
      throw new AgentPodError({
        code: 'invalid_argument',
        reason: 'template.image',
        message: `${JSON.stringify(fromImage.slice(0, 80))} is not the name of an image`,
      })
    return { made: imageOrigin({ name: 'image', image: fromImage }) }
  }

  async #run(
    build: TemplateBuild,
    { made, builtIn }: Translated & Pick<Origin, 'builtIn'>,
    who: Principal,
    { log, stop: { signal } }: Running,
  ): Promise<void> {
    let end: Pick<TemplateBuild, 'status' | 'made' | 'reason'>
    try {
      if (builtIn !== undefined) {
        log.say(`[base] FROM ${builtIn}`)
        await orStopped(this.#builtIn(builtIn, who), signal)
      }
      const layers = await this.#layers(made, { who, signal, onEvent: (event) => log.onEvent(event) })
      const whole = withLayers(made, layers)
      await this.#check(whole, build, { who, signal, log })
      log.say('Build finished, the template is ready')
      end = { status: 'ready', made: whole }
    } catch (thrown) {
      const error = asAgentPodError(thrown)
      if (error.code === 'internal') this.#parts.log.error('a build of a template failed', { error })
      const step = stepOf(error)
      const message = error.code === 'internal' ? 'the server failed; its log says why' : textOf(error)
      log.fail(message, step)
      end = { status: 'error', reason: { message, step } }
    }
    const now = this.#parts.clock.now()
    this.#save({ ...build, ...end, logs: log.lines, updatedAt: now, finishedAt: now })
  }

  /** Stores the end of a build. On a full disk it is stored later, when a client asks for it. */
  #save(ended: TemplateBuild): void {
    const { store, log } = this.#parts
    try {
      // A template that was deleted during its build has no row to update.
      if (store.build(ended.id)) {
        store.saveBuild(ended)
        if (ended.status === 'ready')
          for (const tag of ended.tags)
            store.saveTag({
              templateId: ended.templateId,
              tag,
              buildId: ended.id,
              createdAt: ended.finishedAt ?? ended.updatedAt,
            })
      }
      this.#unsaved.delete(ended.id)
    } catch (error) {
      this.#unsaved.set(ended.id, ended)
      ignore(log, error, `the end of the build ${ended.id} is stored later`)
    }
  }

  async #layers(
    { recipe }: MadeTemplate,
    o: { readonly who: Principal; readonly signal: AbortSignal; onEvent(event: BuildEvent): void },
  ): Promise<Layers> {
    const { builder, files, inputs } = this.#parts
    const job = { project: PROJECT, keepFailed: false, ...o }
    const first = await builder.build(recipe, job)
    if (first.kind === 'built') return first
    for (const digest of first.files) {
      const archive = files.open(o.who.owner, digest)
      if (!archive) throw filesMissing()
      await inputs.put(o.who.owner, digest, archive)
    }
    const second = await builder.build(recipe, job)
    if (second.kind === 'built') return second
    throw filesMissing()
  }

  /** Starts a sandbox once, so that a template that never gets ready fails here and not at its first use. */
  async #check(
    made: MadeTemplate,
    { id, cpus, memoryMib, templateId }: TemplateBuild,
    o: { readonly who: Principal; readonly signal: AbortSignal; readonly log: TemplateBuildLog },
  ): Promise<void> {
    const { who, signal } = o
    const { engine, log } = this.#parts
    const services = made.environment.services
    if (!services || services.length === 0) return
    o.log.say('[finalize] Starting the start command and waiting until the ready command succeeds')
    const remove = (sandboxId: SandboxId): Promise<unknown> =>
      engine.sandboxes
        .destroy(sandboxId, LOCAL)
        .catch((error) => ignore(log, error, `the sandbox ${sandboxId} stays until its time to live ends`))
    const creating = engine.sandboxes.create(
      {
        ...sandboxFrom({ id: templateId, name: '', made, cpus, memoryMib }),
        areLimitsOptional: true,
        // A server that starts later removes it, as it removes sandboxes of build steps.
        owner: LAYER_OWNER,
        labels: { [BUILD_LABEL]: 'step', [CHECK_LABEL]: id },
        lifetime: { ttlMs: CHECK_TTL_MS, whenOver: 'destroy', autoResume: false },
        network: { mode: who.network?.mode ?? 'open' },
      },
      who,
    )
    const removed = creating.then((sandbox) => remove(sandbox.id))
    try {
      await orStopped(removed, signal)
    } catch (error) {
      const left = engine.sandboxes
        .list({ labels: { [CHECK_LABEL]: id }, all: false }, LOCAL)
        .filter(({ owner }) => owner === LAYER_OWNER)
      for (const sandbox of left) await remove(sandbox.id)
      throw error
    }
    o.log.say('[finalize] The template is ready')
  }

  #forgetOld(template: TemplateRecord): void {
    const { store } = this.#parts
    const tagged = new Set(store.tags(template.id).map(({ buildId }) => buildId))
    const old = store
      .builds(template.id)
      .filter(({ id }) => !tagged.has(id) && !this.#running.has(id))
      .slice(MOST_BUILDS_KEPT)
    for (const { id } of old) store.removeBuild(id)
  }
}

type Layers = Extract<BuildResult, { readonly kind: 'built' }>

/** Templates that are built on it later use the same image, even if its tag moves. */
function withLayers(made: MadeTemplate, { digest, imageDigest }: Layers): MadeTemplate {
  const base = { ...made.recipe.base, ...(imageDigest !== undefined && { digest: imageDigest }) }
  return { ...made, recipe: { ...made.recipe, base }, ...(digest !== undefined && { digest }) }
}

/** Waits for the work, which cannot be stopped itself, until the signal aborts. */
async function orStopped(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>()
  const stop = (): void =>
    reject(new AgentPodError({ code: 'canceled', reason: 'canceled', message: 'the build was canceled' }))
  if (signal.aborted) stop()
  signal.addEventListener('abort', stop, { once: true })
  try {
    await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', stop)
    work.catch(() => undefined)
  }
}

/** Which of E2B's steps failed: a number, `base` or `finalize`. */
function stepOf(error: AgentPodError): string {
  const name = error.details?.['step']
  if (typeof name === 'string') return stepNumber(name) ?? 'base'
  return error.reason.startsWith('service.') ? 'finalize' : 'base'
}

function textOf(error: AgentPodError): string {
  const message = error.reason.startsWith('service.')
    ? error.message.replace(`service ${START_SERVICE}`, 'the start command')
    : error.message
  const refused = error.details?.['refused']
  const hosts = Array.isArray(refused) ? refused.join(', ') : ''
  // The hints of steps and services are about agentpod.toml.
  const isOwn = typeof error.details?.['step'] === 'string' || error.reason.startsWith('service.')
  if (hosts === '') return error.hint === undefined || isOwn ? message : `${message} (${error.hint})`
  return `${message}; the network policy refused ${hosts} (a key of \`agentpod e2b env --net open\` may reach them)`
}

export function unknownTemplate(ref: string): AgentPodError {
  return new AgentPodError({
    code: 'not_found',
    reason: 'template.unknown',
    message: `template '${ref.slice(0, 200)}' not found`,
    hint: `use '${BASE_TEMPLATE}', a template that this key has built, or a snapshot`,
  })
}

function stillBuilding(name: string): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'template.building',
    message: `the template '${name}' is being built, which takes a few minutes the first time`,
    hint: 'try again in a minute',
    retry: { afterMs: 15_000 },
  })
}

function filesMissing(): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'template.files_missing',
    message: 'files of a COPY step are no longer on the server',
    hint: 'build it again with forceUpload',
  })
}
