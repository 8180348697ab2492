/** Reads a structured file of another platform with the line of each value, and notes what is not used. */
import { findNodeAtLocation, type Node, parseTree } from 'jsonc-parser'
import { isImageRef } from '../../../core/image-ref.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import { isObject, type JsonObject, valueAt } from '../../../util/untrusted-json.ts'
import type { Evidence } from '../../evidence.ts'
import type { FileTree } from '../../file-tree.ts'
import { dockerfileImages } from '../../project/dockerfile-images.ts'
import { positionsOf } from '../../toml/positions.ts'
import type { FoundCommand } from '../finding.ts'
import {
  lineAt,
  malformedNote,
  type ParsedFile,
  readJsoncFile,
  readTextFile,
  readTomlFile,
  shortQuote,
} from '../project-files/parsed-file.ts'
import { pathInProject } from '../project-files/paths.ts'
import { readYamlFile } from '../project-files/yaml-file.ts'
import type { FormatDraft } from './format-file.ts'

export type SourcePath = readonly (string | number)[]

/** A file that is parsed, with the line of each value. */
export interface SourceFile {
  readonly file: string
  readonly data: JsonObject
  lineAt(path: SourcePath): number | undefined
}

/** Larger files are not written by people. */
const LONGEST = 128 * 1024
const UNREADABLE = 'it is a link, is larger than 1 MiB, or is not text'

/** Undefined if the file does not exist; without data, and with a note, if it is malformed. */
export function readSourceFile(tree: FileTree, file: string, format: FormatDraft): SourceFile | undefined {
  const text = readTextFile(tree, file)
  if (text === undefined) {
    if (tree.has(file)) addProblem(format, file, UNREADABLE)
    return undefined
  }
  const empty = { file, data: {}, lineAt: () => undefined }
  if (text.length > LONGEST) {
    addProblem(format, file, `it is longer than ${LONGEST} characters`)
    return empty
  }
  const read = parserOf(file)(tree, file)
  if (!read) return empty
  if (read.problem !== undefined) {
    addProblem(format, file, read.problem)
    return empty
  }
  return { file, data: read.data, lineAt: lines(read, file) }
}

export function addProblem(format: FormatDraft, file: string, problem: string): void {
  format.notes.push(malformedNote(file, problem))
  format.problem ??= problem
}

function parserOf(file: string): (tree: FileTree, path: string) => ParsedFile | undefined {
  if (/\.ya?ml$/.test(file)) return readYamlFile
  return file.endsWith('.json') ? readJsoncFile : readTomlFile
}

function lines(read: ParsedFile, file: string): SourceFile['lineAt'] {
  const { text } = read
  if ('lineAt' in read) return read.lineAt as SourceFile['lineAt']
  const at = file.endsWith('.json') ? jsonOffsets(text) : tomlOffsets(text)
  return (path) => {
    const offset = at(path)
    return offset === undefined ? undefined : lineAt(text, offset)
  }
}

function jsonOffsets(text: string): (path: SourcePath) => number | undefined {
  let root: Node | undefined
  return (path) => {
    root ??= parseTree(text, [], { allowTrailingComma: true })
    const node = root && findNodeAtLocation(root, [...path])
    // The line of a property is the line of its name.
    return node?.parent?.type === 'property' ? node.parent.offset : node?.offset
  }
}

function tomlOffsets(text: string): (path: SourcePath) => number | undefined {
  let positions: ReturnType<typeof positionsOf> | undefined
  return (path) => {
    positions ??= positionsOf(text)
    return positions.key(path) ?? positions.value(path)
  }
}

export function evidenceOf({ file, lineAt: at }: SourceFile, path: SourcePath, said: string): Evidence {
  const line = at(path)
  return { file, ...(line !== undefined && { line }), said: shortQuote(said) }
}

/** `.gitpod.yml:3 image: node:22`: the last key and the value as evidence. */
export function sayingOf(source: SourceFile, path: SourcePath, value: unknown): Evidence {
  const key = path.findLast((one) => typeof one === 'string') ?? ''
  return evidenceOf(source, path, `${key}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
}

/** Notes that a part of the file is not used. */
export function unused(format: FormatDraft, source: SourceFile, path: SourcePath, why: string): void {
  const line = source.lineAt(path)
  const place = line === undefined ? source.file : `${source.file}:${line}`
  const key = path
    .map((one) => (typeof one === 'number' ? `[${one + 1}]` : one))
    .join('.')
    .replaceAll('.[', '[')
  format.notes.push(`${shortQuote(place)}: ${shortQuote(key, 60)} is not used: ${why}`)
}

/** The first items of a list; the others are noted. */
export function firstOf<T>(
  format: FormatDraft,
  source: SourceFile,
  path: SourcePath,
  list: readonly T[],
  most: number,
): readonly T[] {
  if (list.length > most) unused(format, source, [...path, most], `the list has more than ${most} items`)
  return list.slice(0, most)
}

/** The first keys of a table; the others are noted. */
export function firstKeys(
  format: FormatDraft,
  source: SourceFile,
  path: SourcePath,
  most: number,
): readonly string[] {
  const table = valueIn(source.data, path)
  const keys = isObject(table) ? Object.keys(table) : []
  const next = keys[most]
  if (next !== undefined) unused(format, source, [...path, next], `the table has more than ${most} keys`)
  return keys.slice(0, most)
}

const MOST_KEYS = 50

/** Reasons for known keys that are not used; every other key is noted as unknown. */
export function noteOthers(
  format: FormatDraft,
  source: SourceFile,
  at: SourcePath,
  { used, why = {} }: { readonly used: readonly string[]; readonly why?: Readonly<Record<string, string>> },
): void {
  const table = at.length === 0 ? source.data : valueIn(source.data, at)
  if (!isObject(table)) return
  for (const key of firstKeys(format, source, at, MOST_KEYS)) {
    if (used.includes(key) || key.startsWith('$')) continue
    unused(
      format,
      source,
      [...at, key],
      Object.hasOwn(why, key) ? (why[key] ?? '') : 'AgentPod does not know this key',
    )
  }
}

export function valueIn(data: unknown, path: SourcePath): unknown {
  let found = data
  for (const key of path) {
    if (typeof key === 'number') found = Array.isArray(found) ? found[key] : undefined
    else found = valueAt(found, key)
  }
  return found
}

const LONGEST_COMMAND = 8192

/** A command as text, or as a list of words that no shell expands. Undefined if it is neither. */
export function commandAt(
  format: FormatDraft,
  source: SourceFile,
  path: SourcePath,
  o: { readonly listIs?: 'words' | 'commands' } = {},
): FoundCommand | undefined {
  const value = valueIn(source.data, path)
  if (value === undefined || value === null || value === '') return undefined
  const list =
    Array.isArray(value) && value.every((one) => typeof one === 'string') ? (value as string[]) : undefined
  const run =
    typeof value === 'string'
      ? value.trim()
      : o.listIs === 'commands'
        ? list?.join('\n')
        : list && wordsOf(list)
  if (run === undefined) unused(format, source, path, 'it is not a command')
  else if (run.length > LONGEST_COMMAND)
    unused(format, source, path, `it is longer than ${LONGEST_COMMAND} characters`)
  else if (/[^\t\n\P{Cc}]/u.test(run) || !run.isWellFormed())
    unused(format, source, path, 'it has control characters')
  else if (run !== '') return { run, evidence: sayingOf(source, path, run) }
  return undefined
}

/** `["sh", "-c", "npm start"]` is the command in it; other lists are quoted word by word. */
function wordsOf(list: readonly string[]): string {
  const [shell = '', flag = '', script] = list
  if (list.length === 3 && /^(?:\/bin\/)?(?:ba)?sh$/.test(shell) && /^-l?c$/.test(flag)) return script ?? ''
  return list.map(shellWord).join(' ')
}

/** Adds `export` lines before a command. */
export function withVariables(
  command: FoundCommand,
  variables: readonly { readonly name: string; readonly value: string }[],
): FoundCommand {
  if (variables.length === 0) return command
  const exports = variables.map(({ name, value }) => `export ${name}=${shellWord(value)}`)
  return { ...command, run: [...exports, command.run].join('\n') }
}

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/
const MOST_VARIABLES = 200

/** Variables with text, numbers or booleans as values. A value that refers to another variable is noted. */
export function variablesAt(
  format: FormatDraft,
  source: SourceFile,
  path: SourcePath,
): { readonly name: string; readonly value: string; readonly evidence: Evidence }[] {
  const table = valueIn(source.data, path)
  if (!isObject(table)) return []
  return firstKeys(format, source, path, MOST_VARIABLES)
    .map((name) => [name, table[name]] as const)
    .flatMap(([name, written]) => {
      const value = ['string', 'number', 'boolean'].includes(typeof written) ? String(written) : undefined
      const at = [...path, name]
      const why =
        value === undefined
          ? 'its value is not text'
          : VARIABLE.test(name)
            ? /\$[{(A-Za-z_]|\{\{/.test(value)
              ? 'its value is computed from others'
              : undefined
            : 'it is not the name of a variable'
      if (why !== undefined || value === undefined) {
        unused(format, source, at, why ?? '')
        return []
      }
      return [{ name, value, evidence: evidenceOf(source, at, `${name} = ${value}`) }]
    })
}

/** In files for deployments these make package managers leave out what tests need. */
const PRODUCTION: ReadonlySet<string> = new Set(['NODE_ENV', 'RAILS_ENV', 'RACK_ENV', 'MIX_ENV', 'APP_ENV'])

/** Variables of a deployment, without those that would turn development off. */
export function deploymentVariables(format: FormatDraft, source: SourceFile, path: SourcePath): void {
  for (const one of variablesAt(format, source, path))
    if (PRODUCTION.has(one.name) && /^prod/i.test(one.value))
      unused(format, source, [...path, one.name], 'with it, the dependencies of tests would be missing')
    else format.variables.push(one)
}

export function validPort(value: unknown): number | undefined {
  const port = typeof value === 'string' && /^\d{1,5}$/.test(value) ? Number(value) : value
  return typeof port === 'number' && Number.isInteger(port) && port > 0 && port < 65_536 ? port : undefined
}

/** An image as the base. */
export function addImage(format: FormatDraft, source: SourceFile, path: SourcePath): void {
  const image = valueIn(source.data, path)
  if (image === undefined) return
  if (typeof image !== 'string' || !isImageRef(image)) {
    unused(format, source, path, 'it is not the name of an image')
    return
  }
  format.bases.push({ image, evidence: sayingOf(source, path, image), rank: format.rank })
}

export interface NamedDockerfile {
  /** As written, and the directory it is relative to. */
  readonly file: string
  readonly from?: string | undefined
  readonly context?: string | undefined
  readonly target?: string | undefined
  readonly args?: Readonly<Record<string, string>> | undefined
}

/** SECURITY: ENV-12. A Dockerfile as the base; both paths stay inside the project. */
export function addDockerfile(
  tree: FileTree,
  format: FormatDraft,
  source: SourceFile,
  path: SourcePath,
  { file: written, from = '', context: writtenContext = '', target, args = {} }: NamedDockerfile,
): void {
  const file = pathInProject(from, written)
  const context = pathInProject(from, writtenContext)
  if (file === undefined || file === '' || context === undefined || /\p{Cc}/u.test(file + context)) {
    unused(format, source, path, 'its path leads out of the project')
    return
  }
  const text = tree.read(file)
  if (text === undefined) {
    unused(format, source, path, `the project has no file ${shortQuote(file, 60)}`)
    return
  }
  const images = dockerfileImages(text, args)
  format.bases.push({
    dockerfile: { file, context, ...(target !== undefined && { target }), args, images },
    evidence: sayingOf(source, path, written),
    rank: format.rank,
  })
}
