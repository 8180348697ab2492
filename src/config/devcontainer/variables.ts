/**
 * Variables in devcontainer.json, such as `${localEnv:HOME}`. They are replaced in three passes, because some
 * values are known late: local ones when the file is read, the id when the container's labels are known, and
 * the container's environment when it runs. Until then a variable stays as it is written.
 *
 * The rules are those of the official command: keys are not replaced, a variable without a value is empty,
 * and a default ends at its first colon.
 */
import { createHash } from 'node:crypto'
import { posix } from 'node:path'
import { invalid } from '../../core/error.ts'
import { isObject } from '../../util/untrusted-json.ts'
import { quoted } from '../toml/problem.ts'

export interface LocalValues {
  /** The name of the file in messages. */
  readonly file: string
  /** The variables of the machine that `${localEnv:...}` may see. */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly localWorkspaceFolder: string
  /** It may have variables itself. */
  readonly containerWorkspaceFolder: string
}

type Replace = (variable: string, args: readonly string[], match: string) => string

/** The first pass. */
export function replaceLocalVariables<T>(value: T, values: LocalValues): T {
  const { file, env, localWorkspaceFolder } = values
  const replace =
    (folder: string): Replace =>
    (variable, args, match) => {
      switch (variable) {
        case 'env':
        case 'localEnv':
          return lookup(env, args, match, file)
        case 'localWorkspaceFolder':
          return localWorkspaceFolder
        case 'localWorkspaceFolderBasename':
          return posix.basename(localWorkspaceFolder)
        case 'containerWorkspaceFolder':
          return folder
        case 'containerWorkspaceFolderBasename':
          return posix.basename(folder)
        default:
          return match
      }
    }
  const folder = values.containerWorkspaceFolder
  return replaced(value, replace(String(replaced(folder, replace(folder))))) as T
}

/** The second pass. */
export function replaceDevcontainerId<T>(value: T, labels: Readonly<Record<string, string>>): T {
  const id = devcontainerId(labels)
  return replaced(value, (variable, _, match) => (variable === 'devcontainerId' ? id : match)) as T
}

/** The third pass. */
export function replaceContainerVariables<T>(
  value: T,
  env: Readonly<Record<string, string | undefined>>,
  file: string,
): T {
  return replaced(value, (variable, args, match) =>
    variable === 'containerEnv' ? lookup(env, args, match, file) : match,
  ) as T
}

/** The labels that tell the container of a file from every other one. */
export function devcontainerLabels(localWorkspaceFolder: string, file: string): Record<string, string> {
  return { 'devcontainer.local_folder': localWorkspaceFolder, 'devcontainer.config_file': file }
}

/** It stays the same while the container is built again, and differs between containers. */
export function devcontainerId(labels: Readonly<Record<string, string>>): string {
  const sorted = Object.fromEntries(Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1)))
  const hash = createHash('sha256').update(JSON.stringify(sorted)).digest('hex')
  return BigInt(`0x${hash}`).toString(32).padStart(52, '0')
}

function replaced(value: unknown, replace: Replace): unknown {
  if (typeof value === 'string') return replacedText(value, replace)
  if (Array.isArray(value)) return value.map((one) => replaced(one, replace))
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, replaced(one, replace)]))
}

/**
 * A variable is on one line. SECURITY: CF-02. Each character is looked at a few times at most, however many
 * variables have no end.
 */
function replacedText(text: string, replace: Replace): string {
  let made = ''
  let from = 0
  let close = -1
  let lineEnd = -1
  for (let open = text.indexOf('${'); open >= 0; ) {
    if (close < open + 2) close = text.indexOf('}', open + 2)
    if (close < 0) break
    if (lineEnd < open) lineEnd = lineEndFrom(text, open)
    let next = open + 1
    if (close < lineEnd) {
      const [variable = '', ...args] = text.slice(open + 2, close).split(':')
      made += text.slice(from, open) + replace(variable, args, text.slice(open, close + 1))
      from = close + 1
      next = from
    }
    open = text.indexOf('${', next)
  }
  return made + text.slice(from)
}

/** The length of the text if no line ends. */
function lineEndFrom(text: string, at: number): number {
  const ends = /[\n\r\u2028\u2029]/g
  ends.lastIndex = at
  return ends.exec(text)?.index ?? text.length
}

function lookup(
  env: Readonly<Record<string, string | undefined>>,
  [name, otherwise = '']: readonly string[],
  match: string,
  file: string,
): string {
  if (name === undefined)
    throw invalid(
      'devcontainer.variable',
      `${file}: ${quoted(match)} names no variable`,
      'write the name of the variable after a colon',
    )
  return (Object.hasOwn(env, name) ? env[name] : undefined) ?? otherwise
}
