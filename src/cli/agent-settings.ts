/** What the command line, the project and the user say about a run of agents: the nearest word holds, and a project only narrows. */
import { realpathSync } from 'node:fs'
import { Approvals } from '../config/approvals.ts'
import { combine } from '../config/combine.ts'
import { readProjectFile, readUser, readUserAgents } from '../config/files.ts'
import { narrowPermissions, onDefaults } from '../config/permissions.ts'
import { onlyGranted, type ProjectData, projectWish } from '../config/project/data.ts'
import { applyProfile } from '../config/project/profiles.ts'
import { invalid } from '../core/error.ts'
import type { PermissionRules } from '../core/permission.ts'
import { DEFAULT_BRANCH, prefixOf } from '../sync/git/branch-name.ts'
import { type AgentValues, agentValues } from './args/agent-values.ts'
import type { Parsed } from './args/parse.ts'
import type { CommandContext } from './command.ts'

export interface AgentSettings extends AgentValues {
  /** Who works when nobody is named. */
  readonly agent: string | undefined
  readonly branch: string
  /** What the files allow. Asked for late: the project's wishes may be granted meanwhile. */
  readonly permissions: () => PermissionRules
}

/** `directory` is the top of the project. */
export function agentSettings(ctx: CommandContext, parsed: Parsed, directory: string): AgentSettings {
  const values = agentValues(parsed)
  const user = readUserAgents(ctx.home.root)
  const project = projectIn(directory, parsed.value('profile'))
  const wish = project?.agents
  return {
    ...values,
    agent: wish?.default ?? user.default,
    model: values.model ?? wish?.model ?? user.model,
    timeMs: values.timeMs ?? least(wish?.timeMs, user.timeMs),
    maxCostUsd: values.maxCostUsd ?? least(wish?.maxCostUsd, user.maxCostUsd),
    branch: checked(values.branch ?? wish?.branch ?? user.branch ?? DEFAULT_BRANCH),
    permissions: () => narrowed(ctx, directory, onDefaults(user.permissions), project),
  }
}

/** How branches are called where nobody starts a run: by the option, the project's file or the user's. */
export function branchTemplate({ home }: CommandContext, parsed: Parsed, directory: string): string {
  const said = parsed.value('branch') ?? readProjectFile(directory)?.data.agents.branch
  return checked(said ?? readUserAgents(home.root).branch ?? DEFAULT_BRANCH)
}

function checked(template: string): string {
  prefixOf(template)
  return template
}

function projectIn(directory: string, profile: string | undefined): ProjectData | undefined {
  const data = readProjectFile(directory)?.data
  if (profile === undefined) return data
  if (data !== undefined) return applyProfile(data, profile)
  throw invalid(
    'option.profile',
    `there is no profile ${JSON.stringify(profile)}: this project has no agentpod.toml`,
    '`agentpod init` writes one; or leave --profile out',
  )
}

/** SECURITY: CF-02. What was put to the user is had as far as it was granted. */
function narrowed(
  { home }: CommandContext,
  directory: string,
  rules: PermissionRules,
  project: ProjectData | undefined,
): PermissionRules {
  if (!project) return rules
  const approvals = new Approvals(home.root)
  const place = realpathSync(directory)
  const { wish } = combine(readUser(home.root), projectWish(project), (hash) => approvals.has(hash, place))
  const granted = wish.privileges?.permissions ?? []
  return narrowPermissions(rules, onlyGranted(project, wish).agents.permissions, granted)
}

/** Of two limits the lower one: a project cannot raise the user's. */
function least(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)
}
