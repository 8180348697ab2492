/** Parses sizes, durations, variables and labels. */
import { readFileSync } from 'node:fs'
import { invalid } from '../../core/error.ts'
import { parseMountPath } from '../../core/volume/mount-path.ts'
import type { VolumeRequest } from '../../core/volume/volume.ts'
import { readByteSize, readMib, readMs } from '../../util/quantity.ts'
import { fileError } from '../output/file-error.ts'

/**
 * `512m`, `2g`. A number without a unit is refused: 2 may mean gigabytes to one person and megabytes to
 * another.
 */
export function parseMib(text: string, option: string): number {
  const mib = readMib(text)
  if (mib !== undefined && isBare(text))
    throw invalid(`option.${option}`, `--${option} ${text} has no unit`, `use ${text}m or ${text}g`)
  if (mib === undefined)
    throw invalid(`option.${option}`, `--${option} is a size like 512m or 2g, not ${JSON.stringify(text)}`)
  return mib
}

/** Bytes a second: `500k`, `10m`. */
export function parseRate(text: string, option: string): number {
  const bytes = readByteSize(text)
  if (bytes !== undefined) return bytes
  throw invalid(
    `option.${option}`,
    `--${option} is a size for each second, like 500k or 10m, not ${JSON.stringify(text)}`,
  )
}

function isBare(text: string): boolean {
  return /^[\d.]+$/.test(text) && Number(text) !== 0
}

/** `90s`, `15m`, `1h`. A number without a unit is refused. */
export function parseDuration(text: string, option: string): number {
  const ms = readMs(text)
  if (ms !== undefined && isBare(text))
    throw invalid(`option.${option}`, `--${option} ${text} has no unit`, `use ${text}s or ${text}m`)
  if (ms === undefined)
    throw invalid(
      `option.${option}`,
      `--${option} is a time like 90s, 15m or 1h, not ${JSON.stringify(text)}`,
    )
  return ms
}

export function parseNumber(text: string, option: string): number {
  const number = Number(text)
  if (text.trim() === '' || !Number.isFinite(number))
    throw invalid(`option.${option}`, `--${option} is a number, not ${JSON.stringify(text)}`)
  return number
}

/** `cache:/root/.cache` or `data:/data:ro`. */
export function parseVolume(text: string): VolumeRequest {
  const [volume = '', path = '', mode, ...rest] = text.split(':')
  const isWhole = volume !== '' && path !== '' && rest.length === 0
  if (!isWhole || (mode !== undefined && mode !== 'ro' && mode !== 'rw')) {
    throw invalid(
      'option.volume',
      `--volume is NAME:/PATH or NAME:/PATH:ro, not ${JSON.stringify(text)}`,
      'agentpod run --volume cache:/home/user/.cache/pip -- COMMAND',
    )
  }
  if (volume.startsWith('/') || volume.startsWith('.') || volume.startsWith('~')) {
    throw invalid(
      'option.volume',
      `--volume mounts a named volume, and ${JSON.stringify(volume)} is a directory of this machine`,
      '`agentpod volume create NAME` makes a volume; `agentpod cp` copies files into a sandbox',
    )
  }
  return { volume, path: parseMountPath(path), ...(mode === 'ro' && { readOnly: true }) }
}

/** `key=value` pairs. */
export function parsePairs(pairs: readonly string[], option: string): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const cut = pair.indexOf('=')
      if (cut < 1) throw invalid(`option.${option}`, `--${option} is key=value, not ${JSON.stringify(pair)}`)
      return [pair.slice(0, cut), pair.slice(cut + 1)]
    }),
  )
}

/** Variables from files first, then from `-e`. `-e NAME` alone passes the caller's own value. */
export function parseVariables(
  files: readonly string[],
  pairs: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const variables: Record<string, string> = {}
  for (const file of files) Object.assign(variables, readEnvFile(file))
  for (const pair of pairs) {
    const cut = pair.indexOf('=')
    const name = cut < 0 ? pair : pair.slice(0, cut)
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
      throw invalid('option.env', `${JSON.stringify(name)} is not the name of a variable`)
    const value = cut < 0 ? env[name] : pair.slice(cut + 1)
    if (value === undefined)
      throw invalid(
        'option.env',
        `-e ${name}: you have no variable of this name`,
        `-e ${name}=value sets one`,
      )
    variables[name] = value
  }
  return variables
}

function readEnvFile(file: string): Record<string, string> {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    throw fileError(error, { reason: 'option.env-file', what: 'cannot read', path: file })
  }
  const variables: Record<string, string> = {}
  text.split('\n').forEach((line, index) => {
    const trimmed = line.trim()
    if (trimmed === '' || trimmed.startsWith('#')) return
    const match = /^(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$/.exec(trimmed)
    if (!match) throw invalid('option.env-file', `${file}:${index + 1}: not NAME=value`)
    variables[match[1] ?? ''] = (match[2] ?? '').replace(/^(["'])(.*)\1$/, '$2')
  })
  return variables
}
