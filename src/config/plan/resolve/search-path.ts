/** Directories that a plan puts before the PATH, and where it installs tools. */
import type { Finding, Language } from '../../detect/finding.ts'
import { printable } from '../../toml/problem.ts'
import type { LanguagePlan, ToolPlan } from '../plan.ts'
import { withWorkspace } from './workspace-path.ts'

/** Directories that are on every PATH. */
export const SYSTEM = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/** A colon would split the directory in two, a line end would split the line. */
const DIRECTORY = /^\/[^:\p{Cc}]{0,1000}$/u

const MOST_DIRECTORIES = 64

export function planSearchPath(
  languages: readonly LanguagePlan[],
  tools: readonly ToolPlan[],
  findings: readonly Pick<Finding, 'path'>[],
  workspace: string,
  more: readonly string[] = [],
): { readonly directories: string[]; readonly refused: readonly string[] } {
  const all = [
    ...new Set([
      ...findings.flatMap(({ path = [] }) => path.map((one) => withWorkspace(one, workspace))),
      TOOLS_BIN,
      ...more,
      ...languages.flatMap(({ language, source: one }) => toolchainDirectories(language, one)),
      ...tools.flatMap(({ directory }) => directory ?? []),
    ]),
  ].filter((directory) => !SYSTEM.includes(directory))
  const fit = all.filter((directory) => DIRECTORY.test(directory))
  const odd = all.filter((directory) => !DIRECTORY.test(directory))
  return {
    // If there are too many, the directories of the languages stay.
    directories: fit.length <= MOST_DIRECTORIES ? fit : fit.slice(-MOST_DIRECTORIES),
    refused: odd.map((directory) => `${printable(directory, 200)} cannot be on the PATH`),
  }
}

/** The directory for installed tools and packages. */
export const TOOLS = '/opt/agentpod/tools'

export const TOOLS_BIN = `${TOOLS}/bin`

export function toolchainDirectories(language: Language, one: LanguagePlan['source']): string[] {
  switch (one.kind) {
    case 'there':
      return [one.directory]
    case 'packaged':
      return one.tool.directory ? [one.tool.directory] : []
    case 'own':
      return []
    default:
      return [`/opt/agentpod/${language}-${one.version}/bin`]
  }
}
