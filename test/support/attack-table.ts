/**
 * Writes docs/reference/attacks.md: which attacks ran on which provider, and what differs there. The results
 * are in attacks.json beside it; test/long/other-levels.test.ts records them.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PROVIDER_CONTRACT } from '../../src/testing/provider-contract.ts'
import { PROVIDERS, type ProviderName } from './chosen-provider.ts'
import { LEVELS, skipReason } from './contract-table.ts'
import { ROOT } from './world.ts'

export const RESULTS_FILE = join(ROOT, 'docs/reference/attacks.json')

/** The tests of one file on one provider. */
export interface FileResult {
  /** How many tests of each attack passed. */
  readonly passed: Readonly<Record<string, number>>
  /** Each test that differs there, and why. */
  readonly differs: Readonly<Record<string, string>>
}

export type Results = Readonly<Partial<Record<ProviderName, Readonly<Record<string, FileResult>>>>>

/** Each of these attacks has happened to somebody: none may succeed in a release. */
export const BLOCKERS = [
  ...numbered('FS', [1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 16, 29]),
  ...numbered('PR', [1, 2, 3, 5, 7, 9, 11, 12, 14, 16]),
  ...numbered('LK', [1, 2, 3, 4, 5, 8, 13, 14, 16]),
  ...numbered('NW', [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 19, 20, 21, 23, 27, 31]),
  ...numbered('RS', [1, 2, 4, 5, 6, 10, 12]),
  ...numbered('SE', [1, 2, 3, 4, 6, 9]),
  ...numbered('RL', [9, 32, 41, 43]),
]

function numbered(group: string, numbers: readonly number[]): string[] {
  return numbers.map((n) => `${group}-${String(n).padStart(2, '0')}`)
}

export function readResults(): Results {
  return JSON.parse(readFileSync(RESULTS_FILE, 'utf8')) as Results
}

export interface CaseResult {
  readonly name: string
  readonly isPassed: boolean
  /** Why it was skipped. */
  readonly skip?: string
}

/** The tests in the output of Node's runner. A suite counts only if it was skipped as a whole. */
export function casesOf(tap: string): CaseResult[] {
  const found = tap.matchAll(
    /^ *(?<no>not )?ok \d+ - (?<name>.*?)(?: # SKIP ?(?<skip>.*))?\n +---\n(?<more>[\s\S]*?)\n +\.\.\.$/gm,
  )
  return [...found].flatMap(({ groups = {} }) => {
    const { no, name = '', skip, more = '' } = groups
    if (skip === undefined && /^ *type: 'suite'$/m.test(more)) return []
    const plain = name.replaceAll('\\#', '#')
    return [{ name: plain, isPassed: no === undefined, ...(skip !== undefined && { skip }) }]
  })
}

const ID = /\b[A-Z]{2}-\d\d\b/g

export function resultOf(cases: readonly CaseResult[]): FileResult {
  const passed: Record<string, number> = {}
  const differs: Record<string, string> = {}
  for (const { name, isPassed, skip } of cases) {
    if (skip !== undefined) differs[name] = skip
    else if (isPassed) for (const id of new Set(name.match(ID))) passed[id] = (passed[id] ?? 0) + 1
  }
  const sorted = Object.fromEntries(Object.entries(passed).sort(([a], [b]) => a.localeCompare(b)))
  return { passed: sorted, differs }
}

/** How many tests of an attack passed on a provider, and those that differ. */
export function outcomeOf(
  results: Results,
  provider: ProviderName,
  id: string,
): { passed: number; differs: (readonly [name: string, reason: string])[] } {
  const files = Object.values(results[provider] ?? {})
  return {
    passed: files.reduce((sum, { passed }) => sum + (passed[id] ?? 0), 0),
    differs: files.flatMap(({ differs }) =>
      Object.entries(differs).filter(([name]) => name.match(ID)?.includes(id)),
    ),
  }
}

const INTRODUCTION = `# Attacks on each provider

Generated from \`attacks.json\` by \`test/support/attack-table.test.ts\`. \`test/long/other-levels.test.ts\` runs the same
attack tests on every provider, each with its control, and records the results. [docs/attacks.md](../attacks.md) lists
all attacks with their guards and tests.

\`\`\`sh
scripts/with-node --test test/attack/files.test.ts                              # on crun, the default
AGENTPOD_TEST_PROVIDER=qemu scripts/with-node --test test/attack/files.test.ts  # the same tests on virtual machines
AGENTPOD_UPDATE_DOCS=1 scripts/with-node --test test/long/other-levels.test.ts  # all of them; records the results
\`\`\`

Virtual machines ran with software emulation, and Docker was a daemon of the tests' own, as root, without user
remapping.

## Cases that block a release

A number is how many tests of the case passed on the provider; none failed. \`differs\` means that no test of the case
applies there, and a star that some do not: the reasons are below.`

const DIFFERENCES = `## What differs

No test found a way out of a sandbox. Where a limit does not hold, the page of the provider says so. A test that is
not shown yet has not passed there, and not because an attack succeeded.`

const OTHERS = `## Not in the table

- The cases of the server, of repositories and of project files (CP, GT, CF) run before any provider is asked, and are
  tested once.
- Layers of images (FS-14, SC-01, SC-02, \`test/attack/images.test.ts\`) are unpacked by podhost for crun, gvisor and
  qemu alike, and by the daemon for docker.
- E2B's SDKs pass their suites on gVisor, except for volumes and streams across a pause.`

export function attacksPage(results: Results): string {
  const attacks = readAttacks()
  const cell = (id: string, provider: ProviderName): string => {
    const { passed, differs } = outcomeOf(results, provider, id)
    if (passed === 0) return differs.length > 0 ? 'differs' : '–'
    return `${passed}${differs.length > 0 ? ' \\*' : ''}`
  }
  const blockers = BLOCKERS.map((id) =>
    row([id, attacks.get(id) ?? '', ...PROVIDERS.map((name) => cell(id, name))]),
  )
  const reasons = PROVIDERS.flatMap((provider) => {
    const differing = Object.values(results[provider] ?? {}).flatMap(({ differs }) => Object.entries(differs))
    const grouped = Map.groupBy(differing, ([, reason]) => reason)
    return [...grouped].map(([reason, tests]) => row([provider, named(tests.map(([name]) => name)), reason]))
  })
  const contract = PROVIDERS.map((name) => {
    const skipped = PROVIDER_CONTRACT.filter((one) => skipReason(one, LEVELS[name]) !== undefined).length
    return `${PROVIDER_CONTRACT.length - skipped} of ${PROVIDER_CONTRACT.length}`
  })
  const golden = { crun: 'root-v1', gvisor: 'gvisor', qemu: 'qemu', docker: 'docker-v1' } as const
  const posture = PROVIDERS.map(
    (name) => `[${golden[name]}](../../test/attack/golden/posture-${golden[name]}.json)`,
  )
  const parts = [
    INTRODUCTION,
    [...head(['case', 'attack']), ...blockers].join('\n'),
    '## Beside the attacks',
    [
      ...head(['what']),
      row(['cases of the [provider contract](providers.md#the-contract) that run and pass', ...contract]),
      row(['posture of the processes on the host, as a golden file', ...posture]),
    ].join('\n'),
    DIFFERENCES,
    [row(['provider', 'test', 'there']), row(['---', '---', '---']), ...reasons].join('\n'),
    OTHERS,
  ]
  return `${parts.join('\n\n')}\n`
}

/** One test by its name, several by their cases. */
function named(names: readonly string[]): string {
  const [first = '', ...others] = names
  const ids = [...new Set(names.flatMap((name) => name.match(ID) ?? []))]
  if (others.length === 0) return first
  return ids.length === 0 ? names.join('; ') : `${ids.join(', ')}: ${names.length} tests`
}

/** What docs/attacks.md says of each. */
function readAttacks(): Map<string, string> {
  const rows = readFileSync(join(ROOT, 'docs/attacks.md'), 'utf8').matchAll(
    /^\| ([A-Z]+-\d+) \| ([^|]*) \|/gm,
  )
  return new Map([...rows].map(([, id = '', attack = '']) => [id, attack]))
}

function head(first: readonly string[]): string[] {
  const cells = [...first, ...PROVIDERS]
  return [row(cells), row(cells.map(() => '---'))]
}

function row(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}
