/**
 * Shows where the time of one command goes. Usage:
 *
 *     scripts/with-node scripts/profile/command.ts DIRECTORY COMMAND [ARG...]
 *
 * It prints the functions that take longest, what runs in each 20 ms, and every git with its times. The
 * figures include the profiler's own share; compare them with each other, not with a budget.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'

interface Profile {
  readonly nodes: readonly { readonly id: number; readonly callFrame: Frame }[]
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
  readonly startTime: number
  readonly endTime: number
}

interface Frame {
  readonly functionName: string
  readonly url: string
  readonly lineNumber: number
}

const WINDOW_US = 20_000
const LISTED = 25

const [cwd = '.', ...words] = process.argv.slice(2)
const scratch = mkdtempSync(join(tmpdir(), 'agentpod-profile-'))
try {
  const log = join(scratch, 'git.log')
  const path = shim(join(scratch, 'git'), log)
  // As ./agentpod starts it, or the figures have several times as much garbage collection.
  const room = ['--min-semi-space-size=16', '--disable-sigusr1']
  const profiled = ['--cpu-prof', '--cpu-prof-interval', '300', '--cpu-prof-dir', join(scratch, 'profile')]
  const args = [...room, ...profiled]
  const cli = join(import.meta.dirname, '..', '..', 'dist', 'cli.js')
  const env = { ...process.env, PATH: path, NODE_NO_WARNINGS: '1' }
  const { status } = spawnSync(process.execPath, [...args, '--', cli, ...words], {
    cwd,
    env,
    stdio: 'inherit',
  })
  const [file = ''] = readdirSync(join(scratch, 'profile'))
  show(JSON.parse(readFileSync(join(scratch, 'profile', file), 'utf8')) as Profile)
  console.log(`\ngit, ms from the first\n${spawnSync('cat', [log], { encoding: 'utf8' }).stdout}`)
  process.exitCode = status ?? 1
} finally {
  rmSync(scratch, { recursive: true, force: true })
}

/** A `git` that writes when each git began and ended. Returns the PATH that has it first. */
function shim(file: string, log: string): string {
  const real = spawnSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).stdout.trim()
  const script = [
    '#!/bin/bash',
    `begin=$EPOCHREALTIME; '${real}' "$@"; code=$?; end=$EPOCHREALTIME`,
    `[ -s '${log}.first' ] || echo "$begin" > '${log}.first'`,
    `first=$(cat '${log}.first')`,
    `since() { echo $(( (\${1/./} - \${first/./}) / 1000 )); }`,
    `all="$*"; echo "$(since "$begin") to $(since "$end"): \${all##*protocol.allow=never }" | cut -c1-160 >> '${log}'`,
    'exit $code',
  ]
  writeFileSync(file, `${script.join('\n')}\n`)
  chmodSync(file, 0o755)
  return `${join(file, '..')}:${process.env['PATH'] ?? ''}`
}

function show({ nodes, samples, timeDeltas, startTime, endTime }: Profile): void {
  const names = new Map(nodes.map(({ id, callFrame }) => [id, nameOf(callFrame)]))
  const whole = new Map<string, number>()
  const windows: Map<string, number>[] = []
  let at = 0
  for (const [n, id] of samples.entries()) {
    const took = timeDeltas[n] ?? 0
    at += took
    const name = names.get(id) ?? ''
    whole.set(name, (whole.get(name) ?? 0) + took)
    const part = Math.floor(at / WINDOW_US)
    const window = windows[part] ?? new Map<string, number>()
    windows[part] = window
    window.set(name, (window.get(name) ?? 0) + took)
  }
  console.log(`\n${Math.round((endTime - startTime) / 1000)} ms in all`)
  for (const [name, took] of most(whole, LISTED)) console.log(`${inMs(took)} ${name}`)
  console.log('\neach 20 ms')
  for (const [n, window] of windows.entries()) {
    const text = most(window ?? new Map(), 3).map(([name, took]) => `${name} ${inMs(took).trim()}`)
    console.log(`${String((n * WINDOW_US) / 1000).padStart(6)} ${text.join(', ')}`)
  }
}

function nameOf({ functionName, url, lineNumber }: Frame): string {
  return `${functionName || '(anonymous)'} ${basename(url)}:${lineNumber}`
}

function most(times: ReadonlyMap<string, number>, count: number): [string, number][] {
  return [...times].sort(([, a], [, b]) => b - a).slice(0, count)
}

function inMs(us: number): string {
  return (us / 1000).toFixed(1).padStart(8)
}
