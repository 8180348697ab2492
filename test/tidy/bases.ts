// Only src/bases/ knows the names of bases. All other code asks the kind of a base for a property.

import { isTest, type Parsed, type Violation } from './source.ts'

const HOME = 'src/bases/'

/** Files where such a word has another meaning. */
const OTHER_MEANINGS: Readonly<Record<string, readonly string[]>> = {
  // Names of headers.
  'src/egress/tls/http2.ts': ['host'],
  // Kinds of packages.
  'src/egress/packages/cacheable.ts': ['debian'],
  // Keys of an address to listen at.
  'src/api/http/listen.ts': ['host'],
  // Kinds of roots, in an archive and in the words of podhost.
  'src/engine/snapshots/archive.ts': ['host'],
  'src/providers/local/protocol.ts': ['host'],
  'src/providers/docker/image/root-ref.ts': ['image'],
}

const BEFORE = /(?:[!=]==?|\bcase|\.(?:includes|startsWith|endsWith|indexOf|literal)\()\s*$/
const AFTER = /^\s*(?:[!=]==?|in\b)/

/** The kinds are the files of src/bases/ that core/environment.ts lists, so that a new kind is covered. */
export function baseNames(files: readonly Parsed[]): string[] {
  const core = files.find(({ path }) => path === 'src/core/environment.ts')
  const list = /export const BASES = \[([^\]]*)\]/.exec(core?.text ?? '')?.[1] ?? ''
  return [...list.matchAll(/'([a-z]+)'/g)].map(([, name = '']) => name)
}

export function checkBaseNames(files: readonly Parsed[]): Violation[] {
  const names = baseNames(files)
  return files
    .filter(({ path }) => path.startsWith('src/') && !path.startsWith(HOME) && !isTest(path))
    .flatMap((file) => {
      const other = OTHER_MEANINGS[file.path] ?? []
      return file.literals
        .filter(({ value }) => names.includes(value) && !other.includes(value))
        .filter(({ start, value }) => isCompared(file.code, start - 1, start + value.length + 1))
        .map(({ value, line }) => ({ path: file.path, line, rule: `compares with the base '${value}'` }))
    })
}

/** The span has the quotes in it. */
function isCompared(code: string, start: number, end: number): boolean {
  return BEFORE.test(code.slice(Math.max(0, start - 40), start)) || AFTER.test(code.slice(end, end + 10))
}
