/**
 * The images that a Dockerfile names, for the person who approves it. This is not how Dockerfiles are read:
 * a build gets this list, and uses no other image.
 */
import { isImageRef } from '../../core/image-ref.ts'

const MOST_IMAGES = 64
const EMPTY = 'scratch'

/** In their order, each once. An image whose name cannot be found out is left out. */
export function dockerfileImages(text: string, args: Readonly<Record<string, string>>): string[] {
  const values = new Map<string, string>()
  const stages = new Set<string>([EMPTY])
  const found = new Set<string>()
  let isBeforeFrom = true
  const add = (name: string): void => {
    const image = expand(name, values)
    if (image === undefined || /^[0-9]+$/.test(image) || stages.has(image.toLowerCase())) return
    if (isImageRef(image) && found.size < MOST_IMAGES) found.add(image)
  }
  for (const { word, rest } of instructions(text)) {
    if (word === 'ARG' && isBeforeFrom) declare(rest, args, values)
    if (word === 'FROM') {
      isBeforeFrom = false
      const [name = '', as = '', stage] = rest.split(/\s+/).filter((part) => !part.startsWith('--'))
      add(name)
      if (as.toUpperCase() === 'AS' && stage !== undefined) stages.add(stage.toLowerCase())
    }
    for (const [, name = ''] of word === 'COPY' ? rest.matchAll(/(?:^|\s)--from=(\S+)/g) : []) add(name)
    for (const [, options = ''] of word === 'RUN' ? rest.matchAll(/(?:^|\s)--mount=(\S+)/g) : []) {
      const from = options.split(',').find((part) => part.startsWith('from='))
      if (from) add(from.slice('from='.length))
    }
  }
  return [...found]
}

/** The image below a stage, through the stages before it. Undefined if it is empty or not known. */
export function dockerfileBase(
  text: string,
  args: Readonly<Record<string, string>>,
  target?: string,
): string | undefined {
  const values = new Map<string, string>()
  const stages: { readonly image: string | undefined; readonly name: string | undefined }[] = []
  for (const { word, rest } of instructions(text)) {
    if (word === 'ARG' && stages.length === 0) declare(rest, args, values)
    if (word !== 'FROM') continue
    const [name = '', as = '', stage] = rest.split(/\s+/).filter((part) => !part.startsWith('--'))
    stages.push({
      image: expand(name, values),
      name: as.toUpperCase() === 'AS' ? stage?.toLowerCase() : undefined,
    })
  }
  const named = (name: string, before: number): number =>
    stages.findLastIndex((one, index) => index < before && one.name === name.toLowerCase())
  let at = target === undefined ? stages.length - 1 : named(target, stages.length)
  for (;;) {
    const image = stages[at]?.image
    if (image === undefined) return undefined
    const below = named(image, at)
    if (below < 0) return image === EMPTY || !isImageRef(image) ? undefined : image
    at = below
  }
}

interface Instruction {
  readonly word: string
  readonly rest: string
}

/** Lines joined where they continue, without comments and without the content of heredocs. */
function* instructions(text: string): Generator<Instruction> {
  const isBacktick = /^\s*#\s*escape\s*=\s*`/im.test(text.split(/\n\s*[^#\s]/, 1)[0] ?? '')
  const continued = isBacktick ? /`[ \t]*$/ : /\\[ \t]*$/
  let joined = ''
  let ends: string[] = []
  for (const line of text.split(/\r?\n/)) {
    if (ends.length > 0) {
      if (line.replace(/^\t+/, '') === ends[0]) ends = ends.slice(1)
      continue
    }
    if (/^\s*(?:#|$)/.test(line)) continue
    joined += continued.test(line) ? line.replace(continued, ' ') : line
    if (continued.test(line)) continue
    const [, word = '', rest = ''] = /^\s*([A-Za-z]+)\s+(.*)$/s.exec(joined) ?? []
    joined = ''
    if (/^(?:RUN|COPY|ADD)$/i.test(word)) ends = heredocs(rest)
    yield { word: word.toUpperCase(), rest: rest.trim() }
  }
}

function heredocs(rest: string): string[] {
  return [...rest.matchAll(/(?:^|\s)[0-9]*<<-?(["']?)(\w+)\1(?=\s|$)/g)].map(([, , end = '']) => end)
}

/** `ARG A=1 B`: the caller's values go first. */
function declare(rest: string, args: Readonly<Record<string, string>>, values: Map<string, string>): void {
  for (const part of rest.split(/\s+/)) {
    const at = part.indexOf('=')
    const name = at < 0 ? part : part.slice(0, at)
    const value = Object.hasOwn(args, name)
      ? args[name]
      : at < 0
        ? undefined
        : expand(part.slice(at + 1), values)
    if (value !== undefined) values.set(name, value)
  }
}

const VARIABLE = /\$(?:(\w+)|\{(\w+)(?:(:?[-+])([^${}]*))?\})/g

/** Undefined if something in it has no value, or is more than this understands. */
function expand(text: string, values: ReadonlyMap<string, string>): string | undefined {
  let isKnown = true
  const plain = text.replace(/^(["'])(.*)\1$/, '$2')
  const expanded = plain.replaceAll(
    VARIABLE,
    (_, bare?: string, braced?: string, mark?: string, other = '') => {
      const value = values.get(bare ?? braced ?? '')
      const isSet = value !== undefined && (value !== '' || mark === '-' || mark === '+')
      if (mark?.endsWith('-')) return isSet ? (value ?? '') : other
      if (mark?.endsWith('+')) return isSet ? other : ''
      if (value === undefined) isKnown = false
      return value ?? ''
    },
  )
  return isKnown && !expanded.includes('$') ? expanded : undefined
}
