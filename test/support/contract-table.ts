/**
 * Writes docs/reference/providers.md: the capabilities of each provider, and the contract cases that it
 * skips.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Capabilities } from '../../src/core/capability.ts'
import type { ContractCase } from '../../src/testing/contract-context.ts'
import { ROOT } from './world.ts'

/** Notes are about one machine, so the page has none. */
export type Levels = Omit<Capabilities, 'notes'>

/** As they are where nothing is missing. Docker's usual storage driver limits no disk. */
export const LEVELS = JSON.parse(
  readFileSync(join(ROOT, 'docs/reference/providers.json'), 'utf8'),
) as Readonly<Record<'crun' | 'gvisor' | 'qemu' | 'docker' | 'fake' | 'example', Levels>>

const INTRODUCTION = `# Providers

Generated from \`providers.json\` and the cases of the provider contract by
\`test/support/contract-table.test.ts\`. [docs/providers](../providers/README.md) says what each provider needs and
what it does not enforce.

| provider | what it is |
|---|---|
| crun | sandboxes on this machine, created by podhost; the default |
| gvisor | sandboxes on this machine with gVisor's kernel, created by podhost |
| qemu | virtual machines on this machine, created by podhost |
| docker | containers of a local or remote Docker daemon |
| fake | sandboxes in memory, for tests of the server |
| example | [examples/provider](../../examples/provider/README.md), the example in CONTRIBUTING |

\`agentpod provider ls\` shows what a provider lacks on your machine, and \`agentpod provider check NAME\` how to fix
it.

## Capabilities

The levels are those of a fully equipped machine: for crun, all cgroup controllers and a kernel that can redirect
connections; for docker, a daemon with the usual storage driver, which limits everything except the disk.`

const RESULTS = `## The contract

\`npm test\` runs the cases of \`src/testing/provider-contract.ts\` on each provider (\`test/contract\`,
\`src/testing\`, \`examples/provider\`). A case marked ✓ runs on the provider and must pass. A number refers to
the reason below the table why a case is skipped there; it follows from the capabilities above.`

export function providersPage(cases: readonly ContractCase[]): string {
  const names = Object.keys(LEVELS) as (keyof typeof LEVELS)[]
  const reasons: string[] = []
  const cell = (one: ContractCase, name: keyof typeof LEVELS): string => {
    const reason = skipReason(one, LEVELS[name])
    if (reason === undefined) return '✓'
    if (!reasons.includes(reason)) reasons.push(reason)
    return String(reasons.indexOf(reason) + 1)
  }
  const levels = Object.keys(LEVELS.crun) as (keyof Levels)[]
  const said = (level: string | boolean): string =>
    typeof level === 'boolean' ? (level ? 'yes' : 'no') : level
  const can = levels.map((key) => row([`\`${key}\``, ...names.map((name) => said(LEVELS[name][key]))]))
  const results = cases.map((one) => row([one.name, ...names.map((name) => cell(one, name))]))
  const parts = [
    INTRODUCTION,
    [...head('capability', names), ...can].join('\n'),
    RESULTS,
    [...head('case', names), ...results].join('\n'),
    reasons.map((reason, i) => `${i + 1}. ${reason}`).join('\n'),
  ]
  return `${parts.join('\n\n')}\n`
}

export function skipReason(one: ContractCase, levels: Levels): string | undefined {
  return one.needs?.({ ...levels, notes: [] })
}

function head(first: string, names: readonly string[]): string[] {
  return [row([first, ...names]), row(['---', ...names.map(() => '---')])]
}

function row(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`
}
