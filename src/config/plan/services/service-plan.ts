/** Plans the services that run beside the project. */

import type { Machine, PackagedTool, ResolvedBase } from '../../../bases/base-kind.ts'
import { baseKind } from '../../../bases/bases.ts'
import { DEBIAN_SERVERS } from '../../../bases/debian-packages.ts'
import type { Service } from '../../../core/environment.ts'
import { AgentPodError } from '../../../core/error.ts'
import { SUITES } from '../../../core/recipe.ts'
import type { FoundService, ServiceAccount } from '../../detect/finding.ts'
import type { Choice, Evidence } from '../../evidence.ts'
import type { ServiceWish } from '../../project/data.ts'
import { satisfies } from '../languages/version.ts'
import {
  KNOWN_SERVICES,
  type KnownService,
  knownService,
  loginOf,
  loginText,
  SERVICE_DATA,
  type ServiceParts,
} from './service-catalog.ts'

export interface WantedService {
  readonly name: string
  /** Undefined for a service with its own command. */
  readonly known: string | undefined
  readonly version: string | undefined
  readonly port: number
  readonly account: ServiceAccount | undefined
  readonly choice: Choice
  readonly command: Extract<ServiceWish, { kind: 'command' }> | undefined
}

export interface ServicePlan extends WantedService {
  /** The available version. */
  readonly has: string | undefined
  readonly packages: readonly string[]
  readonly note: string | undefined
}

/** Notes about detected services that AgentPod cannot run. */
export function unknownServices(found: readonly FoundService[], wishes: readonly ServiceWish[]): string[] {
  const named = new Set(wishes.map(({ name }) => name))
  const unknown = found.filter(({ name }) => knownService(name) === undefined && !named.has(name))
  return [...new Map(unknown.map((one) => [one.name, one])).values()].map(
    ({ name, evidence: { file } }) =>
      `left out: ${name}, which ${file} mentions, because AgentPod does not know how to run it; give its command under [services] in agentpod.toml`,
  )
}

/** Detected and configured services, one entry each. */
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
    const rejected = {
      value: one.version ?? 'any',
      evidence: one.evidence,
      why: 'it asks for the same service',
    }
    if (before) {
      const isBetter = before.version === undefined && one.version !== undefined
      const choice = isBetter ? choiceOf(one, [rejectedOf(before)]) : before.choice
      wanted.set(known, {
        ...before,
        version: before.version ?? one.version,
        account: before.account ?? one.account,
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
        account: one.account,
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
  // The order follows the file, not detection.
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
      account: undefined,
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
    account: before?.account,
    choice: choice(wish.version ?? 'any'),
    command: undefined,
  })
}

function choiceOf({ version, evidence }: FoundService, beat: Choice['beat']): Choice {
  return { value: version ?? 'any', rank: 'manifest', evidence, beat }
}

function rejectedOf({ choice }: WantedService): Choice['beat'][number] {
  return { value: choice.value, evidence: choice.evidence, why: 'another file is more specific' }
}

/** The server program of a base; undefined if it has none. */
export function serverOn(
  resolvedBase: ResolvedBase,
  machine: Machine,
  name: string,
): PackagedTool | undefined {
  const known = KNOWN_SERVICES[name]
  if (!known) return undefined
  return baseKind(resolvedBase.base).tools.server(resolvedBase, machine, name, known.tool)
}

/** Whether a base can run the service as requested. A detected service may get another version. */
export function canRun(resolvedBase: ResolvedBase, machine: Machine, wanted: WantedService): boolean {
  if (wanted.command) return true
  const server = wanted.known === undefined ? undefined : serverOn(resolvedBase, machine, wanted.known)
  if (!server) return false
  return !isStrict(wanted) || isMet(server, wanted)
}

/** Whether agentpod.toml names the version; a detected version may differ. */
const isStrict = ({ choice, version }: WantedService): boolean =>
  choice.rank === 'agentpod.toml' && choice.value === version

function isMet(server: PackagedTool, { version }: WantedService): boolean {
  return version === undefined || satisfies('tool', server.version, version)
}

export function planService(
  resolvedBase: ResolvedBase,
  machine: Machine,
  wanted: WantedService,
): ServicePlan | { readonly missing: string } {
  if (wanted.command) return { ...wanted, has: undefined, packages: [], note: undefined }
  const server = wanted.known === undefined ? undefined : serverOn(resolvedBase, machine, wanted.known)
  const where = baseKind(resolvedBase.base).texts.label(resolvedBase)
  if (!server || (isStrict(wanted) && !isMet(server, wanted))) {
    const missing = server
      ? `${wanted.name} ${wanted.version} is not available: ${where} has ${server.version}`
      : `${wanted.name} is not available: ${where} does not have it`
    if (wanted.choice.rank !== 'agentpod.toml')
      return { missing: `${missing}${elsewhere(resolvedBase, wanted)}` }
    throw new AgentPodError({
      code: 'failed_precondition',
      reason: 'service.unavailable',
      message: `${wanted.choice.evidence.file}: ${missing}`,
      hint: server
        ? `use version = "${server.version}", or another base or suite`
        : `give a command to run it: ${wanted.name} = { run = "...", ready = "..." }, or leave it out`,
    })
  }
  const note = isMet(server, wanted)
    ? undefined
    : `${wanted.name} ${wanted.version} is requested by ${wanted.choice.evidence.file}, but ${where} has ${server.version}, which is used`
  return { ...wanted, has: server.version, packages: server.packages, note }
}

/** Added to the note if Debian has the service. */
function elsewhere({ base }: ResolvedBase, { known }: WantedService): string {
  const isDebians = known !== undefined && SUITES.some((suite) => DEBIAN_SERVERS[suite][known])
  return isDebians ? baseKind(base).texts.missingServiceHint : ''
}

/** The service as the engine runs it. */
export function engineService(
  plan: ServicePlan,
  o: { readonly user: string; readonly workspace: string },
): Service {
  const common = { name: plan.name, stopMs: 20_000 }
  const { command } = plan
  if (command)
    return {
      ...common,
      user: o.user,
      run: command.run,
      workdir: command.workdir === '' ? o.workspace : `${o.workspace}/${command.workdir}`,
      variables: command.variables,
      ready: command.ready ?? { timeoutMs: 60_000 },
      needsProject: true,
      stopSignal: command.stopSignal,
    }
  const known = KNOWN_SERVICES[plan.known ?? ''] as KnownService
  const parts = serviceParts(plan, o.user)
  return {
    ...common,
    user: parts.daemon,
    run: known.run(parts),
    workdir: '/',
    variables: {},
    ready: { command: known.ready(parts), timeoutMs: 60_000 },
    needsProject: false,
    stopSignal: known.stopSignal,
  }
}

/** Databases refuse to run as root, so this user runs them when the sandbox's user is root. */
const INSTEAD_OF_ROOT = 'user'

export function serviceParts(plan: WantedService, user: string): ServiceParts {
  return {
    data: `${SERVICE_DATA}/${plan.known ?? plan.name}`,
    port: plan.port,
    user,
    daemon: user === 'root' ? INSTEAD_OF_ROOT : user,
    account: plan.account,
  }
}

/** Variables by which programs find the service. */
export function serviceVariables(plan: ServicePlan, user: string): Readonly<Record<string, string>> {
  return KNOWN_SERVICES[plan.known ?? '']?.variables(serviceParts(plan, user)) ?? {}
}

const ADDRESS =
  /^([a-z][a-z0-9]{1,20})((?:\+\w{1,20})?):\/\/[^\s/?]{0,300}(\/[\w.-]{0,100})?(\?[\w=&.%-]{0,200})?$/

/** URL schemes by service. */
const SCHEMES: Readonly<Record<string, readonly string[]>> = {
  postgres: ['postgres', 'postgresql', 'postgis', 'pgsql'],
  mariadb: ['mysql', 'mysql2', 'mariadb'],
  redis: ['redis'],
  memcached: ['memcached'],
  rabbitmq: ['amqp'],
}

/**
 * The URL of a service from a project's example file, changed to the host and login of the service in the
 * sandbox. Undefined if no such service runs.
 */
export function addressInSandbox(
  value: string,
  services: readonly ServicePlan[],
  user: string,
): string | undefined {
  const [, scheme = '', driver = '', path = '', query = ''] = ADDRESS.exec(value) ?? []
  const service = services.find(({ known }) => known !== undefined && SCHEMES[known]?.includes(scheme))
  if (!service) return undefined
  const { port, known, account } = service
  switch (known) {
    case 'postgres':
    case 'mariadb': {
      const login = loginOf({ account, user }, known)
      return `${scheme}${driver}://${loginText(login)}127.0.0.1:${port}/${login.database}${query}`
    }
    case 'rabbitmq':
    case 'redis':
      return `${scheme}${driver}://${loginText(loginOf({ account, user }, known))}127.0.0.1:${port}${path}${query}`
    default:
      return `${scheme}${driver}://127.0.0.1:${port}${path}${query}`
  }
}
