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
  /** Whether `--` came before the first word: then no word has a meaning for us. */
  readonly isLiteral: boolean
  readonly #values: ReadonlyMap<string, readonly string[]>

  constructor(words: readonly string[], values: ReadonlyMap<string, readonly string[]>, isLiteral = false) {
    this.words = words
    this.#values = values
    this.isLiteral = isLiteral
  }

  /** Takes the words of another call, and its options first. */
  with(other: Parsed): Parsed {
    return new Parsed(other.words, new Map([...this.#values, ...other.#values]), this.isLiteral)
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
  readonly words: { readonly min: number; readonly max: number; readonly rest?: boolean | undefined }
}

export function parseArgs(argv: readonly string[], grammar: Grammar): Parsed {
  const words: string[] = []
  const values = new Map<string, string[]>()
  const set = (name: string, value: string): void => {
    const before = values.get(name) ?? []
    values.set(name, grammar.options[name]?.repeat ? [...before, value] : [value])
  }
  let [i, isLiteral] = [0, false]
  while (i < argv.length) {
    const word = argv[i++] ?? ''
    if (word === '--') {
      isLiteral = words.length === 0
      words.push(...argv.slice(i))
      break
    }
    if (!word.startsWith('-') || word === '-') {
      words.push(word)
      // Everything after the command to run belongs to it, options too.
      if (grammar.words.rest && words.length > grammar.words.min - 1) {
        const rest = argv.slice(i)
        words.push(...(rest[0] === '--' && words.length === grammar.words.min - 1 ? rest.slice(1) : rest))
        break
      }
      continue
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
  return new Parsed(words, values, isLiteral)
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

function unknownOption(word: string, grammar: Grammar): Error {
  const bare = word.split('=')[0] ?? word
  const near = nearest(
    bare,
    Object.keys(grammar.options).map((name) => `--${name}`),
  )
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
