// The phases of each test command, in order.

import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { noOrdinaryUser } from '../../test/support/ordinary-user.ts'
import { newerGo } from '../package/licences.ts'
import { runChild } from './child.ts'
import { runGoChecks } from './go-tests.ts'
import { checkLeftovers, findGroups, makeRunDirectory, nameRunDirectory } from './leftovers.ts'
import { runNodeTests } from './node-tests.ts'
import { type Case, failed, passed } from './result.ts'
import { runAsOrdinaryUser } from './user-tests.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND

export type Phase = { readonly name: string; run(): Promise<Case[]> }

export const COMMANDS = ['check', 'all', 'long'] as const
export type Command = (typeof COMMANDS)[number]

export type Selection = {
  readonly root: string
  /** A part of a phase's name or of a test file's path. */
  readonly only: string | undefined
  /** How many test files run at a time, to override the number of the phase. */
  readonly concurrency: number | undefined
}

/** Phases that run one after the other. */
export type Lane = readonly Phase[]

/** Returns groups of lanes. The groups run one after the other; the lanes of a group run at the same time. */
export function phasesOf(command: Command, selection: Selection): Lane[][] {
  switch (command) {
    case 'check':
      return checks(selection, { short: true })
    case 'all':
      return [
        ...checks(selection, { short: false }),
        ...onRealParts(selection, {
          findings: { minutes: 20, without: LONG_FILES },
          e2e: { minutes: 30, without: [...OWN_KERNEL, ...(noOrdinaryUser() ? [] : USER_SLICE)] },
          isolation: { minutes: 15, only: OWN_KERNEL },
          attack: { minutes: 20 },
          compat: { minutes: 15 },
          crash: { minutes: 10 },
          contract: {
            minutes: 10,
            only: ['test/contract/**/*.test.ts', 'examples/provider/*.test.ts'],
          },
          docs: { minutes: 10 },
          package: { minutes: 5 },
        }),
        ...asOrdinaryUser(selection, USER_SLICE, 15),
      ]
    case 'long':
      return [
        ...onRealParts(selection, {
          long: { minutes: 120 },
          e2e: { minutes: 15, only: USER_SLICE },
          slow: { minutes: 60, only: [...LONG_FILES, ...filesWithLongTests(selection.root)], isLong: true },
        }),
        ...asOrdinaryUser(
          selection,
          ['test/e2e/**/*.test.ts', 'test/docs/**/*.test.ts', 'test/compat/**/*.test.ts'],
          60,
        ),
      ]
  }
}

function checks(selection: Selection, { short }: { short: boolean }): Lane[][] {
  const { root } = selection
  const isChosen = ({ name }: Phase): boolean => name.includes(selection.only ?? '')
  const programs: Phase[] = [
    program(root, 'types', 2 * MINUTE, ['node_modules/.bin/tsc', '--noEmit', '--pretty', 'false']),
    program(root, 'lint', MINUTE, ['node_modules/.bin/biome', 'check', '--colors=off']),
  ]
  const unit = tests(selection, 'unit', { limitMs: 8 * MINUTE, atOnce: 2 }, [
    'src/**/*.test.ts',
    'scripts/harness/*.test.ts',
    'test/{*,server/*,shell-scripts/*,support/*}.test.ts',
    'test/model/*.test.ts',
  ])
  const moduleDir = join(root, 'native')
  const limits = { limitMs: 10 * MINUTE, short }
  const go: Phase = {
    name: 'go',
    run: async () => [
      ...(await runGoChecks({ go: 'go', moduleDir, ...limits })),
      ...(await runGoChecks({ go: newerGo(root), moduleDir: join(moduleDir, 'podimage'), ...limits })),
    ],
  }
  const hasGo = existsSync(join(moduleDir, 'go.mod'))
  const first = [...programs, ...(hasGo ? [go] : [])].filter(isChosen)
  return [first.map((phase) => [phase]), [unit]]
}

/**
 * Lanes of phases that run in parallel. Their tests often wait for timeouts and other programs, and none of
 * them asserts a duration. All lanes take about the same time.
 */
const LANES: readonly (readonly string[])[] = [
  ['findings', 'contract', 'docs', 'isolation'],
  ['e2e'],
  ['attack', 'crash', 'package', 'compat'],
]

/** The test files of a folder below test/, or some of them. */
type Part = {
  readonly minutes: number
  readonly without?: readonly string[]
  readonly only?: readonly string[]
  /** Whether it runs the tests that `npm test` skips because they take long. */
  readonly isLong?: boolean
}

// These tests start ./agentpod, so the build runs first. They change the machine, so anything they leave
// behind is a failure.
function onRealParts(selection: Selection, parts: Readonly<Record<string, Part>>): Lane[][] {
  const runDirectory = nameRunDirectory()
  const phases = Object.entries(parts).flatMap(([name, { minutes, without, only, isLong }]) => {
    const limits = { limitMs: minutes * MINUTE, atOnce: 1, tmpDir: runDirectory, without, isLong }
    return tests(selection, name, limits, only ?? [`test/${name}/**/*.test.ts`])
  })
  if (phases.length === 0) return []
  let earlier: ReadonlySet<string> = new Set()
  const build: Phase = {
    name: 'build',
    run: async () => {
      earlier = await findGroups()
      makeRunDirectory(runDirectory)
      // Some tests need programs that nothing else needs.
      const setup = [join(selection.root, 'scripts/setup'), 'tests']
      const found = await program(selection.root, 'setup', 10 * MINUTE, setup).run()
      const built = program(selection.root, 'build', 5 * MINUTE, [join(selection.root, 'scripts/build')])
      return [...found, ...(await built.run())]
    },
  }
  const leftovers: Phase = {
    name: 'leftovers',
    run: async () => [await checkLeftovers(runDirectory, earlier)],
  }
  const isAlone = ({ name }: Phase): boolean => !LANES.some((lane) => lane.includes(name))
  const lanes = LANES.map((lane) => lane.flatMap((name) => phases.filter((phase) => phase.name === name)))
  return [[[build]], lanes, [phases.filter(isAlone)], [[leftovers]]]
}

function program(
  root: string,
  name: string,
  limitMs: number,
  [command = '', ...args]: readonly string[],
): Phase {
  const run = async (): Promise<Case[]> => {
    const { code, timedOut, durationMs, output } = await runChild(command, args, { cwd: root, limitMs })
    if (timedOut) return [failed(name, `stopped after ${limitMs / SECOND} s\n${output}`, durationMs)]
    return [code === 0 ? passed(name, durationMs) : failed(name, output, durationMs)]
  }
  return { name, run }
}

/** Left to `npm run test:long`: they build the base of E2B's templates, which takes minutes. */
const LONG_FILES = ['test/findings/e2b.test.ts']

/** Sandboxes with a kernel of their own. They are in a lane that has less to do than that of the others. */
const OWN_KERNEL = ['gvisor', 'qemu', 'docker-inside'].map((name) => `test/e2e/${name}.test.ts`)

/** Files with tests that `npm test` skips because they take long. */
function filesWithLongTests(root: string): string[] {
  const isOne = (file: string): boolean => readFileSync(join(root, file), 'utf8').includes('support/long.ts')
  return globSync('test/*/*.test.ts', { cwd: root }).filter(isOne).sort()
}

/**
 * What an ordinary user does first: commands, branches, runs, pauses and snapshots. `npm test` runs these
 * files only as an ordinary user, if it can create one. `npm run test:long` runs them as root, and all other
 * files as an ordinary user.
 */
const USER_SLICE = ['run', 'runs', 'pause'].map((name) => `test/e2e/${name}.test.ts`)

/**
 * The same tests in a clone that belongs to an ordinary user. `--only user` selects all of them, `--only
 * user:PART` those whose path contains PART.
 */
function asOrdinaryUser(selection: Selection, patterns: readonly string[], limitMinutes: number): Lane[][] {
  const { root, only = 'user' } = selection
  const [phase, part = ''] = only.split(':')
  if (phase !== 'user') return []
  const files = globSync(patterns, { cwd: root })
    .filter((file) => file.includes(part))
    .sort()
  const options = { root, files, concurrency: 1, limitMs: limitMinutes * MINUTE }
  const user: Phase = { name: 'user', run: () => runAsOrdinaryUser(options) }
  const build = program(root, 'build', 5 * MINUTE, [join(root, 'scripts/build')])
  return files.length === 0 ? [] : [[[build, user]]]
}

type TestLimits = {
  readonly limitMs: number
  readonly atOnce: number
  readonly tmpDir?: string
  readonly without?: readonly string[] | undefined
  readonly isLong?: boolean | undefined
}

function tests(selection: Selection, name: string, limits: TestLimits, patterns: readonly string[]): Phase[] {
  const { root, only = '' } = selection
  const isWhole = only === '' || only === name
  const files = globSync(patterns, { cwd: root })
    .filter((file) => (isWhole ? !limits.without?.includes(file) : file.includes(only)))
    .sort()
  if (files.length === 0) return []
  const concurrency = selection.concurrency ?? limits.atOnce
  const env = {
    AGENTPOD_TEST: '1',
    ...(limits.tmpDir && { TMPDIR: limits.tmpDir }),
    ...(limits.isLong && { AGENTPOD_LONG: '1' }),
  }
  return [{ name, run: () => runNodeTests({ root, files, concurrency, limitMs: limits.limitMs, env }) }]
}
