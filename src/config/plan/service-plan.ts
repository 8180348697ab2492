/** Which services run beside the project, and from where. */
import type { Service } from '../../core/environment.ts'
import { AgentPodError } from '../../core/error.ts'
import type { FoundService } from '../detect/finding.ts'
import type { Choice, Evidence } from '../evidence.ts'
import type { ServiceWish } from '../project/data.ts'
import { DEBIAN_SERVERS, type DebianTool } from './debian.ts'
import { KNOWN_SERVICES, type KnownService, knownService, SERVICE_DATA } from './service-catalog.ts'
import type { Ground, Machine } from './sources.ts'
import { satisfies } from './version.ts'

export interface WantedService {
  readonly name: string
  /** Undefined for one with a command of its own. */
  readonly known: string | undefined
  readonly version: string | undefined
  readonly port: number
  readonly choice: Choice
  readonly command: Extract<ServiceWish, { kind: 'command' }> | undefined
}

export interface ServicePlan extends WantedService {
  /** The version that there is. */
  readonly has: string | undefined
  readonly packages: readonly string[]
  readonly note: string | undefined
}

/** What was found and what the file says, one entry each. */
export function wantedServices(
  found: readonly FoundService[],
  wishes: readonly ServiceWish[],
  fileName: string,
): WantedService[] {
  const wanted = new Map<string, WantedService>()
  for (const one of found) {
    const known = knownService(one.name)
    if (known === undefined) continue
    const before = wanted.get(known)
    const rejected = { value: one.version ?? 'any', evidence: one.evidence, why: 'it asks for the same' }
    if (before) {
      const isBetter = before.version === undefined && one.version !== undefined
      const choice = isBetter ? choiceOf(one, [rejectedOf(before)]) : before.choice
      wanted.set(known, {
        ...before,
        version: before.version ?? one.version,
        choice: isBetter
          ? { ...choice, beat: [...choice.beat, ...before.choice.beat] }
          : { ...choice, beat: [...choice.beat, rejected] },
      })
    } else {
      const { port } = KNOWN_SERVICES[known] as KnownService
      wanted.set(known, {
        name: known,
        known,
        version: one.version,
        port,
        choice: choiceOf(one, []),
        command: undefined,
      })
    }
  }
  for (const wish of wishes) applyWish(wanted, wish, fileName)
  return [...wanted.values()]
}

function applyWish(wanted: Map<string, WantedService>, wish: ServiceWish, file: string): void {
  const known = knownService(wish.name)
  const key = known ?? wish.name
  const before = wanted.get(key)
  // Its place is where the file has it, not where detection did.
  wanted.delete(key)
  if (wish.kind === 'none') return
  const evidence: Evidence = { file, said: `[services] ${wish.name}` }
  const beat = before ? [rejectedOf(before), ...before.choice.beat] : []
  const choice = (value: string): Choice => ({ value, rank: 'agentpod.toml', evidence, beat })
  if (wish.kind === 'command') {
    const port = wish.ready?.port ?? 0
    wanted.set(key, {
      name: wish.name,
      known: undefined,
      version: undefined,
      port,
      choice: choice('command'),
      command: wish,
    })
    return
  }
  wanted.set(key, {
    name: wish.name,
    known,
    version: wish.version ?? before?.version,
    port: wish.port ?? KNOWN_SERVICES[key]?.port ?? 0,
    choice: choice(wish.version ?? 'any'),
    command: undefined,
  })
}

function choiceOf({ version, evidence }: FoundService, beat: Choice['beat']): Choice {
  return { value: version ?? 'any', rank: 'manifest', evidence, beat }
}

function rejectedOf({ choice }: WantedService): Choice['beat'][number] {
  return { value: choice.value, evidence: choice.evidence, why: 'another place says more' }
}

/** What a base has for a service: undefined where it has none. */
export function serverOn(ground: Ground, machine: Machine, name: string): DebianTool | undefined {
  const known = KNOWN_SERVICES[name]
  if (!known) return undefined
  if (ground.base === 'debian') return DEBIAN_SERVERS[ground.suite][name]
  const tool = machine.host.find((one) => one.name === known.tool)
  return tool && { version: tool.version, packages: [] }
}

/** Whether a base can run it as it is wanted. What only detection wants may have another version. */
export function canRun(ground: Ground, machine: Machine, wanted: WantedService): boolean {
  if (wanted.command) return true
  const server = wanted.known === undefined ? undefined : serverOn(ground, machine, wanted.known)
  if (!server) return false
  return !isStrict(wanted) || isMet(server, wanted)
}

const isStrict = ({ choice, version }: WantedService): boolean =>
  choice.rank === 'agentpod.toml' && version !== undefined

function isMet(server: DebianTool, { version }: WantedService): boolean {
  return version === undefined || satisfies('tool', server.version, version)
}

export function planService(
  ground: Ground,
  machine: Machine,
  wanted: WantedService,
): ServicePlan | { readonly missing: string } {
  if (wanted.command) return { ...wanted, has: undefined, packages: [], note: undefined }
  const server = wanted.known === undefined ? undefined : serverOn(ground, machine, wanted.known)
  const where = ground.base === 'host' ? 'this machine' : `Debian ${ground.suite}`
  if (!server || (isStrict(wanted) && !isMet(server, wanted))) {
    const missing = server
      ? `${wanted.name} ${wanted.version} is not to be had: ${where} has ${server.version}`
      : `${wanted.name} is not to be had: ${where} does not have it`
    if (wanted.choice.rank !== 'agentpod.toml') return { missing }
    throw new AgentPodError({
      code: 'failed_precondition',
      reason: 'service.unavailable',
      message: `${wanted.choice.evidence.file}: ${missing}`,
      hint: server
        ? `write version = "${server.version}", or another base or suite`
        : `run it with a command of your own: ${wanted.name} = { run = "...", ready = "..." }, or leave it out`,
    })
  }
  const note = isMet(server, wanted)
    ? undefined
    : `${wanted.name} ${wanted.version} was asked for by ${wanted.choice.evidence.file}; ${where} has ${server.version}, which is taken`
  return { ...wanted, has: server.version, packages: server.packages, note }
}

/** The service as the engine runs it. */
export function serviceOf(
  plan: ServicePlan,
  o: { readonly user: string; readonly workspace: string },
): Service {
  const common = { name: plan.name, user: o.user, stopMs: 20_000 }
  const { command } = plan
  if (command)
    return {
      ...common,
      run: command.run,
      workdir: command.workdir === '' ? o.workspace : `${o.workspace}/${command.workdir}`,
      variables: command.variables,
      ready: command.ready ?? { timeoutMs: 60_000 },
      needsProject: true,
      stopSignal: command.stopSignal,
    }
  const known = KNOWN_SERVICES[plan.known ?? ''] as KnownService
  const parts = partsOf(plan, o.user)
  return {
    ...common,
    run: known.run(parts),
    workdir: '/',
    variables: {},
    ready: { command: known.ready(parts), timeoutMs: 60_000 },
    needsProject: false,
    stopSignal: known.stopSignal,
  }
}

export function partsOf(plan: WantedService, user: string): { data: string; port: number; user: string } {
  return { data: `${SERVICE_DATA}/${plan.known ?? plan.name}`, port: plan.port, user }
}

/** What programs find it by. */
export function serviceVariables(plan: ServicePlan, user: string): Readonly<Record<string, string>> {
  return KNOWN_SERVICES[plan.known ?? '']?.variables(partsOf(plan, user)) ?? {}
}
