/** Options that several commands share, and what they mean. */
import { kindOf } from '../../bases/bases.ts'
import { image as imageKind, imageOf } from '../../bases/image.ts'
import type { CreateOptions } from '../../client/sandbox.ts'
import { BASES, type Base, DEFAULT_ENVIRONMENT, type Environment } from '../../core/environment.ts'
import { invalid } from '../../core/error.ts'
import { WHEN_OVER } from '../../core/spec.ts'
import { nearest } from '../../util/nearest.ts'
import type { OptionSpec, Parsed } from './parse.ts'
import { parseDuration, parseMib, parseNumber, parsePairs, parseVariables } from './values.ts'

export const JSON_OPTION = { json: { help: 'print JSON for programs' } } as const satisfies Record<
  string,
  OptionSpec
>

export const VARIABLE_OPTIONS = {
  env: { short: 'e', value: 'NAME[=VALUE]', help: 'set a variable; NAME alone passes yours', repeat: true },
  'env-file': { value: 'FILE', help: 'set variables from lines of NAME=value', repeat: true },
} as const satisfies Record<string, OptionSpec>

export const PROCESS_OPTIONS = {
  ...VARIABLE_OPTIONS,
  user: { value: 'USER', help: 'run as this user (default: user)' },
  workdir: { short: 'w', value: 'DIR', help: 'run in this directory' },
} as const satisfies Record<string, OptionSpec>

export const SANDBOX_OPTIONS = {
  name: { value: 'NAME', help: 'a name to call it by' },
  provider: { value: 'NAME', help: 'who makes it, like crun or docker (see `agentpod provider ls`)' },
  isolation: { value: 'LEVEL', help: 'the least isolation you accept: container, gvisor or vm' },
  base: { value: 'BASE', help: 'what is inside: host (this machine’s tools), debian or image' },
  image: { value: 'REF', help: 'a container image to begin with, like debian:12 (the same as --base image)' },
  memory: { value: 'SIZE', help: 'memory limit, like 512m or 2g (default 4g)' },
  cpus: { value: 'N', help: 'processor limit, like 0.5 or 2 (default 2)' },
  pids: { value: 'N', help: 'most processes and threads (default 1024)' },
  disk: { value: 'SIZE', help: 'what it may write, like 500m or 10g (default 20g)' },
  timeout: { value: 'TIME', help: 'time to live, like 15m or 2h (default 1h)' },
  idle: { value: 'TIME', help: 'its time is up too when it is unused for this long' },
  'when-over': {
    value: 'WHAT',
    help: 'when its time is up: destroy, pause (memory is kept) or stop (files are kept) (default destroy)',
  },
  'no-auto-resume': { help: 'let no command and no traffic wake it when it is paused or stopped' },
  from: { value: 'SNAPSHOT', help: 'begin with the files of this snapshot' },
  label: { value: 'KEY=VALUE', help: 'a label to find it by', repeat: true },
  sudo: { help: 'let programs inside become root inside' },
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
    help: 'a host of your own network that it may reach, on a private address too',
    repeat: true,
  },
  deny: {
    value: 'RULE',
    help: 'a host it may not reach; goes before what is allowed about the same host or a wider one',
    repeat: true,
  },
  preset: {
    value: 'NAME',
    help: 'what a tool needs, like npm, pip or github (see `agentpod preset ls`)',
    repeat: true,
  },
  secret: { value: 'NAME', help: 'give it a placeholder for this secret', repeat: true },
  'intercept-all': { help: 'open all TLS on the way out, not only where rules or secrets need it' },
} as const satisfies Record<string, OptionSpec>

const { provider: _provider, base: _base, image: _image, from: _from, ...KEPT } = SANDBOX_OPTIONS

/** Of a sandbox that is made from another one's files: what is left out is as it was there. */
export const COPY_OPTIONS: Readonly<Record<keyof typeof KEPT, OptionSpec>> = Object.fromEntries(
  Object.entries(KEPT).map(([name, spec]) => [
    name,
    { ...spec, help: spec.help.replace(/\(default [^)]*\)/, '(default: as it was)') },
  ]),
) as Record<keyof typeof KEPT, OptionSpec>

export const WAKE_OPTIONS = {
  timeout: { value: 'TIME', help: 'time to live from now (default: as it was created with)' },
} as const satisfies Record<string, OptionSpec>

export function wakeOptions(parsed: Parsed): { ttlMs?: number | undefined } {
  return { ttlMs: map(parsed.value('timeout'), (text) => parseDuration(text, 'timeout')) }
}

export function createOptions(
  parsed: Parsed,
  variables: Record<string, string>,
  /** Whether what `--base` and `--image` name was made sense of already; who commands run as when nobody says. */
  o: {
    readonly isAnyBase?: boolean
    readonly user?: string | undefined
    readonly placement?: Pick<CreateOptions, 'provider' | 'isolation'>
  } = {},
): CreateOptions {
  return {
    ...o.placement,
    name: parsed.value('name'),
    labels: parsePairs(parsed.values('label'), 'label'),
    environment: {
      ...(o.isAnyBase ? {} : baseOptions(parsed)),
      variables,
      user: parsed.value('user') ?? o.user,
      workdir: parsed.value('workdir'),
      sudo: parsed.has('sudo') ? true : undefined,
    },
    resources: resourceOptions(parsed),
    lifetime: lifetimeOptions(parsed),
    snapshot: parsed.value('from'),
  }
}

function baseOptions(parsed: Parsed): Pick<Environment, 'image'> & { readonly base?: Base | undefined } {
  const image = imageOption(parsed)
  const base = chosen(parsed, 'base', BASES)
  if (image !== undefined) return { base: imageKind.name, image }
  if (base !== undefined && kindOf(base).takesImage) imageOf({ image })
  return { base }
}

/** `--image`, which is a base of its own: another one beside it is refused. */
export function imageOption(parsed: Parsed): string | undefined {
  const image = parsed.value('image')
  if (image === undefined) return undefined
  imageOf({ image })
  const base = parsed.value('base')
  if (base === undefined || base === imageKind.name) return image
  throw invalid(
    'option.image',
    `--image is a base of its own, and --base ${base} is another one`,
    'leave one of them out',
  )
}

/** Who commands of a project run as when nothing but the options says so. */
export function usualUser(parsed: Parsed): string {
  const kind = parsed.value('image') === undefined ? kindOf(DEFAULT_ENVIRONMENT.base) : imageKind
  return parsed.value('user') ?? kind.user
}

export function resourceOptions(parsed: Parsed): NonNullable<CreateOptions['resources']> {
  const number = (option: string): number | undefined =>
    map(parsed.value(option), (text) => parseNumber(text, option))
  const mib = (option: string): number | undefined =>
    map(parsed.value(option), (text) => parseMib(text, option))
  return { memoryMib: mib('memory'), cpus: number('cpus'), pids: number('pids'), diskMib: mib('disk') }
}

export function lifetimeOptions(parsed: Parsed): NonNullable<CreateOptions['lifetime']> {
  const time = (option: string): number | undefined =>
    map(parsed.value(option), (text) => parseDuration(text, option))
  return {
    ttlMs: time('timeout'),
    idleMs: time('idle'),
    whenOver: chosen(parsed, 'when-over', WHEN_OVER),
    autoResume: parsed.has('no-auto-resume') ? false : undefined,
  }
}

/** One of a few words; a word that is nearly right is asked about. */
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

export function variablesOf(
  parsed: Parsed,
  env: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  return parseVariables(parsed.values('env-file'), parsed.values('env'), env)
}

function map<T>(text: string | undefined, parse: (text: string) => T): T | undefined {
  return text === undefined ? undefined : parse(text)
}
