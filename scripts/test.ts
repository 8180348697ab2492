// The test run: `check` while working, `all` before a commit, `long` for the soak tests. Programs parse its
// last line.

import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { killChildren } from './harness/child.ts'
import { COMMANDS, type Command, type Lane, type Phase, phasesOf } from './harness/phases.ts'
import { type Case, count, failed, skipsByReason, slowest, slowestFiles } from './harness/result.ts'

const USAGE = `usage: scripts/with-node scripts/test.ts ${COMMANDS.join('|')} [--only <part of a phase or file name>] [--verbose]`
const SLOW_MS = 500
const SLOW_LISTED = 5
const SLOW_LISTED_VERBOSE = 100

const { command, only, isVerbose } = readArguments()
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    killChildren('SIGKILL')
    process.exit(130)
  })
}

const concurrency = Number(process.env['TEST_CONCURRENCY']) || undefined
const cases: Case[] = []
for (const group of phasesOf(command, { root: join(import.meta.dirname, '..'), only, concurrency })) {
  await Promise.all(group.map(runLane))
}
summarise(cases)

async function runLane(phases: Lane): Promise<void> {
  for (const phase of phases) cases.push(...(await runPhase(phase)))
}

async function runPhase({ name, run }: Phase): Promise<Case[]> {
  const startedAt = performance.now()
  const found = await run().catch((error: unknown) => [failed(name, String(error))])
  const { passed: ok, failed: bad, skipped } = count(found)
  const parts = [`${ok} ok`, bad > 0 && `${bad} FAILED`, skipped > 0 && `${skipped} skipped`].filter(Boolean)
  console.log(`${name.padEnd(10)} ${parts.join(', ')} (${seconds(performance.now() - startedAt)})`)
  for (const one of found) {
    if (one.outcome === 'failed') console.log(`\n  FAILED ${one.name}\n${indent(one.detail)}\n`)
    if (isVerbose && one.outcome === 'skipped') console.log(`  skipped ${one.name}: ${one.detail}`)
  }
  return found
}

function summarise(all: readonly Case[]): void {
  const slow = slowest(all, isVerbose ? SLOW_LISTED_VERBOSE : SLOW_LISTED, SLOW_MS)
  if (slow.length > 0) console.log('\nslowest')
  for (const one of slow) console.log(`  ${seconds(one.durationMs).padStart(8)}  ${one.name}`)

  if (isVerbose) {
    console.log('\nslowest files')
    for (const [file, durationMs] of slowestFiles(all, SLOW_LISTED_VERBOSE))
      console.log(`  ${seconds(durationMs).padStart(8)}  ${file}`)
  }

  const skips = skipsByReason(all)
  if (skips.length > 0) console.log(`\nskipped${isVerbose ? '' : ' (--verbose lists the tests)'}`)
  for (const [reason, times] of skips) console.log(`  ${String(times).padStart(4)}  ${reason}`)

  const bad = all.filter((one) => one.outcome === 'failed')
  if (bad.length > 0) console.log(`\nfailed\n${bad.map((one) => `  ${one.name}`).join('\n')}`)

  const { passed, failed: failures, skipped } = count(all)
  console.log(`\n${passed} passed, ${failures} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
  process.exitCode = failures > 0 || passed === 0 ? 1 : 0
}

function readArguments(): { command: Command; only: string | undefined; isVerbose: boolean } {
  try {
    const { values, positionals } = parseArgs({
      options: { only: { type: 'string' }, verbose: { type: 'boolean', default: false } },
      allowPositionals: true,
    })
    const chosen = COMMANDS.find((name) => name === positionals[0])
    if (chosen && positionals.length === 1)
      return { command: chosen, only: values.only, isVerbose: values.verbose }
    console.error(USAGE)
  } catch (error) {
    console.error(`${String(error)}\n${USAGE}`)
  }
  process.exit(2)
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}

function indent(text: string): string {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => `    ${line}`)
    .join('\n')
}
