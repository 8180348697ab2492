/** Options that several commands share, and what they mean. */
import { image as imageKind, imageOf } from '../../bases/image.ts'
import type { CreateOptions } from '../../client/sandbox.ts'
import { ISOLATIONS } from '../../core/capability.ts'
import { invalid } from '../../core/error.ts'
import { NETWORK_MODES } from '../../core/network.ts'
import { WHEN_OVER } from '../../core/spec.ts'
import { nearest } from '../../util/nearest.ts'
import type { ComposeOptions } from '../../workbench/compose/project-compose.ts'
import type { SandboxRequest } from '../../workbench/environment/sandbox-request.ts'
import type { NetworkOptions } from '../../workbench/network/network-options.ts'
import type { OptionSpec, Parsed } from './parse.ts'
import {
  parseDuration,
  parseMib,
  parseNumber,
  parsePairs,
  parseRate,
  parseVariables,
  parseVolume,
} from './values.ts'

export const JSON_OPTION = { json: { help: 'print JSON for programs' } } as const satisfies Record<
  string,
  OptionSpec
>

export const VARIABLE_OPTIONS = {
  env: {
    short: 'e',
    value: 'NAME[=VALUE]',
    help: 'set a variable; NAME alone passes your own value',
    repeat: true,
  },
  'env-file': { value: 'FILE', help: 'set variables from lines of NAME=value', repeat: true },
} as const satisfies Record<string, OptionSpec>

export const PROCESS_OPTIONS = {
  ...VARIABLE_OPTIONS,
  user: { value: 'USER', help: 'run as this user (default: user)' },
  workdir: { short: 'w', value: 'DIR', help: 'run in this directory' },
} as const satisfies Record<string, OptionSpec>

export const SANDBOX_OPTIONS = {
  name: { value: 'NAME', help: 'a name for the sandbox' },
  provider: { value: 'NAME', help: 'the provider, like crun or docker (see `agentpod provider ls`)' },
  isolation: { value: 'LEVEL', help: 'the weakest isolation to accept: container, gvisor or vm' },
  docker: { help: 'run a Docker engine inside; needs --isolation gvisor or vm' },
  base: { value: 'BASE', help: 'the base: host (this machine’s tools), debian or image' },
  image: { value: 'REF', help: 'a container image to start from, like debian:12 (implies --base image)' },
  memory: { value: 'SIZE', help: 'memory limit, like 512m or 2g (default 4g)' },
  cpus: { value: 'N', help: 'processor limit, like 0.5 or 2 (default 2)' },
  pids: { value: 'N', help: 'limit on processes and threads (default 1024)' },
  disk: { value: 'SIZE', help: 'disk limit, like 500m or 10g (default 20g)' },
  bandwidth: {
    value: 'SIZE',
    help: 'bytes a second in each direction, like 500k or 10m (default: no limit)',
  },
  timeout: {
    value: 'TIME',
    help: 'time to live, like 15m or 2h (default 24h; 1h for a run that is not kept)',
  },
  idle: {
    value: 'TIME',
    help: 'unused for this long it is paused, or as --when-over says (default 30m; 0s: never)',
  },
  'when-over': {
    value: 'WHAT',
    help: 'what happens when its time is up: destroy, pause (keeps memory) or stop (keeps files) (default stop)',
  },
  'to-disk-after': {
    value: 'TIME',
    help: 'paused for this long, its memory is written to disk, where the provider can (default: never)',
  },
  'no-auto-resume': { help: 'commands and traffic do not wake it when it is paused or stopped' },
  from: { value: 'SNAPSHOT', help: 'start with the files of this snapshot' },
  volume: {
    value: 'NAME:/PATH[:ro]',
    help: 'mount a volume at this path, `:ro` for reading only (see `agentpod volume ls`)',
    repeat: true,
  },
  label: { value: 'KEY=VALUE', help: 'a label to find it by', repeat: true },
  sudo: { help: 'allow sudo inside' },
} as const satisfies Record<string, OptionSpec>

export const NETWORK_OPTIONS = {
  net: { value: 'MODE', help: 'off, allowlist or open (default allowlist)' },
  allow: {
    value: 'RULE',
    help: 'a host it may reach, like example.com, *.example.com:8443 or example.com/api/**',
    repeat: true,
  },
  'allow-private': {
    value: 'RULE',
    help: 'a host that it may reach even on a private address, such as one in your network',
    repeat: true,
  },
  deny: {
    value: 'RULE',
    help: 'a host it may not reach; wins over an equal or wider --allow',
    repeat: true,
  },
  preset: {
    value: 'NAME',
    help: 'the hosts that a tool needs, like npm, pip or github (see `agentpod preset ls`)',
    repeat: true,
  },
  secret: { value: 'NAME', help: 'give it a placeholder for this secret', repeat: true },
  'intercept-all': { help: 'intercept all TLS, not only where rules or secrets need it' },
} as const satisfies Record<string, OptionSpec>

const { provider: _provider, base: _base, image: _image, from: _from, ...KEPT } = SANDBOX_OPTIONS

/**
 * Options of a sandbox made from another one's files; an option that is left out keeps the original's value.
 */
export const COPY_OPTIONS: Readonly<Record<keyof typeof KEPT, OptionSpec>> = Object.fromEntries(
  Object.entries(KEPT).map(([name, spec]) => [
    name,
    { ...spec, help: spec.help.replace(/\(default [^)]*\)/, '(default: as it was)') },
  ]),
) as Record<keyof typeof KEPT, OptionSpec>

export const WAKE_OPTIONS = {
  timeout: { value: 'TIME', help: 'time to live from now (default: the same as at its creation)' },
} as const satisfies Record<string, OptionSpec>

export function wakeOptions(parsed: Parsed): { ttlMs?: number | undefined } {
  return { ttlMs: map(parsed.value('timeout'), (text) => parseDuration(text, 'timeout')) }
}

export const COMPOSE_OPTIONS = {
  'no-compose': { help: 'do not run the services of the project’s compose file' },
  service: { value: 'NAME', help: 'the service of the compose file that is the project itself' },
  'compose-profile': { value: 'NAME', help: 'a profile of the compose file', repeat: true },
} as const satisfies Record<string, OptionSpec>

export const DEVCONTAINER_OPTIONS = {
  devcontainer: { value: 'NAME', help: 'one of several devcontainers: the name of its folder, or a path' },
  'no-devcontainer': { help: 'ignore devcontainer.json' },
  'no-lifecycle': { help: 'run no lifecycle commands of devcontainer.json' },
} as const satisfies Record<string, OptionSpec>

export function devcontainerOptions(
  parsed: Parsed,
): Pick<SandboxRequest, 'devcontainer' | 'isWithoutDevcontainer' | 'isWithoutLifecycle'> {
  if (parsed.has('no-devcontainer') && parsed.value('devcontainer') !== undefined)
    throw invalid(
      'option.devcontainer',
      '--devcontainer and --no-devcontainer cannot be combined',
      'leave one of them out',
    )
  return {
    devcontainer: parsed.value('devcontainer'),
    isWithoutDevcontainer: parsed.has('no-devcontainer'),
    isWithoutLifecycle: parsed.has('no-lifecycle'),
  }
}

export const ENVIRONMENT_OPTIONS = {
  bare: { help: 'the base alone: detect nothing, build nothing, start no services' },
  profile: { value: 'NAME', help: 'one of [profiles] in agentpod.toml' },
  ...COMPOSE_OPTIONS,
  ...DEVCONTAINER_OPTIONS,
} as const satisfies Record<string, OptionSpec>

/** What the options of a command ask a sandbox to be. */
export function sandboxRequest(parsed: Parsed, variables: Record<string, string> = {}): SandboxRequest {
  return {
    options: {
      name: parsed.value('name'),
      labels: parsePairs(parsed.values('label'), 'label'),
      environment: {
        variables,
        user: parsed.value('user'),
        workdir: parsed.value('workdir'),
        sudo: parsed.has('sudo') ? true : undefined,
      },
      resources: resourceOptions(parsed),
      lifetime: lifetimeOptions(parsed),
      snapshot: parsed.value('from'),
      ...volumeOptions(parsed),
    },
    base: parsed.value('base'),
    image: imageOption(parsed),
    placement: {
      provider: parsed.value('provider'),
      isolation: chosen(parsed, 'isolation', ISOLATIONS),
      docker: parsed.has('docker') ? true : undefined,
    },
    network: networkOptions(parsed),
    isBare: parsed.has('bare'),
    isKept: parsed.has('keep'),
    profile: parsed.value('profile'),
    compose: composeOptions(parsed),
    ...devcontainerOptions(parsed),
  }
}

export function composeOptions(parsed: Parsed): ComposeOptions {
  return {
    isOff: parsed.has('no-compose'),
    service: parsed.value('service'),
    profiles: parsed.values('compose-profile'),
  }
}

/** Undefined when no option is about the network. */
function networkOptions(parsed: Parsed): NetworkOptions | undefined {
  if (!Object.keys(NETWORK_OPTIONS).some((option) => parsed.has(option))) return undefined
  return {
    mode: chosen(parsed, 'net', NETWORK_MODES),
    allow: parsed.values('allow'),
    allowPrivate: parsed.values('allow-private'),
    deny: parsed.values('deny'),
    presets: parsed.values('preset'),
    secrets: parsed.values('secret'),
    interceptAll: parsed.has('intercept-all'),
  }
}

/** `--image` implies its own base, so another `--base` is refused. */
export function imageOption(parsed: Parsed): string | undefined {
  const image = parsed.value('image')
  if (image === undefined) return undefined
  imageOf({ image })
  const base = parsed.value('base')
  if (base === undefined || base === imageKind.name) return image
  throw invalid('option.image', `--image and --base ${base} cannot be combined`, 'leave one of them out')
}

/** `memory` is the name of the option for the memory limit. */
export function resourceOptions(parsed: Parsed, memory = 'memory'): NonNullable<CreateOptions['resources']> {
  const number = (option: string): number | undefined =>
    map(parsed.value(option), (text) => parseNumber(text, option))
  const mib = (option: string): number | undefined =>
    map(parsed.value(option), (text) => parseMib(text, option))
  return {
    memoryMib: mib(memory),
    cpus: number('cpus'),
    pids: number('pids'),
    diskMib: mib('disk'),
    bandwidthBytes: map(parsed.value('bandwidth'), (text) => parseRate(text, 'bandwidth')),
  }
}

/** Volumes to mount; nothing when no option names one. */
export function volumeOptions(parsed: Parsed): Pick<CreateOptions, 'volumes'> {
  return parsed.has('volume') ? { volumes: parsed.values('volume').map(parseVolume) } : {}
}

export function lifetimeOptions(parsed: Parsed): NonNullable<CreateOptions['lifetime']> {
  const time = (option: string): number | undefined =>
    map(parsed.value(option), (text) => parseDuration(text, option))
  return {
    ttlMs: time('timeout'),
    idleMs: time('idle'),
    whenOver: chosen(parsed, 'when-over', WHEN_OVER),
    toDiskAfterMs: time('to-disk-after'),
    autoResume: parsed.has('no-auto-resume') ? false : undefined,
  }
}

/** One of a few words. The error for any other word suggests the nearest one. */
export function chosen<T extends string>(parsed: Parsed, option: string, words: readonly T[]): T | undefined {
  const given = parsed.value(option)
  const known = words.find((word) => word === given)
  if (given === undefined || known !== undefined) return known
  const near = nearest(given, words)
  throw invalid(
    `option.${option}`,
    `--${option} is ${words.slice(0, -1).join(', ')} or ${words.at(-1)}, not ${JSON.stringify(given)}`,
    near && `did you mean ${near}?`,
  )
}

export function variableOptions(
  parsed: Parsed,
  env: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  return parseVariables(parsed.values('env-file'), parsed.values('env'), env)
}

function map<T>(text: string | undefined, parse: (text: string) => T): T | undefined {
  return text === undefined ? undefined : parse(text)
}
