// Runs the Go side's checks: formatting, vet, and its tests one case each.

import { runChild } from './child.ts'
import { type Case, failed, passed, skipped } from './result.ts'

type GoEvent = {
  readonly Action: string
  readonly Package?: string
  readonly Test?: string
  readonly Elapsed?: number
  readonly Output?: string
}

export type GoOptions = {
  /** The program to use. */
  readonly go: string
  readonly moduleDir: string
  readonly limitMs: number
  readonly short: boolean
}

export async function runGoChecks({ go, moduleDir, limitMs, short }: GoOptions): Promise<Case[]> {
  const options = { cwd: moduleDir, limitMs }
  const format = await runChild('gofmt', ['-l', '.'], options)
  const vet = await runChild(go, ['vet', './...'], options)
  const collector = createGoCollector()
  const tests = await runChild(go, ['test', '-json', ...(short ? ['-short'] : []), './...'], {
    ...options,
    onLine: (line) => {
      if (line.startsWith('{')) collector.add(JSON.parse(line))
    },
  })
  const cases = [
    format.code === 0 && format.output === ''
      ? passed('go format', format.durationMs)
      : failed('go format', `gofmt would change:\n${format.output}`),
    vet.code === 0 ? passed('go vet', vet.durationMs) : failed('go vet', vet.output),
    ...collector.finish(tests.output),
  ]
  if (tests.timedOut) cases.push(failed('go test', `stopped after ${limitMs / 1000} s`))
  else if (tests.code !== 0 && !cases.some((one) => one.outcome === 'failed'))
    cases.push(failed('go test', tests.output))
  return cases
}

type GoCollector = {
  add(event: GoEvent): void
  /** Takes what was printed outside the events, where compilers up to Go 1.23 complain. */
  finish(stderr: string): Case[]
}

/**
 * Turns the events of `go test -json` into cases: one for each leaf test, and one for each package that fails
 * outside of its tests.
 */
export function createGoCollector(): GoCollector {
  const output = new Map<string, string>()
  const ended: GoEvent[] = []
  let compilerOutput = ''
  const nameOf = (event: GoEvent): string => [event.Package, event.Test].filter(Boolean).join(' ')

  const caseOf = (event: GoEvent): Case[] => {
    const name = nameOf(event)
    const text = output.get(name) ?? ''
    const durationMs = (event.Elapsed ?? 0) * 1000
    const inside = event.Test === undefined ? '' : `${event.Test}/`
    const children = ended.filter(
      (other) => other !== event && other.Package === event.Package && other.Test?.startsWith(inside),
    )
    if (event.Action === 'fail') {
      if (children.some((child) => child.Action === 'fail')) return []
      return [failed(name, event.Test === undefined ? text + compilerOutput : text, durationMs)]
    }
    if (event.Test === undefined || children.length > 0) return []
    return event.Action === 'skip' ? [skipped(name, reasonOf(text))] : [passed(name, durationMs)]
  }

  return {
    add(event) {
      const { Action: action, Output: text = '' } = event
      if (action === 'output') output.set(nameOf(event), (output.get(nameOf(event)) ?? '') + text)
      else if (action === 'build-output') compilerOutput += text
      else if (event.Package !== undefined && ['pass', 'fail', 'skip'].includes(action)) ended.push(event)
    },
    finish(stderr) {
      compilerOutput += stderr
      return ended.flatMap(caseOf)
    },
  }
}

// `t.Skip` prints "file_test.go:12: reason" between the lines that frame the test.
function reasonOf(output: string): string {
  return output.match(/_test\.go:\d+: (.*)/)?.[1] ?? 'no reason given'
}
