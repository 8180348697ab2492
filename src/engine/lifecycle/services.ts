/**
 * The services of an environment: started in order and ready before any command, stopped in reverse order
 * before the sandbox is stopped.
 */
import type { Environment, Readiness, Service } from '../../core/environment.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import type { Guest } from '../../core/guest.ts'
import type { ProcessExit } from '../../core/guest-process.ts'
import type { SandboxId } from '../../core/id.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import { processesInside, runInside, signalInside, startInside } from '../../guest/run-command.ts'
import { ignore } from '../../telemetry/log.ts'
import { type Clock, sleep } from '../../util/clock.ts'
import { replaceHiddenInLines } from '../../util/hidden-characters.ts'
import { CALL } from '../call.ts'
import type { Context } from '../context.ts'
import { DOCKER_SERVICE, dockerHint } from './docker-service.ts'
import { requireSandbox, unusableSandbox } from './require-sandbox.ts'

/** The tag of the process of a service. A tag can be used once, so later starts add `#2` and so on. */
export function serviceTag(name: string): string {
  return `agentpod.service.${name}`
}

function isTagOf(name: string, tag: string): boolean {
  return tag === serviceTag(name) || tag.startsWith(`${serviceTag(name)}#`)
}

const TAIL_BYTES = 4000
const ASK_FIRST_MS = 20
const ASK_LAST_MS = 500
const CHECK_MS = 10_000
/** How long one attempt to reach a port may take; the next attempt follows. */
const DIAL_MS = 1000
/**
 * SECURITY: the limit for stopping all services of a sandbox together, so that a sandbox cannot delay the
 * sweep longer.
 */
const MOST_STOP_MS = 30_000

type Which = 'all' | 'without project'

/**
 * Starts the services that do not run yet and waits until each is ready. `failed_precondition` names the
 * service that failed, with the end of its output.
 */
export async function startServices(
  ctx: Context,
  sandbox: Sandbox,
  guest: Guest,
  which: Which,
): Promise<void> {
  const { environment } = sandbox.spec
  const stop = new AbortController()
  ctx.startingServices.set(sandbox.id, stop)
  try {
    for (const service of environment.services ?? []) {
      if (which === 'without project' && service.needsProject) continue
      await startService(ctx, { id: sandbox.id, guest, stop: stop.signal }, service)
    }
  } finally {
    ctx.startingServices.delete(sandbox.id)
  }
  if (which === 'all' && environment.start) await runStart(environment, environment.start, guest)
}

/**
 * Starts the services that need the project's files and runs the command of every start, once the files are
 * there. Idempotent except for the command.
 */
export async function startProjectServices(ctx: Context, id: SandboxId): Promise<void> {
  await ctx.lock.run(id, async () => {
    const sandbox = requireSandbox(ctx, id)
    const connection = ctx.connections.get(id)
    if (!connection) throw unusableSandbox(id, sandbox)
    await startServices(ctx, sandbox, connection.guest, 'all')
  })
}

async function startService(
  ctx: Context,
  { id, guest, stop }: { readonly id: SandboxId; readonly guest: Guest; readonly stop: AbortSignal },
  service: Service,
): Promise<void> {
  const { name, run, user, workdir, variables } = service
  const processes = await processesInside(guest, AbortSignal.timeout(CALL.timeoutMs))
  const before = processes.filter(({ tag }) => isTagOf(name, tag))
  if (before.some(({ isRunning }) => isRunning)) return
  const tag = before.length === 0 ? serviceTag(name) : `${serviceTag(name)}#${nextNumber(before)}`
  const abandon = new AbortController()
  const output = new Tail()
  const { events } = startInside(guest, { run, user, workdir, variables, tag }, abandon.signal)
  const begun = Promise.withResolvers<void>()
  const ended = follow(events, output, begun.resolve)
  try {
    await Promise.race([
      // The process must have started first: leaving the stream before that would cancel the start.
      begun.promise.then(() => ready(ctx.clock, guest, service, abandon.signal)),
      ended.then((exit) => {
        throw failed(service, endOf(exit), output, exit)
      }),
      aborted(stop).then(() => {
        throw destroyedMeanwhile()
      }),
    ])
    ctx.registry.appendEvent(id, 'service.ready', { service: name })
  } catch (error) {
    throw isAgentPodError(error) && error.reason === 'service.timeout'
      ? failed(service, error.message, output)
      : error
  } finally {
    abandon.abort()
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

function nextNumber(before: readonly { readonly tag: string }[]): number {
  const numbers = before.map(({ tag }) => Number(/#(\d{1,9})$/.exec(tag)?.[1] ?? 1))
  return Math.max(...numbers) + 1
}

/**
 * Resolves with how the service ended. A stream that we left says nothing about the service; one that was cut
 * means that the sandbox is gone.
 */
async function follow(
  events: ReturnType<typeof startInside>['events'],
  output: Tail,
  onStart: () => void,
): Promise<ProcessExit> {
  try {
    for await (const event of events) {
      if (event.kind === 'start') onStart()
      if (event.kind === 'output') output.push(event.data)
      if (event.kind === 'end') return event.exit
    }
  } catch (error) {
    if (!isAgentPodError(error, 'canceled')) throw error
  }
  return new Promise(() => undefined)
}

async function ready(clock: Clock, guest: Guest, service: Service, abandoned: AbortSignal): Promise<void> {
  const { timeoutMs } = service.ready
  const end = clock.now() + timeoutMs
  for (let wait = ASK_FIRST_MS; ; wait = Math.min(wait * 2, ASK_LAST_MS)) {
    if (await isReady(guest, service, service.ready, abandoned)) return
    if (clock.now() > end) throw notReadyInTime(timeoutMs)
    await sleep(clock, wait, abandoned)
  }
}

async function isReady(
  guest: Guest,
  service: Service,
  { command, port, commandMs = CHECK_MS }: Readiness,
  abandoned: AbortSignal,
): Promise<boolean> {
  try {
    if (command !== undefined) {
      const { user, workdir, variables } = service
      const check = { run: command, user, workdir, variables, timeoutMs: commandMs }
      const signal = AbortSignal.any([abandoned, AbortSignal.timeout(commandMs + CHECK_MS)])
      return (await runInside(guest, check, { signal })).exitCode === 0
    }
    if (port === undefined) return true
    const connection = await guest.dial(port, { timeoutMs: DIAL_MS })
    connection.on('error', () => undefined)
    connection.destroy()
    return true
  } catch {
    return false
  }
}

async function runStart(environment: Environment, run: string, guest: Guest): Promise<void> {
  const output = new Tail()
  const { user, workdir } = environment
  const { exitCode, signal } = await runInside(
    guest,
    { run, user, workdir, variables: {}, timeoutMs: START_MS },
    { signal: AbortSignal.timeout(START_MS + CHECK_MS), onOutput: (data) => output.push(data) },
  )
  if (exitCode === 0 && !signal) return
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'start.failed',
    message: `the start command failed ${signal ? `by ${signal}` : `with code ${exitCode}`}${output.text}`,
    hint: 'see `start` in [lifecycle] of agentpod.toml',
  })
}

const START_MS = 10 * 60_000

/**
 * Signals each service to end, last first, and waits. A service that does not end in time ends with the
 * sandbox.
 */
export async function stopServices(ctx: Context, sandbox: Sandbox): Promise<void> {
  const connection = ctx.connections.get(sandbox.id)
  const services = sandbox.spec.environment.services ?? []
  if (!connection || services.length === 0) return
  const end = ctx.clock.now() + MOST_STOP_MS
  for (const service of [...services].reverse()) {
    const leftMs = end - ctx.clock.now()
    if (leftMs <= 0) return
    try {
      await stopService(ctx.clock, connection.guest, { ...service, stopMs: Math.min(service.stopMs, leftMs) })
    } catch (error) {
      ignore(
        ctx.log,
        error,
        `service ${service.name} of ${sandbox.id} did not stop; it ends with the sandbox`,
      )
    }
  }
}

async function stopService(clock: Clock, guest: Guest, { name, stopSignal, stopMs }: Service): Promise<void> {
  const signal = AbortSignal.timeout(stopMs + CALL.timeoutMs)
  const running = async (): Promise<string | undefined> =>
    (await processesInside(guest, signal)).find((one) => one.isRunning && isTagOf(name, one.tag))?.tag
  const tag = await running()
  if (tag === undefined) return
  await signalInside(guest, tag, stopSignal, signal)
  const end = clock.now() + stopMs
  for (let wait = ASK_FIRST_MS; clock.now() < end; wait = Math.min(wait * 2, ASK_LAST_MS)) {
    if ((await running()) !== tag) return
    await sleep(clock, wait, signal)
  }
}

/** The end of the output of a program, without control characters. */
class Tail {
  #bytes = Buffer.alloc(0)

  push(data: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, data]).subarray(-TAIL_BYTES)
  }

  get text(): string {
    const text = replaceHiddenInLines(this.#bytes.toString('utf8'), '').trim()
    return text === '' ? '' : `:\n${text}`
  }
}

function destroyedMeanwhile(): AgentPodError {
  return new AgentPodError({
    code: 'canceled',
    reason: 'service.canceled',
    message: 'the sandbox was destroyed while its services started',
  })
}

function notReadyInTime(timeoutMs: number): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'service.timeout',
    message: `it was not ready after ${Math.round(timeoutMs / 1000)} s`,
  })
}

function endOf({ exitCode, signal, oomKilled }: ProcessExit): string {
  if (oomKilled) return 'it ran out of memory'
  return signal ? `it ended by ${signal}` : `it ended with code ${exitCode}`
}

function failed({ name }: Service, why: string, output: Tail, exit?: ProcessExit): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'service.failed',
    message: `service ${name} did not start: ${why}${output.text}`,
    hint:
      name === DOCKER_SERVICE
        ? dockerHint(exit)
        : `fix it in [services] of agentpod.toml, or disable it with \`${name} = false\``,
  })
}
