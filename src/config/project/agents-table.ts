/** The table `[agents]`: the agent, its limits in time and money, and what it may do without asking. */
import * as z from 'zod'
import type { PermissionKind } from '../../core/permission.ts'
import { about, durationValue, keyedTable, lineValue, wordValue } from './values.ts'

const decision = z.enum(['ask', 'allow', 'deny'])
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that are refused
const PATTERN = /^[^\u0000-\u001f\u007f]{1,256}$/
const pattern = z.string().regex(PATTERN, 'a pattern is 1 to 256 characters on one line, like "npm test*"')

const WHAT = {
  bash: ['run commands', '`"allow"`'],
  write: ['change files', '`"allow"`'],
  mcp: ['call tools of MCP servers', '`"allow"`'],
  network: ['reach hosts that no rule allows', '`"ask"`'],
} as const satisfies Record<PermissionKind, readonly [string, string]>

const said = z
  .union([decision, keyedTable(pattern, decision, 64)])
  .meta({ kind: '`"ask"`, `"allow"`, `"deny"`, or a table of these by pattern' })

function permission(kind: PermissionKind): z.ZodOptional<typeof said> {
  const [what, absent] = WHAT[kind]
  return said.optional().meta(about(`Whether it may ${what}.`, absent))
}

export const permissionsTable = z
  .strictObject({
    bash: permission('bash'),
    write: permission('write'),
    mcp: permission('mcp'),
    network: permission('network'),
  })
  .meta(
    about(
      'What an agent may do in the sandbox: without asking, after asking, or not at all. Patterns match commands, paths, `server/tool` or hosts; `*` matches any text, and the longest matching pattern decides. A project’s file can only make the user’s settings stricter; anything beyond them needs approval.',
    ),
  )

export const agentsTable = z.strictObject({
  default: wordValue('an agent’s name')
    .optional()
    .meta(about('The agent to start when the command names none, such as `"claude"`.', 'none')),
  model: lineValue(200)
    .optional()
    .meta(about('The model, by the agent’s name for it.', 'the agent’s own choice')),
  time: durationValue('1s', '7d').optional().meta(about('How long an agent may work.', '`"1h"`')),
  max_cost: z
    .number()
    .min(0.01)
    .max(1_000_000)
    .optional()
    .meta(about('How many dollars it may spend on models.', 'no limit')),
  branch: lineValue(200)
    .regex(/^[^{}]+\/.*\{n\}/, 'must begin with a directory and have {n}, like "agentpod/{slug}-{agent}-{n}"')
    .optional()
    .meta(
      about(
        'The names of the branches of runs: `{slug}` is a few words of the prompt, `{n}` a number.',
        '`"agentpod/{slug}-{agent}-{n}"`',
      ),
    ),
  permissions: permissionsTable.optional(),
})
