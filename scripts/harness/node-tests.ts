// Runs test files with node:test and turns its events into cases.

import { join, relative, resolve } from 'node:path'
import { runChild } from './child.ts'
import type { TestEvent, TestResult } from './reporter.ts'
import { type Case, failed, passed, skipped } from './result.ts'

const OUTPUT_KEPT_CHARS = 4_000

export type NodeTestOptions = {
  readonly root: string
  readonly files: readonly string[]
  readonly concurrency: number
  readonly limitMs: number
  readonly env: Readonly<Record<string, string>>
  /** The command that starts Node, if it is not this Node. */
  readonly node?: readonly string[] | undefined
}

export async function runNodeTests(options: NodeTestOptions): Promise<Case[]> {
  const collector = createCollector(options.root)
  const [program = '', ...words] = options.node ?? [process.execPath]
  const harness = options.node ? join(options.root, 'scripts', 'harness') : import.meta.dirname
  const { code, timedOut, output } = await runChild(
    program,
    [
      ...words,
      '--disable-warning=ExperimentalWarning',
      `--import=${join(harness, 'compile-cache.ts')}`,
      '--test',
      `--test-concurrency=${options.concurrency}`,
      `--test-reporter=${join(harness, 'reporter.ts')}`,
      '--test-reporter-destination=stdout',
      ...options.files,
    ],
    {
      cwd: options.root,
      limitMs: options.limitMs,
      env: options.env,
      onLine: (line) => {
        const event: TestEvent = JSON.parse(line)
        collector.add(event)
        const note = progressOf(event, options.root)
        if (note) console.error(note)
      },
    },
  )
  const cases = collector.finish()
  if (timedOut) {
    const unfinished = collector.running().join('\n') || 'nothing was running'
    cases.push(
      failed('time limit', `stopped after ${options.limitMs / 1000} s while these ran:\n${unfinished}`),
    )
  } else if (code !== 0 && !cases.some((one) => one.outcome === 'failed')) {
    cases.push(failed('test runner', `exited with ${code} and no failed test\n${output}`))
  }
  return cases
}

/** A line for a test that has just failed: a long run has no other output before its phase ends. */
function progressOf(event: TestEvent, root: string): string | null {
  if (event.kind !== 'result' || event.passed || event.failureType === 'subtestsFailed') return null
  return `  failed: ${relative(root, resolve(root, event.file))}: ${event.name}`
}

type Collector = {
  add(event: TestEvent): void
  /** The tests that have begun and not ended. */
  running(): string[]
  finish(): Case[]
}

/** A case whose surrounding suites are not all known yet: `nesting` is that of the outermost known one. */
type NestedCase = { nesting: number; suites: readonly string[]; readonly leaf: string; readonly case: Case }

type FileState = { output: string; lastNesting: number; readonly cases: NestedCase[] }

/** Collects events into cases: one for each leaf test, and one for each failure of what surrounds them. */
export function createCollector(root: string): Collector {
  const files = new Map<string, FileState>()
  const open = new Set<string>()
  const label = (file: string, name: string): string => {
    const path = relative(root, resolve(root, file))
    return resolve(root, name) === resolve(root, file) ? path : `${path}: ${name}`
  }

  // Node gives the path of a file as it was asked for in some events and the absolute one in others.
  const stateOf = (file: string): FileState => {
    const path = resolve(root, file)
    const state = files.get(path) ?? { output: '', lastNesting: 0, cases: [] }
    files.set(path, state)
    return state
  }

  const addResult = (event: TestResult): void => {
    const state = stateOf(event.file)
    // Results arrive in source order, children first, so a parent follows a result that is nested deeper.
    const isParent = event.isSuite || state.lastNesting > event.nesting
    state.lastNesting = event.nesting
    if (isParent) addSuite(state.cases, event)
    // Node reports a result for a whole file only if it ran no test: the file has none, or it ended the
    // process too early.
    const isWholeFile = resolve(root, event.name) === resolve(root, event.file)
    const one =
      event.passed && isWholeFile
        ? failed(event.file, 'no test in this file was run')
        : caseOf(event, isParent)
    if (one) state.cases.push({ nesting: event.nesting, suites: [], leaf: event.name, case: one })
  }

  return {
    add(event) {
      switch (event.kind) {
        case 'begin':
          open.add(label(event.file, event.name))
          break
        case 'end':
          open.delete(label(event.file, event.name))
          break
        case 'output': {
          const state = stateOf(event.file)
          state.output = (state.output + event.text).slice(-OUTPUT_KEPT_CHARS)
          break
        }
        case 'result':
          addResult(event)
      }
    },
    running: () => [...open],
    finish: () =>
      [...files].flatMap(([file, { cases, output }]) => {
        const last = cases.findLastIndex((one) => one.case.outcome === 'failed')
        return cases.map(({ suites, leaf, case: one }, at) => ({
          ...one,
          name: label(file, [...suites, leaf].join(' › ')),
          detail: at === last && output ? `${one.detail}\n--- output of the file ---\n${output}` : one.detail,
        }))
      }),
  }
}

/** A suite's result follows those of its tests: they are the last ones that are nested deeper. */
function addSuite(cases: readonly NestedCase[], suite: TestResult): void {
  for (let at = cases.length - 1; at >= 0; at--) {
    const one = cases[at]
    if (!one || one.nesting <= suite.nesting) return
    one.suites = [suite.name, ...one.suites]
    one.nesting = suite.nesting
  }
}

function caseOf(event: TestResult, isParent: boolean): Case | null {
  const { name } = event
  if (event.skip !== null) return skipped(name, event.skip === true ? 'no reason given' : event.skip)
  if (!event.passed) {
    return isParent && event.failureType === 'subtestsFailed'
      ? null
      : failed(name, event.error, event.durationMs)
  }
  return isParent ? null : passed(name, event.durationMs)
}
