/** How branches are named: by the caller, the project's file or the user's. */
import { readProjectFile, readUserAgents } from '../../config/config-files.ts'
import type { Home } from '../../core/home.ts'
import { DEFAULT_BRANCH, prefixOf } from '../../sync/git/branch/branch-name.ts'

export function branchTemplate(
  home: Pick<Home, 'root'>,
  directory: string,
  asked?: string | undefined,
): string {
  const template = asked ?? readProjectFile(directory)?.data.agents.branch
  return checkedTemplate(template ?? readUserAgents(home.root).branch ?? DEFAULT_BRANCH)
}

/** Throws for a template that cannot name branches. */
export function checkedTemplate(template: string): string {
  prefixOf(template)
  return template
}
