/** docs/reference/providers.md: what each provider can do, and which cases of the contract that leaves out. */
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
) as Readonly<Record<'crun' | 'docker' | 'fake' | 'example', Levels>>

const INTRODUCTION = `# Providers

Made from \`providers.json\` and the cases of the provider contract by \`test/contract-table.test.ts\`.

| provider | what it is |
|---|---|
| crun | sandboxes of this machine, made by podhost; the default |
| docker | containers of a Docker daemon, local or far |
| fake | sandboxes that are objects, for tests of the server |
| example | [examples/provider](../../examples/provider/README.md), the provider of CONTRIBUTING's page |

What a provider lacks on one machine, \`agentpod provider ls\` says with its reason; \`agentpod provider check NAME\`
says how to get it.

## What each can do

The levels are those of a machine that lacks nothing: for crun all cgroup controllers and a kernel that can redirect
connections, for docker a daemon with the usual storage driver, which limits everything but the disk.`

const RESULTS = `## The contract, side by side

\`npm test\` runs the cases of \`src/testing/provider-contract.ts\` on each provider (\`test/contract\`,
\`src/testing\`, \`examples/provider\`). A case marked ✓ runs on the provider and has to pass. A number is the reason
why a case is skipped there, below the table; it follows from the capabilities above.`

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
