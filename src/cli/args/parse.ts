/** Command-line words, strictly: an unknown option is an error that names the nearest known one. */
import { invalid } from '../../core/error.ts'
import { nearest } from '../../util/nearest.ts'

export interface OptionSpec {
  readonly help: string
  readonly short?: string
  /** The name of the value in help. Without it the option is a switch. */
  readonly value?: string
  readonly repeat?: boolean
}

export class Parsed {
  readonly words: readonly string[]
  /** How many words came before `--`; undefined without one. */
  readonly wordsBefore: number | undefined
  readonly #values: ReadonlyMap<string, readonly string[]>

  constructor(
    words: readonly string[],
    values: ReadonlyMap<string, readonly string[]>,
    wordsBefore?: number | undefined,
  ) {
    this.words = words
    this.#values = values
    this.wordsBefore = wordsBefore
  }

  /** Whether `--` came before the first word: then no word has a meaning for us. */
  get isLiteral(): boolean {
    return this.wordsBefore === 0
  }

  /** Takes the words of another call, and its options first. */
  with(other: Parsed): Parsed {
    return new Parsed(other.words, new Map([...this.#values, ...other.#values]), this.wordsBefore)
  }

  has(option: string): boolean {
    return this.#values.has(option)
  }

  value(option: string): string | undefined {
    return this.#values.get(option)?.at(-1)
  }

  values(option: string): readonly string[] {
    return this.#values.get(option) ?? []
  }

  word(index: number): string {
    return this.words[index] ?? ''
  }
}

export interface Grammar {
  readonly usage: string
  readonly options: Readonly<Record<string, OptionSpec>>
  readonly words: WordCount
}

/** How many words a command takes. */
export interface WordCount {
  readonly min: number
  readonly max: number
  /** Everything after the words before it belongs to the command to run, options too. */
  readonly rest?: boolean | undefined
  /** How many words come before the first one of the command to run; `min - 1` if left out. */
  readonly before?: number | undefined
}

export function parseArgs(argv: readonly string[], grammar: Grammar): Parsed {
  const words: string[] = []
  const values = new Map<string, string[]>()
  const set = (name: string, value: string): void => {
    const before = values.get(name) ?? []
    values.set(name, grammar.options[name]?.repeat ? [...before, value] : [value])
  }
  const { min, rest: hasRest, before = min - 1 } = grammar.words
  let i = 0
  let wordsBefore: number | undefined
  while (i < argv.length) {
    const word = argv[i++] ?? ''
    if (word === '--') {
      wordsBefore = words.length
      words.push(...argv.slice(i))
      break
    }
    if (!word.startsWith('-') || word === '-') {
      words.push(word)
      if (!hasRest || words.length <= before) continue
      words.push(...argv.slice(i))
      break
    }
    const { name, attached } = splitOption(word, grammar)
    const spec = Object.hasOwn(grammar.options, name) ? grammar.options[name] : undefined
    if (!spec) throw unknownOption(word, grammar)
    if (spec.value === undefined) {
      if (attached !== undefined) throw invalid('option.value', `${word.split('=')[0]} takes no value`)
      set(name, '')
      continue
    }
    const value = attached ?? argv[i++]
    if (value === undefined)
      throw invalid('option.value', `${word} needs a value: ${spec.value}`, grammar.usage)
    set(name, value)
  }
  checkWords(words, grammar)
  return new Parsed(words, values, wordsBefore)
}

function splitOption(word: string, grammar: Grammar): { name: string; attached: string | undefined } {
  if (word.startsWith('--')) {
    const cut = word.indexOf('=')
    return cut < 0
      ? { name: word.slice(2), attached: undefined }
      : { name: word.slice(2, cut), attached: word.slice(cut + 1) }
  }
  const letter = word[1] ?? ''
  const name = Object.entries(grammar.options).find(([, spec]) => spec.short === letter)?.[0] ?? ''
  const tail = word.slice(2)
  return { name, attached: tail === '' ? undefined : tail.replace(/^=/, '') }
}

/** Words of other tools for our options. */
const OTHER_NAMES: Readonly<Record<string, string>> = { '--ttl': '--timeout' }

function unknownOption(word: string, grammar: Grammar): Error {
  const bare = word.split('=')[0] ?? word
  const known = Object.keys(grammar.options).map((name) => `--${name}`)
  const other = OTHER_NAMES[bare]
  const near = other !== undefined && known.includes(other) ? other : nearest(bare, known)
  return invalid('option.unknown', `unknown option ${bare}`, near ? `did you mean ${near}?` : grammar.usage)
}

function checkWords(words: readonly string[], grammar: Grammar): void {
  const { min, max } = grammar.words
  if (words.length < min)
    throw invalid(
      'words.missing',
      words.length === 0 ? 'missing arguments' : `missing arguments after ${JSON.stringify(words.at(-1))}`,
      grammar.usage,
    )
  if (words.length > max)
    throw invalid('words.extra', `unexpected ${JSON.stringify(words[max])}`, grammar.usage)
}
