/**
 * The settings of a run: the request, then the project's file, then the user's. A project's file only
 * narrows.
 */
import { realpathSync } from 'node:fs'
import { readProjectFile, readUser, readUserAgents } from '../../config/config-files.ts'
import { Approvals } from '../../config/grants/approvals.ts'
import { combine } from '../../config/grants/combine.ts'
import { narrowPermissions, withDefaultPermissions } from '../../config/grants/permissions.ts'
import { onlyGranted, type ProjectData, projectWish } from '../../config/project/data.ts'
import { applyProfile } from '../../config/project/profiles.ts'
import { invalid } from '../../core/error.ts'
import type { PermissionRules } from '../../core/permission.ts'
import { DEFAULT_BRANCH } from '../../sync/git/branch/branch-name.ts'
import type { Workbench } from '../workbench.ts'
import type { AgentRequest } from './agent-request.ts'
import { checkedTemplate } from './branch-template.ts'

export interface AgentSettings {
  /** The agent that works when the request names none. */
  readonly agent: string | undefined
  readonly model: string | undefined
  readonly timeMs: number | undefined
  readonly maxCostUsd: number | undefined
  readonly branch: string
  /** What the files allow. Read late, because the user may approve the project's wishes meanwhile. */
  readonly permissions: () => PermissionRules
}

/** `directory` is the root of the project. */
export function agentSettings(
  bench: Pick<Workbench, 'home'>,
  request: Pick<AgentRequest, 'model' | 'timeMs' | 'maxCostUsd' | 'branch' | 'profile'>,
  directory: string,
): AgentSettings {
  const user = readUserAgents(bench.home.root)
  const project = projectIn(directory, request.profile)
  const wish = project?.agents
  return {
    agent: wish?.default ?? user.default,
    model: request.model ?? wish?.model ?? user.model,
    timeMs: request.timeMs ?? lower(wish?.timeMs, user.timeMs),
    maxCostUsd: request.maxCostUsd ?? lower(wish?.maxCostUsd, user.maxCostUsd),
    branch: checkedTemplate(request.branch ?? wish?.branch ?? user.branch ?? DEFAULT_BRANCH),
    permissions: () => narrowed(bench, directory, withDefaultPermissions(user.permissions), project),
  }
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

/** SECURITY: CF-02. Of what the project's file asks for, only what the user approved counts. */
function narrowed(
  { home }: Pick<Workbench, 'home'>,
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

/** The lower of two limits: a project cannot raise the user's. */
function lower(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)
}
