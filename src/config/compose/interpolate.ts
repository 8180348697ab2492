/** Variables in values of compose files: `$NAME`, `${NAME:-default}`, `${NAME?error}`, `$$`. */
import { printable } from '../toml/problem.ts'

export interface Interpolated {
  readonly text: string
  /** Variables that are not set and have no default; they count as empty. */
  readonly unset: readonly string[]
}

export type Lookup = (name: string) => string | undefined

const NAME = /^[A-Za-z_][A-Za-z0-9_]*/
const DEEPEST_DEFAULT = 8
const LONGEST_RESULT = 64 * 1024

/**
 * Throws an Error whose message says what is wrong with the text. `howToSet` ends the message about a
 * variable that must be set.
 */
export function interpolate(
  text: string,
  lookup: Lookup,
  howToSet: (name: string) => string = () => '',
): Interpolated {
  const unset: string[] = []
  const expanded = expand(text, { lookup, unset, howToSet, depth: 0 })
  return { text: expanded, unset: [...new Set(unset)] }
}

interface Expansion {
  readonly lookup: Lookup
  readonly unset: string[]
  readonly howToSet: (name: string) => string
  readonly depth: number
}

function expand(text: string, expansion: Expansion): string {
  if (expansion.depth > DEEPEST_DEFAULT) throw new Error('defaults of variables are nested too deep')
  let result = ''
  let at = 0
  for (let next = text.indexOf('$', at); next >= 0; next = text.indexOf('$', at)) {
    result += text.slice(at, next)
    const after = text.slice(next + 1)
    if (after.startsWith('$')) {
      result += '$'
      at = next + 2
    } else if (after.startsWith('{')) {
      const end = closing(text, next + 1)
      result += braced(text.slice(next + 2, end), expansion)
      at = end + 1
    } else {
      const name = NAME.exec(after)?.[0]
      if (name === undefined)
        throw new Error(`a $ that begins no variable is written $$: ${printable(text.slice(next), 20)}`)
      result += variableValue(name, expansion)
      at = next + 1 + name.length
    }
    if (result.length > LONGEST_RESULT) throw new Error('the value is too long after its variables')
  }
  return result + text.slice(at)
}

/** The index of the brace that closes the one at `open`. */
function closing(text: string, open: number): number {
  let depth = 0
  for (let at = open; at < text.length; at++) {
    if (text[at] === '{' && (at === open || text[at - 1] === '$')) depth++
    else if (text[at] === '}' && --depth === 0) return at
  }
  throw new Error(`a variable has no closing brace: ${printable(text.slice(open - 1), 20)}`)
}

function braced(inner: string, expansion: Expansion): string {
  const name = NAME.exec(inner)?.[0]
  const match = name === undefined ? null : /^(?:(:?[-?+])([\s\S]*))?$/.exec(inner.slice(name.length))
  if (name === undefined || !match) throw new Error(`\${${printable(inner, 20)}} is not a variable`)
  const [, operator, word = ''] = match
  if (operator === undefined) return variableValue(name, expansion)
  const value = expansion.lookup(name)
  const isSet = value !== undefined && !(operator.startsWith(':') && value === '')
  const inside = (): string => expand(word, { ...expansion, depth: expansion.depth + 1 })
  switch (operator.at(-1)) {
    case '-':
      return isSet ? value : inside()
    case '+':
      return isSet ? inside() : ''
    default:
      if (isSet) return value
      throw new Error(
        `the variable ${name} is required${word === '' ? '' : `: ${printable(inside())}`}${expansion.howToSet(name)}`,
      )
  }
}

function variableValue(name: string, { lookup, unset }: Expansion): string {
  const value = lookup(name)
  if (value === undefined) unset.push(name)
  return value ?? ''
}
