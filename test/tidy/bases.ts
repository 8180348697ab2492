// What a base is stands in src/bases/. Everybody else asks the kind of a base; nobody compares names.

import { isTest, type Parsed, type Violation } from './source.ts'

const HOME = 'src/bases/'

/** Where such a word means something else, and what. */
const OTHER_MEANINGS: Readonly<Record<string, readonly string[]>> = {
  // Names of headers.
  'src/egress/intercept-h2.ts': ['host'],
  // Kinds of packages.
  'src/egress/package-request.ts': ['debian'],
  // Keys of an address to listen at.
  'src/api/listen.ts': ['host'],
  // Kinds of roots, in an archive and in the words of podhost.
  'src/engine/archive.ts': ['host'],
  'src/providers/local/protocol.ts': ['host'],
  'src/providers/docker/root-ref.ts': ['image'],
}

const BEFORE = /(?:[!=]==?|\bcase|\.(?:includes|startsWith|endsWith|indexOf|literal)\()\s*$/
const AFTER = /^\s*(?:[!=]==?|in\b)/

/** The kinds are the files of src/bases/ that are listed in core/environment.ts, so a new one is found too. */
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
