import { createHash } from 'node:crypto'
import { DEFAULT_ENVIRONMENT, type Environment } from '../core/environment.ts'
import { AgentPodError, asAgentPodError, invalid } from '../core/error.ts'
import { newSandboxId, parseName, type SandboxId } from '../core/id.ts'
import { LOCAL } from '../core/principal.ts'
import type { CreatePlan, RootPlan } from '../core/provider.ts'
import { askedLimits, type Resources, resolveResources } from '../core/resources.ts'
import type { Sandbox } from '../core/sandbox.ts'
import type { Some } from '../core/some.ts'
import { DEFAULT_LIFETIME, type Lifetime, LONGEST_TTL_MS, type Spec } from '../core/spec.ts'
import type { RequestKey } from '../store/sandboxes.ts'
import { ignore } from '../telemetry/log.ts'
import { CALL, type Context, CREATE } from './context.ts'
import { cleanUp } from './destroy.ts'
import { checkLiving, DEFAULT_QUOTA } from './quota.ts'

/** What a caller asks for; everything left out has a default. */
export interface CreateRequest {
  /** Whose it will be. */
  readonly owner?: string | undefined
  readonly name?: string | undefined
  readonly labels?: Readonly<Record<string, string>> | undefined
  readonly environment?: Some<Environment> | undefined
  readonly resources?: Some<Resources> | undefined
  readonly lifetime?: Some<Lifetime> | undefined
  readonly ports?: { readonly public: boolean } | undefined
  /** Two creates with one key are one create. */
  readonly requestKey?: string | undefined
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
  const spec = resolveSpec(request)
  const name = request.name === undefined ? undefined : parseName(request.name)
  const owner = request.owner ?? LOCAL.owner
  const checkQuota = (): void =>
    checkLiving(ctx.quota ?? DEFAULT_QUOTA, owner, ctx.ledger.livingOf(owner).length)
  checkQuota()
  const root = await ctx.roots.ensure(spec.environment.base, ctx.provider, () => undefined)
  const now = ctx.clock.now()
  const sandbox: Sandbox = {
    id: newSandboxId(ctx.random),
    owner,
    name,
    labels: request.labels ?? {},
    provider: ctx.provider.name,
    state: 'creating',
    spec,
    limits: undefined,
    handle: undefined,
    createdAt: now,
    startedAt: undefined,
    deadlineAt: now + spec.lifetime.ttlMs,
    endedAt: undefined,
    ending: undefined,
  }
  return ctx.lock.run(sandbox.id, async () => {
    // INVARIANT: nothing is awaited between this look and the record, so a hundred creates at once count one another.
    checkQuota()
    ctx.ledger.begin(sandbox, key)
    try {
      return await bringUp(ctx, sandbox, root, askedLimits(request.resources ?? {}))
    } catch (error) {
      await fail(ctx, sandbox.id, asAgentPodError(error))
      throw error
    }
  })
}

async function bringUp(
  ctx: Context,
  sandbox: Sandbox,
  root: RootPlan,
  required: CreatePlan['required'],
): Promise<Sandbox> {
  const { environment, lifetime, resources } = sandbox.spec
  const created = await ctx.provider.create(
    {
      sandboxId: sandbox.id,
      owner: ctx.owner,
      hostname: sandbox.name?.replaceAll(/[._]/g, '-') ?? sandbox.id,
      root,
      resources,
      required,
      deadlineAt: sandbox.deadlineAt,
    },
    CREATE,
  )
  const deadlineAt = await beginLife(ctx, sandbox)
  const guest = ctx.provider.open(created.handle)
  try {
    await guest.configure(
      {
        env: { LANG: 'C.UTF-8', ...created.env, ...environment.variables },
        defaultUser: environment.user,
        defaultWorkdir: environment.workdir,
        sudo: environment.sudo,
        // Zero would mean no end at all.
        lease: { remainingMs: Math.max(1, deadlineAt - ctx.clock.now()), idleMs: lifetime.idleMs },
      },
      CALL,
    )
  } catch (error) {
    guest.close()
    throw error
  }
  const running = ctx.ledger.move(sandbox.id, 'created', {
    deadlineAt,
    handle: created.handle,
    limits: created.limits,
    startedAt: ctx.clock.now(),
  })
  ctx.live.set(sandbox.id, { guest, ended: new AbortController() })
  return running
}

/** From here on a start was slow enough to be felt. */
const SLOW_START_MS = 500

/** A life begins when the sandbox runs: what a slow start took is given back. */
async function beginLife(ctx: Context, { id, spec, deadlineAt }: Sandbox): Promise<number> {
  const whole = ctx.clock.now() + spec.lifetime.ttlMs
  if (whole - deadlineAt < SLOW_START_MS) return deadlineAt
  await ctx.provider.extend(id, whole, CALL)
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
export function resolveSpec(request: CreateRequest): Spec {
  const lifetime = { ...DEFAULT_LIFETIME, ...defined(request.lifetime) }
  if (!Number.isInteger(lifetime.ttlMs) || lifetime.ttlMs < 1000 || lifetime.ttlMs > LONGEST_TTL_MS) {
    throw invalid('lifetime.ttl', 'the time to live must be from 1 second to 30 days')
  }
  if (!Number.isInteger(lifetime.idleMs) || lifetime.idleMs < 0 || lifetime.idleMs > LONGEST_TTL_MS) {
    throw invalid('lifetime.idle', 'the idle timeout must be from 0 (none) to 30 days')
  }
  return {
    environment: { ...DEFAULT_ENVIRONMENT, ...defined(request.environment) },
    resources: resolveResources(request.resources ?? {}),
    lifetime,
    ...(request.ports && { ports: request.ports }),
  }
}

function defined<T extends object>(partial: Some<T> | undefined): Partial<T> {
  return Object.fromEntries(
    Object.entries(partial ?? {}).filter(([, value]) => value !== undefined),
  ) as Partial<T>
}

function digestOf(request: CreateRequest): string {
  return createHash('sha256')
    .update(canonical({ ...request, requestKey: undefined }))
    .digest('hex')
}

/** JSON with sorted keys, so that the order a client wrote them in does not matter. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner) =>
    inner && typeof inner === 'object' && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  )
}
