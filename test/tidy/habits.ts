// What a file may be called, may export and may call.

import { isTest, matchLines, type Parsed, type Violation } from './source.ts'

const FORBIDDEN_NAMES = [
  'utils',
  'helpers',
  'common',
  'types',
  'constants',
  'manager',
  'base',
  'misc',
  'shared',
  'index',
]
const KEBAB_CASE = /^[a-z0-9]+(?:-[a-z0-9]+)*$/

export function checkNames(paths: readonly string[]): Violation[] {
  return paths
    .filter((path) => path.endsWith('.ts'))
    .flatMap((path) => {
      const stems = path.split('/').map((part) => part.replace(/(?:\.test|\.d)?\.ts$/, ''))
      return stems.flatMap((stem) => {
        if (FORBIDDEN_NAMES.includes(stem))
          return [{ path, line: 1, rule: `'${stem}' says nothing of what is inside` }]
        return KEBAB_CASE.test(stem) ? [] : [{ path, line: 1, rule: `'${stem}' is not kebab-case` }]
      })
    })
}

export function checkExports(files: readonly Parsed[]): Violation[] {
  return files
    .filter((file) => file.path.startsWith('src/'))
    .flatMap((file) => [
      ...file.imports
        .filter((one) => one.kind === 'export' && !file.path.startsWith('src/exports/'))
        .map(({ line }) => ({ path: file.path, line, rule: 'only src/exports/ re-exports' })),
      ...matchLines(file, /\bexport\s+default\b/g).map((line) => ({
        path: file.path,
        line,
        rule: 'no default exports',
      })),
    ])
}

type Ban = {
  readonly what: string
  readonly code?: RegExp
  readonly module?: RegExp
  /** Prefixes of the paths under src/ that may. */
  readonly allowed: readonly string[]
}

const BANS: readonly Ban[] = [
  {
    what: 'process.env',
    code: /\bprocess\.env\b/g,
    allowed: ['cli/', 'main/', 'client/default-place.ts', 'workbench/workbench.ts'],
  },
  { what: 'process.exit', code: /\bprocess\.exit\b/g, allowed: ['cli/', 'main/'] },
  { what: 'console', code: /\bconsole\.\w/g, allowed: ['cli/output/'] },
  { what: 'the clock', code: /\bDate\.now\b|\bnew Date\(\)/g, allowed: ['util/clock.ts'] },
  { what: 'Math.random', code: /\bMath\.random\b/g, allowed: ['util/random.ts'] },
  {
    what: 'child_process',
    module: /^(?:node:)?child_process$/,
    allowed: ['main/', 'providers/', 'bases/', 'cli/', 'sync/', 'config/presets/'],
  },
  // A method that is called fetch, or is being defined, is not the global one.
  {
    what: 'fetch',
    code: /(?<![\w$.#])(?<!\b(?:function|async)\s)fetch\((?![^()]*\)\s*(?::[^\n]*)?\{)|\bglobalThis\.fetch\b/g,
    allowed: ['client/', 'providers/', 'config/plan/languages/registry-versions.ts'],
  },
]

/** Tests may call all of these: they stand outside the program. */
export function checkCalls(files: readonly Parsed[]): Violation[] {
  return files
    .filter((file) => file.path.startsWith('src/') && !isTest(file.path))
    .flatMap((file) =>
      BANS.filter(({ allowed }) => !allowed.some((prefix) => file.path.startsWith(`src/${prefix}`))).flatMap(
        (ban) =>
          linesOf(file, ban).map((line) => ({
            path: file.path,
            line,
            rule: `${ban.what} is for ${ban.allowed.join(', ')} only`,
          })),
      ),
    )
}

function linesOf(file: Parsed, { code, module }: Ban): number[] {
  if (module) return file.imports.filter((one) => module.test(one.specifier)).map((one) => one.line)
  return code ? matchLines(file, code) : []
}
