/** Runs a script repeatedly; each time, another one of the commands that it calls fails. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Script {
  readonly run: string
  readonly args?: readonly string[]
  readonly variables?: Readonly<Record<string, string>>
  /** Programs that do nothing but succeed here: package managers and the like. */
  readonly played: readonly string[]
  /** Makes what the script expects to find; `place` is its home and the directory it runs in. */
  prepare?(place: string): void
}

export interface Trial {
  /** What failed, as it was called; undefined for the run in which nothing did. */
  readonly failed: string | undefined
  readonly code: number | null
  readonly said: string
}

/** What else such scripts may call, which is really run. */
const REAL =
  'base64 cat chmod chown cp cut dirname find git grep head install ln ls mkdir mktemp mv printf realpath rm rmdir sed sh sha256sum sort tail touch tr wc xargs'.split(
    ' ',
  )
const MOST_CALLS = 200
const CODE = 91

/**
 * `{place}` in the script and its arguments is the directory of the trial. In the first trial nothing fails.
 */
export function trials(script: Script): Trial[] {
  const all: Trial[] = []
  for (let at = 0; at <= MOST_CALLS; at++) {
    const trial = one(script, at)
    if (at > 0 && trial.failed === undefined) return all
    all.push(trial)
  }
  throw new Error(`the script calls more than ${MOST_CALLS} programs`)
}

function one(script: Script, at: number): Trial {
  const place = mkdtempSync(join(tmpdir(), 'agentpod-member-'))
  try {
    const bin = join(place, '.bin')
    mkdirSync(bin)
    writeFileSync(join(place, '.count'), '0\n')
    for (const name of new Set([...REAL, ...script.played]))
      writeFileSync(join(bin, name), program(name, place, script.played.includes(name)), { mode: 0o755 })
    script.prepare?.(place)
    const here = (text: string): string => text.replaceAll('{place}', place)
    const { status, stdout, stderr } = spawnSync(
      '/bin/sh',
      ['-c', here(script.run), 'script', ...(script.args ?? []).map(here)],
      {
        cwd: place,
        encoding: 'utf8',
        timeout: 20_000,
        env: { ...script.variables, PATH: bin, HOME: place, FAIL_AT: String(at) },
      },
    )
    return { failed: read(join(place, '.failed')), code: status, said: `${stdout}${stderr}` }
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
}

/** Counts the calls with shell builtins, because every other program is one that counts. */
function program(name: string, place: string, isPlayed: boolean): string {
  const real = `PATH=${process.env['PATH'] ?? '/usr/bin:/bin'}; exec ${name} "$@"`
  return `#!/bin/sh
read -r count < ${place}/.count
count=$((count + 1))
echo $count > ${place}/.count
if [ $count = "$FAIL_AT" ]; then echo "${name} $*" > ${place}/.failed; exit ${CODE}; fi
${isPlayed ? ':' : real}
`
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch {
    return undefined
  }
}
