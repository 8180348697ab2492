import { createHash } from 'node:crypto'
import { baseFor, settledOn } from '../bases/bases.ts'
import { type Isolation, isAtLeast } from '../core/capability.ts'
import { DEFAULT_ENVIRONMENT, type Environment, MOST_EXTRAS } from '../core/environment.ts'
import { AgentPodError, asAgentPodError, invalid } from '../core/error.ts'
import { newSandboxId, parseName, type SandboxId } from '../core/id.ts'
import type { NetworkCap, SandboxLink } from '../core/network.ts'
import { LOCAL, type Principal } from '../core/principal.ts'
import type { Created, CreatePlan, Provider } from '../core/provider.ts'
import type { Kit, RecipeBase } from '../core/recipe.ts'
import { askedLimits, type Resources, resolveResources } from '../core/resources.ts'
import type { Sandbox } from '../core/sandbox.ts'
import type { Snapshot } from '../core/snapshot.ts'
import type { Some } from '../core/some.ts'
import {
  DEFAULT_LIFETIME,
  type Lifetime,
  LONGEST_TTL_MS,
  type Ports,
  type Spec,
  WHEN_OVER,
} from '../core/spec.ts'
import type { RequestKey } from '../store/sandboxes.ts'
import { ignore } from '../telemetry/log.ts'
import { canonical } from '../util/canonical.ts'
import { defined } from '../util/defined.ts'
import { failpoint } from '../util/failpoint.ts'
import type { Layer } from './album.ts'
import { CALL, COPY, CREATE } from './call.ts'
import type { Context, ReadyBase } from './context.ts'
import { cleanUp } from './destroy.ts'
import { environmentRoot, needLayer, withExtras } from './layers.ts'
import { leaseOf } from './lease.ts'
import { linkVariables, newLink, openLink, trustOf, writeJavaTrust } from './link.ts'
import { liveOf } from './live.ts'
import { type NetworkRequest, resolveNetwork } from './network.ts'
import { place, type Wish } from './place.ts'
import { checkLiving, DEFAULT_QUOTA } from './quota.ts'
import { needSecrets } from './secrets.ts'
import { startServices } from './services.ts'

/** What a caller asks for; everything left out has a default. */
export interface CreateRequest {
  /** Whose it will be. */
  readonly owner?: string | undefined
  readonly name?: string | undefined
  readonly labels?: Readonly<Record<string, string>> | undefined
  /** Which provider makes it; where it is left out, the one that holds what it begins with, or the default one. */
  readonly provider?: string | undefined
  /** The lowest level of isolation that is accepted. */
  readonly isolation?: Isolation | undefined
  readonly environment?: Some<Environment> | undefined
  /** Debian's release, where the base is Debian's; for builds. */
  readonly suite?: string | undefined
  /** What the debian base has besides the system. */
  readonly kit?: Kit | undefined
  readonly resources?: Some<Resources> | undefined
  readonly lifetime?: Some<Lifetime> | undefined
  readonly ports?: Ports | undefined
  readonly network?: NetworkRequest | undefined
  /** What its owner may ask for at most. */
  readonly cap?: NetworkCap | undefined
  /** Who asks, which is not always whose it will be: decides which built environments it may begin with. The owner when left out. */
  readonly who?: Principal | undefined
  /** Two creates with one key are one create. */
  readonly requestKey?: string | undefined
  /** Whose files it begins with; its spec is the default for what is left out. */
  readonly origin?: { readonly snapshot: Snapshot } | undefined
}

/** Creates a sandbox and answers when it takes commands. On failure nothing is left outside and the record says why. */
export async function create(ctx: Context, request: CreateRequest): Promise<Sandbox> {
  const key = request.requestKey
  if (key === undefined) return createNew(ctx, request, undefined)
  const owner = request.owner ?? LOCAL.owner
  return ctx.lock.run(`request:${owner}/${key}`, async () => {
    const digest = digestOf(request)
    const earlier = ctx.sandboxes.requested(owner, key)
    if (!earlier) return createNew(ctx, request, { key, digest })
    if (earlier.digest === digest) return sameAnswer(ctx.ledger.get(earlier.sandbox.id) ?? earlier.sandbox)
    throw new AgentPodError({
      code: 'conflict',
      reason: 'request_key.reused',
      message: 'this idempotency key was used for a different request',
      hint: 'use a new key for a new request',
    })
  })
}

/** The second answer to one create is the first one, also where that was an error. */
function sameAnswer(sandbox: Sandbox): Sandbox {
  if (sandbox.startedAt === undefined && sandbox.ending) throw new AgentPodError(sandbox.ending)
  return sandbox
}

async function createNew(
  ctx: Context,
  request: CreateRequest,
  key: RequestKey | undefined,
): Promise<Sandbox> {
  const origin = request.origin
  const name = request.name === undefined ? undefined : parseName(request.name)
  const owner = request.owner ?? LOCAL.owner
  const digest = origin ? undefined : request.environment?.digest
  const who = request.who ?? { owner, isAdmin: owner === LOCAL.owner }
  const layer = digest === undefined ? undefined : needLayer(ctx, digest, who)
  const asked = resolveSpec(request, origin?.snapshot.spec)
  const { provider, isolation } = await place(ctx.providers, wishOf(request, asked, layer))
  const fit = fitted(ctx, provider, request, asked)
  const checkQuota = (): void =>
    checkLiving(ctx.quota ?? DEFAULT_QUOTA, owner, ctx.ledger.livingOf(owner).length)
  checkQuota()
  const ready = origin || layer ? undefined : await baseReady(ctx, provider, request, fit)
  // INVARIANT: from here to the record nothing is awaited, so that no layer is removed in between.
  const built = digest === undefined ? undefined : environmentRoot(ctx, digest, who)
  const resolved = built ? onBase(fit, built.layer.layer.base) : ready ? onReady(request, fit, ready) : fit
  const spec = withSecrets(ctx, owner, request, resolved)
  const below = origin?.snapshot.root ?? built?.root ?? ready?.root ?? {}
  // Those of a snapshot are in its root already.
  const { layers, root } = withExtras(
    ctx,
    { root: below, environment: spec.environment, provider: provider.name },
    request.environment?.extras ?? [],
    who,
  )
  const now = ctx.clock.now()
  const id = newSandboxId(ctx.random)
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
    link: newLink(ctx, id, spec.network),
    root,
    createdAt: now,
    startedAt: undefined,
    deadlineAt: now + spec.lifetime.ttlMs,
    endedAt: undefined,
    ending: undefined,
    tip: origin && (origin.snapshot.isPassing ? origin.snapshot.parentId : origin.snapshot.id),
    forkedFrom: origin?.snapshot.isPassing ? origin.snapshot.sandboxId : undefined,
  }
  const make = (): Promise<Sandbox> =>
    ctx.lock.run(sandbox.id, async () => {
      // INVARIANT: nothing is awaited between this look and the record, so a hundred creates at once count one another.
      checkQuota()
      ctx.ledger.begin(sandbox, key)
      try {
        failpoint('create.intended')
        return await bringUp(ctx, sandbox, {
          root,
          required: askedLimits(request.resources ?? {}),
          snapshot: origin?.snapshot.id,
        })
      } catch (error) {
        await fail(ctx, sandbox.id, asAgentPodError(error))
        throw error
      }
    })
  return holding(ctx, built ? [built.layer, ...layers] : layers, make)
}

/** INVARIANT: nothing is awaited between the look at the layers and this, so none of them is removed in between. */
function holding<T>(ctx: Context, layers: readonly Layer[], work: () => Promise<T>): Promise<T> {
  const [layer, ...others] = layers
  return layer ? ctx.album.using(layer, () => holding(ctx, others, work)) : work()
}

function wishOf({ provider, origin }: CreateRequest, { isolation }: Spec, layer: Layer | undefined): Wish {
  const snapshot = origin?.snapshot
  const bound = snapshot
    ? { provider: snapshot.provider, what: `the snapshot ${snapshot.name ?? snapshot.id}` }
    : layer && { provider: layer.provider, what: 'the built environment' }
  return { provider, isolation, bound }
}

/** What the provider lacks is refused before anything is made; a base that nobody named is one that it has. */
function fitted(ctx: Context, provider: Provider, request: CreateRequest, spec: Spec): Spec {
  if (spec.lifetime.whenOver === 'pause') ctx.providers.groupOf(provider, 'pausing')
  if (spec.lifetime.whenOver === 'stop') ctx.providers.groupOf(provider, 'stopping')
  if (spec.network.secrets.length > 0 && !provider.egress) throw noSecrets(provider)
  if (request.environment?.base !== undefined || request.origin) return spec
  return { ...spec, environment: { ...spec.environment, base: baseFor(spec.environment, provider) } }
}

/** SECURITY: a placeholder is worth something on the way out alone, and a provider without one would have to be given the secret. */
function noSecrets({ name }: Provider): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'secrets.unsupported',
    message: `sandboxes on ${name} cannot hold secrets: their connections do not pass our way out`,
    hint: 'leave the secrets out, or choose another provider',
  })
}

/** A built environment lies on the base that it was built on, whatever is asked for. */
function onBase(spec: Spec, { name, image }: RecipeBase): Spec {
  return { ...spec, environment: { ...spec.environment, base: name, ...(image !== undefined && { image }) } }
}

/** What a base says about itself holds where nobody asked for anything else. */
function onReady({ environment = {} }: CreateRequest, spec: Spec, ready: ReadyBase): Spec {
  return { ...spec, environment: settledOn(spec.environment, environment, ready) }
}

function baseReady(
  ctx: Context,
  provider: Provider,
  { suite, kit }: CreateRequest,
  { environment: { base: name, image } }: Spec,
): Promise<ReadyBase> {
  return ctx.roots.ensure({ name, image, suite, kit }, provider, () => undefined)
}

/** What is asked for by name has to be there; of what a snapshot's sandbox had, what is left. */
function withSecrets(ctx: Context, owner: string, request: CreateRequest, spec: Spec): Spec {
  if (request.network?.secrets) needSecrets(ctx, owner, request.network.secrets)
  const secrets = spec.network.secrets.filter((name) => ctx.network?.secrets.get(owner, name))
  return secrets.length === spec.network.secrets.length
    ? spec
    : { ...spec, network: { ...spec.network, secrets } }
}

/** What a start needs beside the record. */
type Start = Pick<CreatePlan, 'root' | 'required' | 'snapshot'>

async function bringUp(ctx: Context, sandbox: Sandbox, start: Start): Promise<Sandbox> {
  // Where there is no pool, the snapshot's files are copied.
  const provider = ctx.providers.of(sandbox)
  const created = await provider.create(planOf(ctx, sandbox, start), start.snapshot ? COPY : CREATE)
  failpoint('create.made')
  const deadlineAt = await beginLife(ctx, sandbox)
  return enter(ctx, sandbox, created, deadlineAt, 'created')
}

export function planOf(ctx: Context, sandbox: Sandbox, start: Start): CreatePlan {
  return {
    sandboxId: sandbox.id,
    owner: ctx.owner,
    hostname: sandbox.name?.replaceAll(/[._]/g, '-') ?? sandbox.id,
    resources: sandbox.spec.resources,
    deadlineAt: sandbox.deadlineAt,
    whenOver: sandbox.spec.lifetime.whenOver,
    ...start,
  }
}

/** Tells the guest what it is, records that it runs and opens the way in. Called under the sandbox's lock. */
export async function enter(
  ctx: Context,
  sandbox: Sandbox,
  created: Created,
  deadlineAt: number,
  event: 'created' | 'started',
): Promise<Sandbox> {
  // What is made from nothing gets its project later.
  const hasProject = event === 'started' || sandbox.tip !== undefined || sandbox.forkedFrom !== undefined
  const { environment, lifetime } = sandbox.spec
  const guest = ctx.providers.of(sandbox).open(created.handle)
  const linked = { ...sandbox, link: withLevel(sandbox.link, created) }
  const trust = trustOf(ctx, linked)
  const added = ctx.addedInside?.(linked)
  try {
    await guest.configure(
      {
        env: {
          LANG: 'C.UTF-8',
          ...created.env,
          ...linkVariables(ctx, linked),
          ...pathOf(environment, created),
          ...added?.variables,
          ...environment.variables,
        },
        defaultUser: environment.user,
        defaultWorkdir: environment.workdir,
        sudo: environment.sudo,
        lease: leaseOf(lifetime, deadlineAt - ctx.clock.now()),
        ...(trust && { trust }),
        ...(added?.envd && { envd: true }),
      },
      CALL,
    )
    await writeJavaTrust(ctx, linked, guest)
    failpoint('create.configured')
    if (environment.services || environment.start) {
      // They may need the way out, as every later command may.
      openLink(ctx, { ...linked, handle: created.handle })
      await startServices(ctx, linked, guest, hasProject ? 'all' : 'without project')
    }
  } catch (error) {
    guest.close()
    throw error
  }
  const running = ctx.ledger.move(sandbox.id, event, {
    deadlineAt,
    handle: created.handle,
    limits: created.limits,
    link: linked.link,
    startedAt: ctx.clock.now(),
  })
  failpoint('create.recorded')
  ctx.live.set(sandbox.id, liveOf(guest))
  openLink(ctx, running)
  return running
}

function pathOf({ path = [] }: Environment, { env }: Created): Record<string, string> {
  if (path.length === 0) return {}
  return { PATH: [...path, env['PATH'] ?? DEFAULT_PATH].join(':') }
}

const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

function withLevel(link: SandboxLink | undefined, { network }: Created): SandboxLink | undefined {
  return link && { authority: link.authority, placeholders: link.placeholders, ...network }
}

/** From here on a start was slow enough to be felt. */
const SLOW_START_MS = 500

/** A life begins when the sandbox runs: what a slow start took is given back. */
async function beginLife(ctx: Context, sandbox: Sandbox): Promise<number> {
  const { id, spec, deadlineAt } = sandbox
  const whole = ctx.clock.now() + spec.lifetime.ttlMs
  if (whole - deadlineAt < SLOW_START_MS) return deadlineAt
  await ctx.providers.of(sandbox).deadlines?.extend(id, whole, CALL)
  return whole
}

async function fail(ctx: Context, id: SandboxId, error: AgentPodError): Promise<void> {
  try {
    ctx.ledger.move(id, 'fail', {
      ending: { code: error.code, reason: error.reason, message: error.message },
    })
  } catch (unwritten) {
    // A full disk keeps the record from being written; what was made is removed all the same.
    ignore(ctx.log, unwritten, `the failure of ${id} was not recorded`)
  }
  await cleanUp(ctx, id)
}

/** Every default filled in, every value checked, before anything is spent. */
export function resolveSpec(request: CreateRequest, template?: Spec): Spec {
  const lifetime = { ...DEFAULT_LIFETIME, ...template?.lifetime, ...defined(request.lifetime) }
  if (!Number.isInteger(lifetime.ttlMs) || lifetime.ttlMs < 1000 || lifetime.ttlMs > LONGEST_TTL_MS) {
    throw invalid('lifetime.ttl', 'the time to live must be from 1 second to 30 days')
  }
  if (!Number.isInteger(lifetime.idleMs) || lifetime.idleMs < 0 || lifetime.idleMs > LONGEST_TTL_MS) {
    throw invalid('lifetime.idle', 'the idle timeout must be from 0 (none) to 30 days')
  }
  if (!WHEN_OVER.includes(lifetime.whenOver)) {
    throw invalid('lifetime.when_over', `whenOver is one of ${WHEN_OVER.join(', ')}`)
  }
  const ports = request.ports ?? template?.ports
  return {
    environment: environmentOf(request, template),
    resources: resolveResources({ ...template?.resources, ...defined(request.resources) }),
    lifetime,
    network: resolveNetwork(request.network, template?.network, request.cap),
    ...(ports && { ports }),
    ...isolationOf(request, template),
  }
}

/** A copy is isolated at least as well as what it was made from. */
function isolationOf({ isolation }: CreateRequest, template: Spec | undefined): Pick<Spec, 'isolation'> {
  const before = template?.isolation
  if (isolation === undefined) return before ? { isolation: before } : {}
  return { isolation: before && isAtLeast(before, isolation) ? before : isolation }
}

/** A snapshot's files lie on its base, whatever is asked for now; variables add to its own. */
function environmentOf(request: CreateRequest, template: Spec | undefined): Environment {
  const asked = defined(request.environment)
  const extras = extrasOf(asked, template)
  if (!template) return { ...DEFAULT_ENVIRONMENT, ...asked, ...extras }
  const { base } = template.environment
  if (asked.base !== undefined && asked.base !== base) {
    throw invalid('environment.base', `the snapshot was made on base ${base}, not ${asked.base}`)
  }
  const variables = { ...template.environment.variables, ...asked.variables }
  // What it began with is what the snapshot's sandbox did.
  const { digest } = template.environment
  return { ...template.environment, ...asked, base, variables, digest, ...extras }
}

/** Files of a snapshot may be linked into its extras, so it keeps them, and others are added. */
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
      canonical({ ...request, requestKey: undefined, who: undefined, origin: request.origin?.snapshot.id }),
    )
    .digest('hex')
}
