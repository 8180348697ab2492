/** The table `[agents]`: which agent works on the project, how long and for how much, and what it may do unasked. */
import { z } from 'zod'
import type { PermissionKind } from '../../core/permission.ts'
import { about, line, table, time, word } from './values.ts'

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
  .union([decision, table(pattern, decision, 64)])
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
      'What an agent may do inside: without asking, after asking, or not at all. In a pattern `*` is any text, and the longest that fits decides: of commands, paths, `server/tool` or hosts. A project’s file only makes what the user has stricter; what goes beyond that is asked for.',
    ),
  )

export const agentsTable = z.strictObject({
  default: word('an agent’s name')
    .optional()
    .meta(about('The agent that is started when nobody names one, like `"claude"`.', 'none')),
  model: line(200).optional().meta(about('The model, as the agent calls it.', 'the agent’s own choice')),
  time: time('1s', '7d').optional().meta(about('How long an agent may work.', '`"1h"`')),
  max_cost: z
    .number()
    .min(0.01)
    .max(1_000_000)
    .optional()
    .meta(about('For how many dollars it may use models.', 'no limit')),
  branch: line(200)
    .regex(/^[^{}]+\/.*\{n\}/, 'must begin with a directory and have {n}, like "agentpod/{slug}-{agent}-{n}"')
    .optional()
    .meta(
      about(
        'How the branches of runs are called: `{slug}` is a few words of the prompt, `{n}` a number.',
        '`"agentpod/{slug}-{agent}-{n}"`',
      ),
    ),
  permissions: permissionsTable.optional(),
})
