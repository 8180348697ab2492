/** Options that several commands share, and what they mean. */
import type { CreateOptions } from '../../client/sandbox.ts'
import { BASES } from '../../core/environment.ts'
import { invalid } from '../../core/error.ts'
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
  base: { value: 'BASE', help: 'what is inside: host (this machine’s tools) or debian' },
  memory: { value: 'SIZE', help: 'memory limit, like 512m or 2g (default 4g)' },
  cpus: { value: 'N', help: 'processor limit, like 0.5 or 2 (default 2)' },
  pids: { value: 'N', help: 'most processes and threads (default 1024)' },
  timeout: { value: 'TIME', help: 'time to live, like 15m or 2h (default 1h)' },
  idle: { value: 'TIME', help: 'end it when unused for this long' },
  label: { value: 'KEY=VALUE', help: 'a label to find it by', repeat: true },
  sudo: { help: 'let programs inside become root inside' },
} as const satisfies Record<string, OptionSpec>

export function createOptions(parsed: Parsed, variables: Record<string, string>): CreateOptions {
  const base = parsed.value('base')
  const known = BASES.find((name) => name === base)
  if (base !== undefined && !known) {
    const near = nearest(base, BASES)
    throw invalid(
      'option.base',
      `--base is ${BASES.join(' or ')}, not ${JSON.stringify(base)}`,
      near && `did you mean ${near}?`,
    )
  }
  const number = (option: string): number | undefined =>
    map(parsed.value(option), (text) => parseNumber(text, option))
  const time = (option: string): number | undefined =>
    map(parsed.value(option), (text) => parseDuration(text, option))
  return {
    name: parsed.value('name'),
    labels: parsePairs(parsed.values('label'), 'label'),
    environment: {
      base: known,
      variables,
      user: parsed.value('user'),
      workdir: parsed.value('workdir'),
      sudo: parsed.has('sudo') ? true : undefined,
    },
    resources: {
      memoryMib: map(parsed.value('memory'), (text) => parseMib(text, 'memory')),
      cpus: number('cpus'),
      pids: number('pids'),
    },
    lifetime: { ttlMs: time('timeout'), idleMs: time('idle') },
  }
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
