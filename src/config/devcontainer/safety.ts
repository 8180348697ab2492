/**
 * What becomes of each property that reaches beyond the container: what is honoured, what needs the user's
 * approval, what is refused, and what has no meaning for a sandbox. Nothing is left out: a property that is
 * not in this list is honoured as the specification says.
 */
import { isObject, type JsonObject } from '../../util/untrusted-json.ts'
import type { Evidence } from '../evidence.ts'
import type { Path } from '../toml/positions.ts'
import { printable } from '../toml/problem.ts'
import type { DevcontainerFile } from './devcontainer-file.ts'
import type { MetadataEntry } from './image-metadata.ts'
import { OWN_ORIGIN } from './lifecycle.ts'
import { localVariables } from './local-variables.ts'
import { type DevcontainerMount, isTemporaryTarget, parseMount } from './mounts.ts'
import type { MountValue } from './properties.ts'
import { runWishes, type SafetyVerdict } from './run-arguments.ts'

export interface SafetyItem {
  /** With dots: `capAdd.0`. */
  readonly property: string
  readonly value: string
  readonly verdict: SafetyVerdict
  readonly reason: string
  /** `devcontainer.json`, the reference of a Feature, or the image. */
  readonly origin: string
  /** The file and line, or only the origin. */
  readonly evidence: Evidence
}

/** Root has these in every sandbox. */
const CAPABILITIES: ReadonlySet<string> = new Set([
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'FSETID',
  'KILL',
  'NET_BIND_SERVICE',
  'SETFCAP',
  'SETGID',
  'SETPCAP',
  'SETUID',
  'SYS_CHROOT',
])

interface Judged {
  readonly path: Path
  readonly value: unknown
  readonly verdict: SafetyVerdict
  readonly reason: string
}

/**
 * The file's own properties, and those of the image's label and of Features. `entries` are these without the
 * file's own one. Values have replaced variables.
 */
export function safetyItems(
  file: DevcontainerFile,
  configuration: JsonObject,
  entries: readonly MetadataEntry[],
): readonly SafetyItem[] {
  const own = [...judgedFile(configuration), ...judgedVariables(file.raw)]
  return [
    ...own.map((one) => itemOf(one, OWN_ORIGIN, file.file, file.at(one.path)?.line)),
    ...entries.flatMap((entry) => {
      const origin = entry.id ?? 'the image'
      const isCompose = configuration['dockerComposeFile'] !== undefined
      return judgedEntry(entry as JsonObject, isCompose).map((one) => itemOf(one, origin, '', undefined))
    }),
  ]
}

function itemOf(
  { path, value, verdict, reason }: Judged,
  origin: string,
  file: string,
  line: number | undefined,
): SafetyItem {
  const text = printable(typeof value === 'string' ? value : JSON.stringify(value), 200)
  const property = path.map((step) => printable(String(step))).join('.')
  return {
    property,
    value: text,
    verdict,
    reason,
    origin: printable(origin, 200),
    evidence: { file, ...(line !== undefined && { line }), said: printable(`${property}: ${text}`, 80) },
  }
}

function judgedFile(configuration: JsonObject): Judged[] {
  const { build, features, runArgs, hostRequirements } = configuration
  const one = (key: string, verdict: SafetyVerdict, reason: string): Judged[] =>
    configuration[key] === undefined ? [] : [{ path: [key], value: configuration[key], verdict, reason }]
  return [
    ...one('image', 'approval', 'the image decides what runs in the sandbox'),
    ...one('build', 'approval', 'the Dockerfile runs in a sandbox; the images that it names are approved'),
    ...one(
      'dockerFile',
      'approval',
      'the Dockerfile runs in a sandbox; the images that it names are approved',
    ),
    ...one('dockerComposeFile', 'approval', 'each service is a sandbox of its own image'),
    ...(isObject(features) ? Object.entries(features) : []).map(([name, value]) => ({
      path: ['features', name],
      value,
      verdict: 'approval' as const,
      reason: 'its script runs as root while the environment is built, in a sandbox',
    })),
    ...one(
      'initializeCommand',
      'approval',
      'the specification runs it on the host; it runs in a sandbox, on a copy of the project',
    ),
    ...judgedEntry(configuration, configuration['dockerComposeFile'] !== undefined),
    ...(Array.isArray(runArgs) ? judgedArguments(runArgs.map(String)) : []),
    ...one('appPort', 'honoured', 'forwarded like forwardPorts, and not published on other addresses'),
    ...one('workspaceMount', 'no-effect', 'the sandbox has a copy of the project at workspaceFolder'),
    ...(isObject(build) ? judgedBuild(build) : []),
    ...(isObject(hostRequirements) ? judgedRequirements(hostRequirements) : []),
    ...one('secrets', 'honoured', 'a sandbox gets placeholders for those that the user stored'),
  ]
}

function judgedBuild({ options, cacheFrom }: JsonObject): Judged[] {
  return [
    ...(Array.isArray(options) ? options : []).map((value, index) => ({
      path: ['build', 'options', index],
      value,
      verdict: 'refused' as const,
      reason: 'it is an option of another build program',
    })),
    ...(cacheFrom === undefined
      ? []
      : [
          {
            path: ['build', 'cacheFrom'],
            value: cacheFrom,
            verdict: 'no-effect' as const,
            reason: 'layers have a cache of their own',
          },
        ]),
  ]
}

function judgedRequirements(requirements: JsonObject): Judged[] {
  return Object.entries(requirements).map(([key, value]) => {
    const path = ['hostRequirements', key]
    if (key !== 'gpu') return { path, value, verdict: 'honoured', reason: 'as the size of the sandbox' }
    return value === 'optional' || value === false
      ? { path, value, verdict: 'no-effect', reason: 'a sandbox has no GPU' }
      : { path, value, verdict: 'refused', reason: 'a sandbox has no GPU' }
  })
}

/** What labels and Features can say too. */
function judgedEntry(entry: JsonObject, isCompose: boolean): Judged[] {
  const { privileged, init, capAdd, securityOpt, mounts, updateRemoteUserUID, shutdownAction } = entry
  const { overrideCommand, customizations } = entry
  return [
    ...(privileged === true ? [{ path: ['privileged'], value: true, ...PRIVILEGED }] : []),
    ...(init === true
      ? [
          {
            path: ['init'],
            value: init,
            verdict: 'honoured' as const,
            reason: 'every sandbox has an init process',
          },
        ]
      : []),
    ...(Array.isArray(capAdd) ? capAdd : []).map((value, index) => ({
      path: ['capAdd', index],
      value,
      ...judgedCapability(String(value)),
    })),
    ...(Array.isArray(securityOpt) ? securityOpt : []).map((value, index) => ({
      path: ['securityOpt', index],
      value,
      ...judgedSecurity(String(value)),
    })),
    ...(Array.isArray(mounts) ? mounts : []).map((value, index) => ({
      path: ['mounts', index],
      value,
      ...judgedMount(parseMount(value as MountValue)),
    })),
    ...said(updateRemoteUserUID, 'updateRemoteUserUID', 'no directory of this machine is mounted'),
    ...said(shutdownAction, 'shutdownAction', 'sandboxes stop by the rules of their lifetime'),
    ...(overrideCommand === false
      ? [
          {
            path: ['overrideCommand'],
            value: false,
            ...(isCompose ? STARTED : NOT_STARTED),
          },
        ]
      : []),
    ...(isObject(customizations) ? Object.keys(customizations) : [])
      .filter((tool) => tool !== 'agentpod')
      .map((tool) => ({
        path: ['customizations', tool],
        value: tool,
        verdict: 'no-effect' as const,
        reason: 'these settings are for another tool',
      })),
  ]
}

function said(value: unknown, key: string, reason: string): Judged[] {
  return value === undefined ? [] : [{ path: [key], value, verdict: 'no-effect', reason }]
}

type Judgement = Pick<Judged, 'verdict' | 'reason'>

const STARTED: Judgement = { verdict: 'honoured', reason: 'the command of the service is started' }
const NOT_STARTED: Judgement = {
  verdict: 'refused',
  reason: 'the command of the image is not started; start it in postStartCommand',
}

const PRIVILEGED: Judgement = {
  verdict: 'refused',
  reason: 'it would give the sandbox the devices and the kernel of this machine',
}

function judgedCapability(name: string): Judgement {
  return CAPABILITIES.has(name.toUpperCase().replace(/^CAP_/, ''))
    ? { verdict: 'honoured', reason: 'root has it in every sandbox' }
    : { verdict: 'refused', reason: 'it reaches the kernel of this machine' }
}

function judgedSecurity(option: string): Judgement {
  if (/^no-new-privileges(?:[=:]true)?$/.test(option))
    return { verdict: 'honoured', reason: 'programs inside gain no privileges without sudo' }
  if (/^label[=:]/.test(option)) return { verdict: 'no-effect', reason: 'sandboxes have no SELinux labels' }
  return { verdict: 'refused', reason: 'the filters of a sandbox are not loosened' }
}

const ENGINE_SOCKET = /(?:docker|podman|containerd)\.sock$/

/** SECURITY: CF-02. No directory of the host is mounted for a project's file. */
function judgedMount({ kind, source = '', target, others }: DevcontainerMount): Judgement {
  if (!target.startsWith('/') || target === '/')
    return { verdict: 'refused', reason: 'its target is not a path inside the sandbox' }
  if (kind === 'volume')
    return { verdict: 'honoured', reason: 'a volume of this project, kept between its sandboxes' }
  if (kind === 'tmpfs') {
    if (!isTemporaryTarget(target)) return { verdict: 'refused', reason: 'a sandbox needs its own there' }
    const unused = others.length === 0 ? '' : `; ${others.join(',')} is not used`
    return { verdict: 'honoured', reason: `a directory in memory, which is never kept${unused}` }
  }
  if (kind !== 'bind') return { verdict: 'refused', reason: 'a sandbox has no such mount' }
  if (ENGINE_SOCKET.test(source))
    return { verdict: 'refused', reason: 'it would give control over the containers of this machine' }
  return { verdict: 'refused', reason: 'a sandbox sees no directory of this machine; use a volume' }
}

/** Options that have a property of their own are judged by the same rules. */
function judgedArguments(runArgs: readonly string[]): Judged[] {
  const wishes = runWishes(runArgs)
  const at = (value: string): Path => {
    const index = runArgs.findIndex((one) => one === value || one.endsWith(`=${value}`))
    return index < 0 ? ['runArgs'] : ['runArgs', index]
  }
  return [
    ...(wishes.isPrivileged ? [{ path: at('--privileged'), value: '--privileged', ...PRIVILEGED }] : []),
    ...wishes.capabilities.map((value) => ({ path: at(value), value, ...judgedCapability(value) })),
    ...wishes.securityOptions.map((value) => ({ path: at(value), value, ...judgedSecurity(value) })),
    ...wishes.mounts.map((value) => ({ path: at(value), value, ...judgedMount(parseMount(value)) })),
    ...wishes.arguments.map(({ written, index, verdict, reason }) => ({
      path: ['runArgs', index],
      value: written,
      verdict,
      reason,
    })),
  ]
}

/** SECURITY: CF-02. A file could ask for the user's own variables, and send them anywhere. */
function judgedVariables(raw: JsonObject): Judged[] {
  return localVariables(raw).map(({ path, name }) => ({
    path,
    value: name,
    ...(OPEN_VARIABLES.has(name)
      ? { verdict: 'honoured', reason: 'its value is not a secret, so it needs no approval' }
      : { verdict: 'approval', reason: 'it reads a variable of this machine' }),
  }))
}

/** Variables of this machine that say nothing secret: who the user is, and how text is shown. */
export const OPEN_VARIABLES: ReadonlySet<string> = new Set([
  'HOME',
  'USER',
  'LOGNAME',
  'SHELL',
  'LANG',
  'LC_ALL',
  'TZ',
  'TERM',
])

/** The variables of this machine that a file reads, each once. */
export function localVariableNames(raw: JsonObject): readonly string[] {
  return [...new Set(localVariables(raw).map(({ name }) => name))]
}
