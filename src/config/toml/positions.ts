/**
 * Finds the position of each key and value in a TOML document. The TOML parser does not report positions, so
 * this walks the same text again. It expects documents that the parser accepts; for others it returns what it
 * can and never fails.
 */
import { parse } from 'smol-toml'

export type Path = readonly (string | number)[]

/** Both count from one; a column is a character. */
export interface Position {
  readonly line: number
  readonly column: number
}

/** Offsets are indexes into the string. */
export interface Positions {
  /** The offset of a key, or of an element of a list. */
  key(path: Path): number | undefined
  value(path: Path): number | undefined
  /** A value as written in the file. */
  raw(path: Path): string | undefined
  /** For a key at this offset that repeats an earlier one: its path, and the offset of the first. */
  before(offset: number): { readonly path: Path; readonly first: number } | undefined
}

interface Node {
  key: number
  start: number
  end: number
  /** Whether this is a value, not a table made by headers and dotted keys. */
  isValue: boolean
  readonly children: Map<string, Node>
  readonly items: Node[]
}

interface Step {
  readonly name: string
  readonly at: number
}

/** The nesting limit of the parser for lists and inline tables. */
export const DEEPEST = 32

const SPACE = /[ \t]*/y
const BLANK = /[ \t\r\n]*/y
const BARE_KEY = /[A-Za-z0-9_-]+/y
const BARE_VALUE = /\d{4}-\d\d-\d\d \d[^\s,\]}#]*|[^\s,\]}#]+/y
const REST_OF_LINE = /[^\n]*/y

export function positionsOf(text: string): Positions {
  const scanner = new Scanner(text)
  scanner.scan()
  return {
    key: (path) => find(scanner.root, path)?.key,
    value: (path) => find(scanner.root, path)?.start,
    raw(path) {
      const node = find(scanner.root, path)
      return node?.isValue ? text.slice(node.start, node.end) : undefined
    },
    before: (offset) => scanner.again.get(offset),
  }
}

export function positionAt(text: string, offset: number): Position {
  const start = offset === 0 ? 0 : text.lastIndexOf('\n', offset - 1) + 1
  let line = 1
  for (let at = text.indexOf('\n'); at >= 0 && at < start; at = text.indexOf('\n', at + 1)) line++
  let column = 1
  for (let at = start; at < offset; at++) if (!isLowSurrogate(text.charCodeAt(at))) column++
  return { line, column }
}

/** The second half of a surrogate pair. */
function isLowSurrogate(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff
}

function find(root: Node, path: Path): Node | undefined {
  let node: Node | undefined = root
  for (const step of path) node = typeof step === 'number' ? node?.items[step] : node?.children.get(step)
  return node
}

function nodeAt(offset: number): Node {
  return { key: offset, start: offset, end: offset, isValue: false, children: new Map(), items: [] }
}

class Scanner {
  readonly root = nodeAt(0)
  /** Repeated keys, by the offset of the repetition. */
  readonly again = new Map<number, { readonly path: Path; readonly first: number }>()
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  scan(): void {
    let table = this.root
    let header: readonly string[] = []
    for (;;) {
      this.#gap()
      const before = this.#at
      if (before >= this.#text.length) return
      if (this.#text[before] === '[') {
        const found = this.#header()
        header = found.path
        table = found.node
      } else {
        this.#pair(table, header, 0)
      }
      this.#take(REST_OF_LINE)
      // Invalid TOML must not cause an endless loop.
      if (this.#at === before) this.#at++
    }
  }

  #header(): { readonly node: Node; readonly path: readonly string[] } {
    const isList = this.#text[this.#at + 1] === '['
    this.#at += isList ? 2 : 1
    const steps = this.#steps()
    const path = steps.map(({ name }) => name)
    const last = steps.at(-1)
    if (!last) return { node: nodeAt(this.#at), path }
    const node = this.#descend(this.root, steps, [], !isList)
    if (!isList) {
      node.key = last.at
      node.start = last.at
      return { node, path }
    }
    const item = nodeAt(last.at)
    node.items.push(item)
    return { node: item, path }
  }

  #pair(table: Node, header: readonly string[], depth: number): void {
    const steps = this.#steps()
    this.#take(SPACE)
    if (steps.length === 0 || this.#text[this.#at] !== '=') return
    this.#at++
    this.#take(SPACE)
    this.#value(this.#descend(table, steps, header, true), depth)
  }

  /**
   * The node of a key, created if it does not exist. A repeated key is recorded, since it is an error for new
   * keys.
   */
  #descend(from: Node, steps: readonly Step[], header: readonly string[], isNew: boolean): Node {
    let node = from
    for (const [index, { name, at }] of steps.entries()) {
      const inner = node.children.get(name)
      const isLast = index === steps.length - 1
      if (inner && (inner.isValue || (isLast && isNew))) {
        const path = [...header, ...steps.slice(0, index + 1).map((step) => step.name)]
        this.again.set(steps[0]?.at ?? at, { path, first: inner.key })
      }
      const next: Node = inner ?? nodeAt(at)
      if (!inner) node.children.set(name, next)
      // A header below a list of tables refers to the last of them.
      node = isLast ? next : (next.items.at(-1) ?? next)
    }
    return node
  }

  #steps(): Step[] {
    const steps: Step[] = []
    for (;;) {
      this.#take(SPACE)
      const at = this.#at
      const name = this.#isQuote() ? decoded(this.#string()) : this.#take(BARE_KEY)
      if (this.#at === at) return steps
      steps.push({ name, at })
      this.#take(SPACE)
      if (this.#text[this.#at] !== '.') return steps
      this.#at++
    }
  }

  #value(node: Node, depth: number): void {
    node.start = this.#at
    node.isValue = true
    const first = this.#text[this.#at]
    if (this.#isQuote()) this.#string()
    else if (first === '[' || first === '{') {
      if (depth < DEEPEST) this.#members(node, first === '[' ? ']' : '}', depth + 1)
    } else this.#take(BARE_VALUE)
    node.end = this.#at
  }

  #members(node: Node, end: string, depth: number): void {
    this.#at++
    while (this.#at < this.#text.length) {
      this.#gap()
      const before = this.#at
      if (this.#text[before] === end) break
      if (end === '}') this.#pair(node, [], depth)
      else {
        const item = nodeAt(before)
        node.items.push(item)
        this.#value(item, depth)
      }
      this.#gap()
      if (this.#text[this.#at] === ',') this.#at++
      else if (this.#text[this.#at] !== end || this.#at === before) break
    }
    if (this.#text[this.#at] === end) this.#at++
  }

  /** Blanks, line ends and comments. */
  #gap(): void {
    this.#take(BLANK)
    while (this.#text[this.#at] === '#') {
      this.#take(REST_OF_LINE)
      this.#take(BLANK)
    }
  }

  #isQuote(): boolean {
    const character = this.#text[this.#at]
    return character === '"' || character === "'"
  }

  /** The string that begins here, with its quotes. */
  #string(): string {
    const start = this.#at
    const quote = this.#text[start] ?? ''
    const fence = this.#text.startsWith(quote.repeat(3), start) ? quote.repeat(3) : quote
    this.#at += fence.length
    while (this.#at < this.#text.length && !this.#text.startsWith(fence, this.#at))
      this.#at += quote === '"' && this.#text[this.#at] === '\\' ? 2 : 1
    this.#at += fence.length
    // Up to two quotes may belong to the text before the three that end it.
    for (let more = 0; more < 2 && fence.length === 3 && this.#text[this.#at] === quote; more++) this.#at++
    this.#at = Math.min(this.#at, this.#text.length)
    return this.#text.slice(start, this.#at)
  }

  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at
    const taken = pattern.exec(this.#text)?.[0] ?? ''
    this.#at += taken.length
    return taken
  }
}

/** A key in quotes, without them. */
function decoded(quoted: string): string {
  if (!quoted.includes('\\')) return quoted.slice(1, -1)
  try {
    return String(parse(`key = ${quoted}`)['key'])
  } catch {
    return quoted
  }
}
