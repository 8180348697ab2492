import { createHash } from 'node:crypto'
import { baseKind, defaultBase, withBaseDefaults } from '../../bases/bases.ts'
import { type Isolation, isAtLeast, strongestIsolation } from '../../core/capability.ts'
import { DEFAULT_ENVIRONMENT, type Environment, MOST_EXTRAS } from '../../core/environment.ts'
import { AgentPodError, asAgentPodError, invalid, isAgentPodError } from '../../core/error.ts'
import type { Guest } from '../../core/guest.ts'
import { newSandboxId, parseName, type SandboxId } from '../../core/id.ts'
import type { NetworkCap, SandboxLink } from '../../core/network.ts'
import type { Principal } from '../../core/principal.ts'
import type { Created, CreatePlan, Mount, Provider, RootDirectory } from '../../core/provider.ts'
import type { Kit } from '../../core/recipe.ts'
import { askedLimits, type Resources, resolveResources } from '../../core/resources.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { LayerInfo, Snapshot } from '../../core/snapshot.ts'
import {
  DEFAULT_LIFETIME,
  type Lifetime,
  LONGEST_TTL_MS,
  type Ports,
  type Spec,
  WHEN_OVER,
} from '../../core/spec.ts'
import { checkEphemeral, type EphemeralDirectory } from '../../core/volume/ephemeral.ts'
import type { VolumeMount, VolumeRequest } from '../../core/volume/volume.ts'
import type { RequestKey } from '../../store/sandboxes.ts'
import { ignore } from '../../telemetry/log.ts'
import { canonicalJson } from '../../util/canonical-json.ts'
import { dropUndefined } from '../../util/drop-undefined.ts'
import { failpoint } from '../../util/failpoint.ts'
import type { Optional } from '../../util/optional.ts'
import { CALL, COPY, CREATE } from '../call.ts'
import type { Context, PreparedBase } from '../context.ts'
import { presentLifetime } from '../groups/follower-lifetime.ts'
import { findPlace, type GroupPlace, requireUnended, takePlace } from '../groups/join-group.ts'
import {
  continuedLink,
  linkVariables,
  newLink,
  openLink,
  trustOf,
  writeJavaTrust,
} from '../network/egress-link.ts'
import { type NetworkRequest, resolveNetwork } from '../network/network-spec.ts'
import { requireSecrets } from '../network/secret-operations.ts'
import { chooseProvider, type PlacementRequest } from '../providers/choose-provider.ts'
import { environmentRoot, requireLayer, withExtras } from '../snapshots/layers.ts'
import type { Layer } from '../snapshots/snapshot-registry.ts'
import { mountsOf, providerOfVolumes, resolveVolumes } from '../volumes/volume.ts'
import { cleanUp } from './destroy.ts'
import { requireDocker, withDockerService } from './docker-service.ts'
import { connectionTo } from './guest-connection.ts'
import { leaseOf } from './lease.ts'
import { checkKept, checkQuota, DEFAULT_QUOTA } from './quota.ts'
import { startServices } from './services.ts'

/** What a caller asks of the sandbox itself; everything left out has a default. */
export interface SpecRequest {
  /** The lowest acceptable level of isolation. */
  readonly isolation?: Isolation | undefined
  readonly environment?: Optional<Environment> | undefined
  readonly resources?: Optional<Resources> | undefined
  /** Limits that the machine cannot enforce are left out; otherwise they are refused. */
  readonly areLimitsOptional?: boolean | undefined
  readonly lifetime?: Optional<Lifetime> | undefined
  readonly ports?: Ports | undefined
  /** Whether a Docker engine runs inside. A copy has one if its original has. */
  readonly docker?: boolean | undefined
  /** Directories that are never kept, besides those of the snapshot that it starts from. */
  readonly ephemeral?: readonly EphemeralDirectory[] | undefined
  readonly network?: NetworkRequest | undefined
  /** The most that the owner of the sandbox may ask for. */
  readonly cap?: NetworkCap | undefined
}

export interface CreateRequest extends SpecRequest {
  /** The owner of the new sandbox. */
  readonly owner: string
  /** The id of the new sandbox, if the caller has stored it already. */
  readonly id?: SandboxId | undefined
  /** The place in a group that it takes. */
  readonly place?: GroupPlace | undefined
  /** The caller, who is not always the owner. Decides which built environments may be used. */
  readonly who: Principal
  readonly name?: string | undefined
  readonly labels?: Readonly<Record<string, string>> | undefined
  /** The provider to use. If left out: the provider of the snapshot or environment, or the default one. */
  readonly provider?: string | undefined
  /** The Debian release of the `debian` base; for builds. */
  readonly suite?: string | undefined
  /** What the `debian` base contains besides the system. */
  readonly kit?: Kit | undefined
  /** Two creates with the same key create one sandbox. */
  readonly requestKey?: string | undefined
  /** Volumes to mount. A copy of a sandbox mounts only those that its own request names. */
  readonly volumes?: readonly VolumeRequest[] | undefined
  /** What a build mounts besides volumes. A later start does not mount it again. */
  readonly rootMounts?: readonly Exclude<Mount, { readonly kind: 'volume' }>[] | undefined
  /** For builds, as in `CreatePlan`. */
  readonly rootDirs?: readonly RootDirectory[] | undefined
  /** The snapshot to start from. Its spec is the default for everything that the request leaves out. */
  readonly origin?: { readonly snapshot: Snapshot; readonly hasMemory?: boolean | undefined } | undefined
}

/**
 * Creates a sandbox and returns when it accepts commands. On failure nothing is left at the provider, and the
 * record says why.
 */
export async function create(ctx: Context, request: CreateRequest): Promise<Sandbox> {
  const key = request.requestKey
  if (key === undefined) return createNew(ctx, request, undefined)
  const { owner } = request
  return ctx.lock.run(`request:${owner}/${key}`, async () => {
    const digest = digestOf(request)
    const earlier = ctx.sandboxes.requested(owner, key)
    if (!earlier) return createNew(ctx, request, { key, digest })
    if (earlier.digest === digest) return sameAnswer(ctx.registry.get(earlier.sandbox.id) ?? earlier.sandbox)
    throw new AgentPodError({
      code: 'conflict',
      reason: 'request_key.reused',
      message: 'this idempotency key was used for a different request',
      hint: 'use a new key for a new request',
    })
  })
}

/** A repeated create gets the answer of the first one, even if that was an error. */
function sameAnswer(sandbox: Sandbox): Sandbox {
  if (sandbox.startedAt === undefined && sandbox.ending) throw new AgentPodError(sandbox.ending)
  return sandbox
}

async function createNew(
  ctx: Context,
  request: CreateRequest,
  key: RequestKey | undefined,
): Promise<Sandbox> {
  const { origin, owner, who } = request
  const name = request.name === undefined ? undefined : parseName(request.name)
  const digest = origin ? undefined : request.environment?.digest
  if (request.place) findPlace(ctx, owner, request.place)
  const layer = digest === undefined ? undefined : requireLayer(ctx, digest, who)
  const wished = resolveSpec(request, origin?.snapshot.spec)
  const asked = withLeastIsolation(ctx, wished, [owner, who.owner])
  const wanted = resolveVolumes(ctx, owner, request.volumes)
  const { provider, isolation } = await chooseProvider(ctx.providers, {
    ...placementRequest(request, asked, layer, providerOfVolumes(ctx, wanted)),
    isRequired: asked.isolation !== wished.isolation,
  })
  checkEphemeral(asked.ephemeral ?? [], wanted)
  await requireMounts(ctx, provider, request, asked)
  if (asked.docker) await requireDocker(provider, asked)
  const fit = fitToProvider(ctx, provider, request, asked)
  const checkRoom = (): void => {
    const quota = ctx.quota ?? DEFAULT_QUOTA
    const own = ctx.registry.existingOf(owner)
    checkQuota(quota, owner, own.length)
    checkKept(quota, { owner, labels: request.labels ?? {}, spec: fit }, own)
  }
  checkRoom()
  const ready = origin || layer ? undefined : await prepareBase(ctx, provider, request, fit)
  // INVARIANT: nothing is awaited from here until the record is written, so no layer can be removed in
  // between.
  const built = digest === undefined ? undefined : environmentRoot(ctx, digest, who)
  const resolved = built
    ? onBase(fit, built.layer.layer)
    : ready
      ? specWithBaseDefaults(request, fit, ready)
      : fit
  // A volume that was removed in the meantime is missed here.
  const volumes = resolveVolumes(ctx, owner, request.volumes)
  const spec = withDocker(withVolumes(withSecrets(ctx, owner, request, resolved), volumes))
  const below = origin?.snapshot.root ?? built?.root ?? ready?.root ?? {}
  // A snapshot's own extras are already in its root.
  const { layers, root } = withExtras(
    ctx,
    { root: below, environment: spec.environment, provider: provider.name },
    request.environment?.extras ?? [],
    who,
  )
  const now = ctx.clock.now()
  const id = request.id ?? newSandboxId(ctx.random)
  const sandbox: Sandbox = {
    id,
    owner,
    name,
    labels: request.labels ?? {},
    provider: provider.name,
    isolation,
    state: 'creating',
    spec,
    limits: undefined,
    handle: undefined,
    // What a build changes without a network must have nothing of the sandbox in it.
    link:
      request.rootDirs && spec.network.mode === 'off'
        ? undefined
        : origin?.hasMemory
          ? continuedLink(ctx, id, spec.network, origin.snapshot)
          : newLink(ctx, id, spec.network),
    root,
    createdAt: now,
    startedAt: undefined,
    deadlineAt: now + spec.lifetime.ttlMs,
    endedAt: undefined,
    ending: undefined,
    tip: origin && (origin.snapshot.isTemporary ? origin.snapshot.parentId : origin.snapshot.id),
    forkedFrom: origin?.snapshot.isTemporary ? origin.snapshot.sandboxId : undefined,
    pausedAt: undefined,
    savedBytes: undefined,
  }
  const make = (): Promise<Sandbox> =>
    ctx.lock.run(sandbox.id, async () => {
      // INVARIANT: nothing is awaited between these checks and the record, so simultaneous creates count each
      // other, and no volume is removed in between.
      checkRoom()
      resolveVolumes(ctx, owner, request.volumes)
      const { place } = request
      const group = place && findPlace(ctx, owner, place)
      requireUnended(ctx, id)
      if (group) takePlace(ctx, group, place.member, id)
      ctx.registry.add(sandbox, key)
      try {
        failpoint('create.intended')
        return await createAtProvider(ctx, sandbox, {
          root,
          required: request.areLimitsOptional ? [] : askedLimits(request.resources ?? {}),
          snapshot: origin?.snapshot.id,
          hasMemory: origin?.hasMemory,
          mounts: [...mountsOf(spec), ...(request.rootMounts ?? [])],
          rootDirs: request.rootDirs,
        })
      } catch (error) {
        await fail(ctx, sandbox.id, asAgentPodError(error))
        throw error
      }
    })
  return holdingLayers(ctx, built ? [built.layer, ...layers] : layers, make)
}

/** SECURITY: CP-26. Whatever makes a sandbox passes here: none isolates less than its owner accepts. */
function withLeastIsolation(ctx: Context, spec: Spec, owners: readonly string[]): Spec {
  const isolation = strongestIsolation(spec.isolation, ...owners.map((owner) => ctx.leastIsolation?.(owner)))
  return isolation === undefined || isolation === spec.isolation ? spec : { ...spec, isolation }
}

/**
 * INVARIANT: nothing is awaited between looking up the layers and this call, so none can be removed in
 * between.
 */
function holdingLayers<T>(ctx: Context, layers: readonly Layer[], work: () => Promise<T>): Promise<T> {
  const [layer, ...others] = layers
  return layer ? ctx.snapshotRegistry.using(layer, () => holdingLayers(ctx, others, work)) : work()
}

function placementRequest(
  { provider, origin }: CreateRequest,
  { isolation }: Spec,
  layer: Layer | undefined,
  volumes: PlacementRequest['bound'],
): PlacementRequest {
  const snapshot = origin?.snapshot
  const bound = snapshot
    ? { provider: snapshot.provider, what: `the snapshot ${snapshot.name ?? snapshot.id}` }
    : layer && { provider: layer.provider, what: 'the built environment' }
  if (bound && volumes && bound.provider !== volumes.provider) {
    throw invalid(
      'volume.provider',
      `${volumes.what} is on the provider ${volumes.provider}, and ${bound.what} on ${bound.provider}`,
      'a sandbox can only mount volumes of its own provider',
    )
  }
  return { provider, isolation, bound: bound ?? volumes }
}

/** Refuses mounts that the provider cannot make, before anything is made. */
async function requireMounts(
  ctx: Context,
  provider: Provider,
  request: CreateRequest,
  { ephemeral }: Spec,
): Promise<void> {
  if (request.volumes && request.volumes.length > 0) ctx.providers.groupOf(provider, 'volumes')
  if (!ephemeral && (request.rootMounts ?? []).length === 0) return
  const { rootMounts } = await provider.capabilities(CALL)
  if (rootMounts) return
  if (ephemeral)
    throw new AgentPodError({
      code: 'unsupported',
      reason: 'ephemeral.unsupported',
      message: `sandboxes on ${provider.name} cannot have ephemeral directories: ${ephemeral.map(({ path }) => path).join(', ')}`,
      hint: 'leave them out ([ephemeral] in agentpod.toml, or mounts of tmpfs), or choose another provider',
    })
  throw new AgentPodError({
    code: 'unsupported',
    reason: 'mount.unsupported',
    message: `the provider ${provider.name} cannot mount one root inside another`,
    hint: 'choose another provider',
  })
}

function withDocker(spec: Spec): Spec {
  return spec.docker ? { ...spec, environment: withDockerService(spec.environment) } : spec
}

function withVolumes(spec: Spec, volumes: readonly VolumeMount[]): Spec {
  return volumes.length === 0 ? spec : { ...spec, volumes }
}

/**
 * Refuses what the provider cannot do, before anything is made. Fills in a base that the provider has, if the
 * request names none.
 */
function fitToProvider(ctx: Context, provider: Provider, request: CreateRequest, spec: Spec): Spec {
  if (spec.lifetime.whenOver === 'pause') ctx.providers.groupOf(provider, 'pausing')
  if (spec.lifetime.whenOver === 'stop') ctx.providers.groupOf(provider, 'stopping')
  if (spec.network.secrets.length > 0 && !provider.egress) throw noSecrets(provider)
  if (request.environment?.base !== undefined || request.origin) return spec
  return { ...spec, environment: { ...spec.environment, base: defaultBase(spec.environment, provider) } }
}

/**
 * SECURITY: the egress process replaces placeholders by secrets. Without it the sandbox would have to hold
 * the secret itself.
 */
function noSecrets({ name }: Provider): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'secrets.unsupported',
    message: `sandboxes on ${name} cannot use secrets: their connections do not pass the egress process`,
    hint: 'leave out the secrets, or choose another provider',
  })
}

/** A built environment stays on the base that it was built on, whatever the request says. */
function onBase(spec: Spec, { base: { name, image }, inherited }: LayerInfo): Spec {
  const own = { base: name, ...(image !== undefined && { image }), ...(inherited && { inherited }) }
  return { ...spec, environment: { ...spec.environment, ...own } }
}

/** The defaults of a base apply where the request sets nothing. */
function specWithBaseDefaults({ environment = {} }: CreateRequest, spec: Spec, ready: PreparedBase): Spec {
  return { ...spec, environment: withBaseDefaults(spec.environment, environment, ready) }
}

function prepareBase(
  ctx: Context,
  provider: Provider,
  { suite, kit, who }: CreateRequest,
  { environment: { base: name, image } }: Spec,
): Promise<PreparedBase> {
  const wish = { name, image, suite, kit, isAnonymous: !who.isAdmin }
  return ctx.roots.ensure(wish, provider, () => undefined)
}

/**
 * Secrets named in the request must exist. Secrets inherited from the snapshot are dropped if they have been
 * deleted since.
 */
function withSecrets(ctx: Context, owner: string, request: CreateRequest, spec: Spec): Spec {
  if (request.network?.secrets) requireSecrets(ctx, owner, request.network.secrets)
  const secrets = spec.network.secrets.filter((name) => ctx.network?.secrets.get(owner, name))
  return secrets.length === spec.network.secrets.length
    ? spec
    : { ...spec, network: { ...spec.network, secrets } }
}

/** What a start needs besides the record. */
type Start = Pick<CreatePlan, 'root' | 'required' | 'snapshot' | 'hasMemory' | 'mounts' | 'rootDirs'>

async function createAtProvider(ctx: Context, sandbox: Sandbox, start: Start): Promise<Sandbox> {
  // Without a pool the files of the snapshot are copied, which takes longer.
  const provider = ctx.providers.of(sandbox)
  const created = await provider.create(createPlan(ctx, sandbox, start), start.snapshot ? COPY : CREATE)
  failpoint('create.made')
  const deadlineAt = await startLifetime(ctx, sandbox)
  const isContinued = start.hasMemory ?? false
  return await activate(ctx, sandbox, created, { deadlineAt, event: 'created', isContinued })
}

export function createPlan(ctx: Context, sandbox: Sandbox, start: Start): CreatePlan {
  return {
    sandboxId: sandbox.id,
    owner: ctx.owner,
    hostname: sandbox.name?.replaceAll(/[._]/g, '-') ?? sandbox.id,
    resources: sandbox.spec.resources,
    deadlineAt: sandbox.deadlineAt,
    whenOver: presentLifetime(ctx, sandbox).whenOver,
    ...(sandbox.spec.docker && { docker: true }),
    ...start,
  }
}

/**
 * Configures the guest, starts services, records that the sandbox runs, and connects to it. Called under the
 * lock of the sandbox.
 */
export async function activate(
  ctx: Context,
  sandbox: Sandbox,
  created: Created,
  o: {
    readonly deadlineAt: number
    readonly event: 'created' | 'started' | 'resumed'
    /** Its processes continue, so its services run already. */
    readonly isContinued?: boolean
  },
): Promise<Sandbox> {
  const { deadlineAt, event } = o
  // A sandbox that starts from no snapshot gets its project later.
  const hasProject = event !== 'created' || sandbox.tip !== undefined || sandbox.forkedFrom !== undefined
  const { environment } = sandbox.spec
  const guest = ctx.providers.of(sandbox).open(created.handle)
  const linked = { ...sandbox, link: withLevel(sandbox.link, created) }
  const trust = trustOf(ctx, linked)
  const added = ctx.addedInside?.(linked)
  try {
    await guest.configure(
      {
        env: {
          ...ofBase(environment, created),
          ...linkVariables(ctx, linked),
          ...pathOf(environment, created),
          ...added?.variables,
          ...environment.variables,
        },
        defaultUser: environment.user,
        defaultWorkdir: environment.workdir,
        sudo: environment.sudo,
        lease: leaseOf(presentLifetime(ctx, sandbox), deadlineAt - ctx.clock.now()),
        ...(trust && { trust: { ...trust, isContinued: o.isContinued } }),
        ...(added?.envd && { envd: true }),
      },
      CALL,
    )
    await makeWorkdir(environment, guest)
    await writeJavaTrust(ctx, linked, guest)
    failpoint('create.configured')
    if ((environment.services || environment.start) && !o.isContinued) {
      // Services may need the network, as every later command may.
      openLink(ctx, { ...linked, handle: created.handle })
      await startServices(ctx, linked, guest, hasProject ? 'all' : 'without project')
    }
  } catch (error) {
    guest.close()
    throw error
  }
  const running = ctx.registry.transition(sandbox.id, event, {
    deadlineAt,
    handle: created.handle,
    limits: created.limits,
    link: linked.link,
    startedAt: ctx.clock.now(),
  })
  failpoint('create.recorded')
  // The record is written to the disk meanwhile. Nothing before the `await` throws.
  const synced = ctx.registry.synced()
  ctx.connections.set(sandbox.id, connectionTo(guest, sandbox.spec.resources))
  openLink(ctx, running)
  await synced
  return running
}

/** An image may name a working directory that it does not have. */
async function makeWorkdir({ base, workdir }: Environment, guest: Guest): Promise<void> {
  if (!baseKind(base).takesImage || workdir === '') return
  const signal = AbortSignal.timeout(CALL.timeoutMs)
  await guest.files.makeDir(workdir, { user: 'root', signal }).catch((error: unknown) => {
    if (!isAgentPodError(error, 'already_exists')) throw error
  })
}

/** What commands have without any request. */
function ofBase({ inherited, unset = [] }: Environment, { env }: Created): Record<string, string> {
  const all = Object.entries({ LANG: 'C.UTF-8', ...env, ...inherited })
  return Object.fromEntries(all.filter(([name]) => !unset.includes(name)))
}

function pathOf({ path = [], inherited }: Environment, { env }: Created): Record<string, string> {
  if (path.length === 0) return {}
  return { PATH: [...path, inherited?.['PATH'] ?? env['PATH'] ?? DEFAULT_PATH].join(':') }
}

const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

function withLevel(link: SandboxLink | undefined, { network }: Created): SandboxLink | undefined {
  return link && { authority: link.authority, placeholders: link.placeholders, ...network }
}

/** A start that took longer than this was slow enough to notice. */
const SLOW_START_MS = 500

/** The time to live starts when the sandbox runs, so the time of a slow start is added to it. */
async function startLifetime(ctx: Context, sandbox: Sandbox): Promise<number> {
  const { id, spec, deadlineAt } = sandbox
  const whole = ctx.clock.now() + spec.lifetime.ttlMs
  if (whole - deadlineAt < SLOW_START_MS) return deadlineAt
  await ctx.providers.of(sandbox).deadlines?.extend(id, whole, CALL)
  return whole
}

async function fail(ctx: Context, id: SandboxId, error: AgentPodError): Promise<void> {
  try {
    ctx.registry.transition(id, 'fail', {
      ending: { code: error.code, reason: error.reason, message: error.message },
    })
  } catch (unwritten) {
    // On a full disk the record cannot be written; the sandbox is removed anyway.
    ignore(ctx.log, unwritten, `the failure of ${id} was not recorded`)
  }
  await cleanUp(ctx, id)
}

/** Fills in every default and checks every value, before any resource is used. */
export function resolveSpec(request: SpecRequest, template?: Spec): Spec {
  const lifetime = lifetimeOf(request.lifetime ?? {}, template?.lifetime)
  if (!Number.isInteger(lifetime.ttlMs) || lifetime.ttlMs < 1000 || lifetime.ttlMs > LONGEST_TTL_MS) {
    throw invalid('lifetime.ttl', 'the time to live must be from 1 second to 30 days')
  }
  if (!Number.isInteger(lifetime.idleMs) || lifetime.idleMs < 0 || lifetime.idleMs > LONGEST_TTL_MS) {
    throw invalid('lifetime.idle', 'the idle timeout must be from 0 (none) to 30 days')
  }
  if (!WHEN_OVER.includes(lifetime.whenOver)) {
    throw invalid('lifetime.when_over', `whenOver is one of ${WHEN_OVER.join(', ')}`)
  }
  const { toDiskAfterMs = 0 } = lifetime
  if (!Number.isInteger(toDiskAfterMs) || toDiskAfterMs < 0 || toDiskAfterMs > LONGEST_TTL_MS) {
    throw invalid('lifetime.to_disk_after', 'toDiskAfterMs must be from 0 to 30 days')
  }
  if (lifetime.whenIdle !== undefined && lifetime.whenIdle !== 'pause') {
    throw invalid('lifetime.when_idle', 'whenIdle is pause, or is left out')
  }
  const ports = request.ports ?? template?.ports
  return {
    environment: environmentOf(request, template),
    resources: resolveResources({ ...template?.resources, ...dropUndefined(request.resources) }),
    lifetime,
    network: resolveNetwork(request.network, template?.network, request.cap),
    ...(ports && { ports }),
    ...ephemeralOf(request, template),
    ...isolationOf(request, template),
    ...((request.docker ?? template?.docker) && { docker: true }),
  }
}

/** A request that says what happens at the end says it for idleness too, unless it names that as well. */
function lifetimeOf(request: Optional<Lifetime>, template: Lifetime | undefined): Lifetime {
  const asked = dropUndefined(request)
  const { whenIdle, ...inherited } = { ...DEFAULT_LIFETIME, ...template }
  const idle = asked.whenOver === undefined && whenIdle !== undefined ? { whenIdle } : {}
  return { ...inherited, ...idle, ...asked }
}

/** A copy never keeps what its original does not keep. */
function ephemeralOf({ ephemeral = [] }: SpecRequest, template: Spec | undefined): Pick<Spec, 'ephemeral'> {
  const inherited = template?.ephemeral ?? []
  const others = inherited.filter(({ path }) => !ephemeral.some((one) => one.path === path))
  const all = [...ephemeral, ...others]
  return all.length === 0 ? {} : { ephemeral: all }
}

/** A copy is isolated at least as well as its original. */
function isolationOf({ isolation }: SpecRequest, template: Spec | undefined): Pick<Spec, 'isolation'> {
  const before = template?.isolation
  if (isolation === undefined) return before ? { isolation: before } : {}
  return { isolation: before && isAtLeast(before, isolation) ? before : isolation }
}

/**
 * The files of a snapshot stay on its base, whatever the request says. Variables are added to the snapshot's
 * own.
 */
function environmentOf(request: SpecRequest, template: Spec | undefined): Environment {
  const asked = dropUndefined(request.environment)
  const extras = extrasOf(asked, template)
  if (!template) return { ...DEFAULT_ENVIRONMENT, ...asked, ...extras }
  const { base } = template.environment
  if (asked.base !== undefined && asked.base !== base) {
    throw invalid('environment.base', `the snapshot was made on base ${base}, not ${asked.base}`)
  }
  const variables = { ...template.environment.variables, ...asked.variables }
  // The built environment is the one that the sandbox of the snapshot started from.
  const { digest } = template.environment
  return { ...template.environment, ...asked, base, variables, digest, ...extras }
}

/** Files of a snapshot may link into its extras, so it keeps them; new ones are added. */
function extrasOf(asked: Partial<Environment>, template: Spec | undefined): Pick<Environment, 'extras'> {
  const extras = [...new Set([...(template?.environment.extras ?? []), ...(asked.extras ?? [])])]
  if (extras.length > MOST_EXTRAS) {
    throw invalid('environment.extras', `a sandbox has at most ${MOST_EXTRAS} extras`)
  }
  return extras.length === 0 ? {} : { extras }
}

function digestOf(request: CreateRequest): string {
  return createHash('sha256')
    .update(
      canonicalJson({
        ...request,
        requestKey: undefined,
        id: undefined,
        who: undefined,
        origin: request.origin?.snapshot.id,
      }),
    )
    .digest('hex')
}
