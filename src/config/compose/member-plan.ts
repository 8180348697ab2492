/** How a service of a compose file runs as a member of a group. */
import { STOP_SIGNALS, type StopSignal } from '../../core/environment.ts'
import { readHostName } from '../../policy/host-name.ts'
import { isNeverReachable, isPublicName } from '../../policy/special-name.ts'
import { shellWord } from '../../util/shell/shell-word.ts'
import type { ComposeProject, ComposeService } from './model.ts'
import { isVariableName } from './service-settings.ts'

/** What is known of the image of a service. */
export interface MemberImage {
  readonly entrypoint: readonly string[]
  readonly command: readonly string[]
  readonly user: string | undefined
  readonly workdir: string | undefined
}

export interface MemberService {
  readonly name: string
  /** A command for /bin/sh. */
  readonly run: string
  readonly user: string
  readonly workdir: string
  readonly variables: Record<string, string>
  readonly ready: { readonly command?: string; readonly timeoutMs: number }
  readonly needsProject: boolean
  readonly stopSignal: StopSignal
  readonly stopMs: number
}

export const MOST_STOP_MS = 30_000
const START_MS = 60_000

/** The words that the service runs; empty if neither the file nor the image names any. */
export function serviceWords({ entrypoint, command }: ComposeService, image: MemberImage): string[] {
  // As with Docker, a new entrypoint also removes the image's command.
  const own = entrypoint ? [] : image.command
  return [...(entrypoint ?? image.entrypoint), ...(command ?? own)]
}

export function memberService(service: ComposeService, image: MemberImage): MemberService {
  const { healthcheck, stopSignal, stopMs, environment } = service
  const variables = Object.entries(environment)
  const odd = variables.filter(([name]) => !isVariableName(name))
  // Only programs can be given such names, not shells.
  const env =
    odd.length === 0 ? '' : `env ${odd.map(([name, value]) => shellWord(`${name}=${value}`)).join(' ')} `
  return {
    name: 'main',
    run: `exec ${env}${serviceWords(service, image).map(shellWord).join(' ')}`,
    user: memberUser(service, image),
    workdir: service.workingDir ?? image.workdir ?? '/',
    variables: Object.fromEntries(variables.filter(([name]) => isVariableName(name))),
    ready: {
      ...(healthcheck?.test !== undefined && { command: checkCommand(healthcheck.test) }),
      timeoutMs: healthcheck?.test === undefined ? START_MS : healthcheck.readyMs,
    },
    // Files of the project are brought in before it starts.
    needsProject: true,
    stopSignal: stopSignalOf(stopSignal ?? '') ?? 'SIGTERM',
    stopMs: Math.min(stopMs ?? 10_000, MOST_STOP_MS),
  }
}

/** With or without SIG. Undefined for a signal that does not stop a service. */
export function stopSignalOf(text: string): StopSignal | undefined {
  const name = text.startsWith('SIG') ? text : `SIG${text}`
  return STOP_SIGNALS.find((one) => one === name)
}

/** `name:group` becomes the name: the groups of an account are its own. */
export function memberUser({ user }: ComposeService, image: MemberImage): string {
  const text = user ?? image.user ?? 'root'
  return /^\d+(?::\d+)?$/.test(text) ? text : (text.split(':')[0] ?? 'root')
}

/**
 * A check asks its own sandbox, and some programs, such as busybox's wget, send even that to the proxy of
 * their variables. Connections to other hosts are led to the same place without the variables.
 */
const DIRECTLY = 'unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY\n'

function checkCommand(test: string | readonly string[]): string {
  return `${DIRECTLY}${typeof test === 'string' ? test : test.map(shellWord).join(' ')}`
}

/** A service name as a host name: Docker allows underscores and capitals, host names do not. */
export function memberName(service: string): string {
  return (
    service
      .toLowerCase()
      .replaceAll(/[^a-z0-9.-]+/g, '-')
      .replaceAll(/^[-.]+|[-.]+$/g, '') || 'service'
  )
}

/** Aliases that are host names and that no other service has. */
export function memberAliases(
  { services }: Pick<ComposeProject, 'services'>,
  service: ComposeService,
): string[] {
  const taken = new Set(services.map(({ name }) => memberName(name)))
  const others = new Set(services.filter((one) => one !== service).flatMap(({ aliases }) => aliases))
  return [...new Set(service.aliases)].filter(
    (one) => canBeMember(one) && !taken.has(one) && !others.has(one),
  )
}

/** Whether a name is free for a member of a group: no host outside has it, and no reserved meaning. */
export function canBeMember(name: string): boolean {
  const reading = readHostName(name)
  return reading.ok && reading.host === name && !isNeverReachable(reading.host) && !isPublicName(reading.host)
}

/** Services that others wait for until they have ended: migrations, setup. */
export function runsToEnd({ services }: Pick<ComposeProject, 'services'>, { name }: ComposeService): boolean {
  return services.some(({ dependsOn }) =>
    dependsOn.some((one) => one.service === name && one.condition === 'service_completed_successfully'),
  )
}
