/**
 * Reads YAML strictly, with positions. Every scalar stays text, so that `3.10` does not become `3.1`; an
 * empty value is null. Keys that begin with `x-` are left out, as the Compose Specification says.
 */
import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Node,
  parseDocument,
  visit,
  type YAMLMap,
} from 'yaml'
import { type Path, type Position, positionAt } from '../toml/positions.ts'
import { dotted, type Problem, printable, problemsError, type Remark } from '../toml/problem.ts'
import { placedProblems, type TomlSource } from '../toml/toml-file.ts'

export type YamlSource = TomlSource

export interface YamlDocument {
  readonly file: string
  readonly value: unknown
  at(path: Path): Position | undefined
  problems(remarks: readonly Remark[]): Problem[]
}

/** Throws an Error with a message if a value is not acceptable. `path` is where the value is. */
export type ReadScalar = (text: string, path: Path) => string

const LONGEST_TEXT = 256 * 1024
const DEEPEST = 32
/** SECURITY: CF-02. After aliases are followed: a file of a few hundred bytes can name a billion values. */
const MOST_VALUES = 20_000
const TAGS = /^tag:yaml\.org,2002:(?:str|int|float|bool|null|map|seq)$/
/** The check for duplicate keys of the library takes quadratic time, and its errors too. */
const OPTIONS = { schema: 'failsafe', uniqueKeys: false, prettyErrors: false, merge: false } as const

export function readYaml(source: YamlSource, readScalar: ReadScalar = (text) => text): YamlDocument {
  const text = source.text.startsWith('\ufeff') ? source.text.slice(1) : source.text
  const file = { file: source.file, text }
  if (text.length > LONGEST_TEXT) throw malformed(file, 0, `is longer than ${LONGEST_TEXT} characters`)
  checkDepth(file)
  const document = parseDocument(text, OPTIONS)
  const [error] = document.errors
  if (error) throw malformed(file, error.pos[0], printable(error.message.split('\n')[0] ?? '', 100))
  const reader = new Reader(file, targetsOf(file, document), readScalar)
  const value = reader.read(document.contents as Node | null, [], 0)
  if (reader.found.length > 0) throw problemsError(reader.found)
  const offset = (path: Path): number | undefined => reader.values.get(keyOf(path))
  return {
    file: file.file,
    value: value ?? {},
    at(path) {
      // The value of a key may begin on a later line.
      const found = reader.keys.get(keyOf(path)) ?? offset(path)
      return found === undefined ? undefined : positionAt(text, found)
    },
    problems: (remarks) =>
      placedProblems(
        file,
        {
          key: (path) => reader.keys.get(keyOf(path)) ?? offset(path),
          value: offset,
          raw: () => undefined,
        },
        remarks,
      ),
  }
}

/** SECURITY: CF-02. The library calls itself for each level of brackets, so these are counted first. */
function checkDepth(source: YamlSource): void {
  let depth = 0
  let [indents, at] = [[-1], 0]
  for (const line of source.text.split('\n')) {
    const indent = /^ *(?:- *)*/.exec(line)?.[0].length ?? 0
    indents = [...indents.filter((one) => one < indent), indent]
    for (const character of line) {
      if (character === '[' || character === '{') depth++
      if (character === ']' || character === '}') depth = Math.max(0, depth - 1)
    }
    if (depth > DEEPEST || indents.length > DEEPEST + 2)
      throw malformed(source, at, `is nested deeper than ${DEEPEST} levels`)
    at += line.length + 1
  }
}

/**
 * The node that each alias stands for: the last one before it with that anchor. SECURITY: CF-02. The library
 * looks through the whole document for each alias. Values below keys that are left out count too.
 */
function targetsOf(source: YamlSource, document: Document): ReadonlyMap<Alias, Node> {
  const anchors = new Map<string, Node>()
  const targets = new Map<Alias, Node>()
  let count = 0
  visit(document, {
    Node(key, node) {
      if (key !== 'key' && ++count > MOST_VALUES) throw tooMany(source, node.range?.[0] ?? 0)
      if (!isAlias(node)) return node.anchor ? void anchors.set(node.anchor, node) : undefined
      const target = anchors.get(node.source)
      if (target) targets.set(node, target)
      return undefined
    },
  })
  return targets
}

function tooMany(source: YamlSource, offset: number): Error {
  return malformed(source, offset, `has more than ${MOST_VALUES} values, with those behind aliases`)
}

function keyOf(path: Path): string {
  return path.map(String).join('\u0000')
}

class Reader {
  readonly values = new Map<string, number>()
  readonly keys = new Map<string, number>()
  readonly found: Problem[] = []
  readonly #source: YamlSource
  readonly #targets: ReadonlyMap<Alias, Node>
  readonly #readScalar: ReadScalar
  readonly #following = new Set<Node>()
  #count = 0

  constructor(source: YamlSource, targets: ReadonlyMap<Alias, Node>, readScalar: ReadScalar) {
    this.#source = source
    this.#targets = targets
    this.#readScalar = readScalar
  }

  read(node: Node | null, path: Path, depth: number): unknown {
    if (!node) return null
    const offset = node.range?.[0] ?? 0
    if (++this.#count > MOST_VALUES) throw tooMany(this.#source, offset)
    if (depth > DEEPEST) throw malformed(this.#source, offset, `is nested deeper than ${DEEPEST} levels`)
    if (!this.values.has(keyOf(path))) this.values.set(keyOf(path), offset)
    if (isAlias(node)) return this.#alias(node, path, depth)
    const { tag } = node
    if (tag !== undefined && tag !== '!' && !TAGS.test(tag))
      throw malformed(this.#source, offset, `the tag ${printable(tag, 20)} is not supported`)
    if (isScalar(node))
      return this.#scalar(node.source ?? String(node.value), node.type === 'PLAIN', path, offset)
    if (isSeq(node)) return node.items.map((item, n) => this.read(item as Node, [...path, n], depth + 1))
    return isMap(node) ? this.#map(node, path, depth) : null
  }

  #alias(node: Alias, path: Path, depth: number): unknown {
    const target = this.#targets.get(node)
    const offset = node.range?.[0] ?? 0
    if (!target) throw malformed(this.#source, offset, 'this alias has no anchor before it')
    if (this.#following.has(target)) throw malformed(this.#source, offset, 'this alias contains itself')
    this.#following.add(target)
    const value = this.read(target, path, depth + 1)
    this.#following.delete(target)
    return value
  }

  #scalar(text: string, isPlain: boolean, path: Path, offset: number): string | null {
    if (isPlain && /^(?:~|null|Null|NULL)?$/.test(text)) return null
    try {
      return this.#readScalar(text, path)
    } catch (error) {
      const message = error instanceof Error ? error.message : 'is malformed'
      this.found.push(problemAt(this.#source, offset, `${dotted(path)}: ${message}`, dotted(path)))
      return ''
    }
  }

  #map(node: YAMLMap, path: Path, depth: number): Record<string, unknown> {
    const made: Record<string, unknown> = {}
    const merged: Record<string, unknown> = {}
    for (const { key, value } of node.items) {
      const keyNode = key as Node
      const offset = keyNode.range?.[0] ?? 0
      if (!isScalar(keyNode)) throw malformed(this.#source, offset, 'a key must be text')
      const name = String(keyNode.value)
      const inner = [...path, name]
      if (name === '<<') {
        const parts = [this.read(value as Node, inner, depth + 1)].flat()
        for (const part of parts.toReversed()) Object.assign(merged, ownKeys(part))
        continue
      }
      if (name.startsWith('x-')) continue
      if (name === '__proto__') throw malformed(this.#source, offset, 'a key of this name is not allowed')
      if (Object.hasOwn(made, name)) {
        const message = `${dotted(inner)} is in this table twice`
        this.found.push(problemAt(this.#source, offset, message, dotted(inner)))
        continue
      }
      this.keys.set(keyOf(inner), offset)
      // The value of a merged table is not the one to point at.
      this.values.delete(keyOf(inner))
      made[name] = this.read(value as Node | null, inner, depth + 1)
      if (!this.values.has(keyOf(inner))) this.values.set(keyOf(inner), offset)
    }
    return { ...merged, ...made }
  }
}

function ownKeys(value: unknown): object {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {}
}

function problemAt({ file, text }: YamlSource, offset: number, message: string, path = ''): Problem {
  return { file, ...positionAt(text, offset), path, message, reason: 'file.malformed' }
}

function malformed(source: YamlSource, offset: number, message: string): Error {
  return problemsError([problemAt(source, offset, message)])
}
