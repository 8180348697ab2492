/** The table `[agents]`: which agent works on the project, and what it may do unasked. */
import { z } from 'zod'
import type { PERMISSIONS } from '../privileges.ts'
import { about, word } from './values.ts'

/** Strictest first. */
export const DECISIONS = ['deny', 'ask', 'allow'] as const
export type Decision = (typeof DECISIONS)[number]
export const DEFAULT_DECISION: Decision = 'ask'

const decision = z.enum(['ask', 'allow', 'deny'])
const WHAT = {
  bash: 'run commands',
  write: 'change files',
  mcp: 'call tools of MCP servers',
  network: 'reach hosts through its own tools',
} as const satisfies Record<(typeof PERMISSIONS)[number], string>

function permission(what: string): z.ZodOptional<typeof decision> {
  return decision
    .optional()
    .meta(about(`Whether it may ${what}; \`"allow"\` is asked for before it holds.`, '`"ask"`'))
}

export const permissionsTable = z
  .strictObject({
    bash: permission(WHAT.bash),
    write: permission(WHAT.write),
    mcp: permission(WHAT.mcp),
    network: permission(WHAT.network),
  })
  .meta(about('What an agent may do inside: without asking, after asking, or not at all.'))

export const agentsTable = z.strictObject({
  default: word('an agent’s name')
    .optional()
    .meta(about('The agent that is started when nobody names one, like `"claude"`.', 'none')),
  permissions: permissionsTable.optional(),
})
