/** Package managers and build tools that the commands of a project need. */
import type { Machine, ResolvedBase } from '../../../bases/base-kind.ts'
import { baseKind } from '../../../bases/bases.ts'
import type { Finding, FoundTool } from '../../detect/finding.ts'
import { printable } from '../../toml/problem.ts'
import { satisfies } from '../languages/version.ts'
import type { ToolPlan } from '../plan.ts'

/** Tools that npm installs. */
export const NPM_TOOLS: readonly string[] = ['pnpm', 'yarn']

/** The npm package of a tool: from version 2 on, Yarn is in another one. */
export function npmPackage(name: string, version: string | undefined): string {
  return name === 'yarn' && version !== undefined && !/^[\^~v=]*[01](?:\.|$)/.test(version)
    ? '@yarnpkg/cli-dist'
    : name
}

export const PIP_TOOLS: readonly string[] = ['uv', 'poetry', 'pdm', 'pipenv']

/** A version or range, but no URL, path or option of the package manager. */
const TOOL_VERSION = /^[A-Za-z0-9<>=~^!*][A-Za-z0-9 .,_+*^~<>=!|-]{0,63}$/

/** The first tool of each name. An invalid version is dropped with a note. */
export function wantedTools(findings: readonly Finding[]): {
  readonly wanted: readonly FoundTool[]
  readonly refused: readonly string[]
} {
  const tools = new Map<string, FoundTool>()
  const refused: string[] = []
  for (const tool of findings.flatMap((finding) => finding.tools)) {
    const { name, version, evidence } = tool
    if (tools.has(name)) continue
    const isPlain = version === undefined || TOOL_VERSION.test(version)
    tools.set(name, isPlain ? tool : { name, evidence })
    if (!isPlain)
      refused.push(
        `${evidence.file} wants ${name} ${JSON.stringify(printable(version))}, which is not a version; the newest is used`,
      )
  }
  return { wanted: [...tools.values()], refused }
}

export function planTools(
  wanted: readonly FoundTool[],
  resolvedBase: ResolvedBase,
  machine: Machine,
): ToolPlan[] {
  const kind = baseKind(resolvedBase.base)
  return wanted.flatMap((tool): ToolPlan[] => {
    const { name, version, evidence } = tool
    const here = kind.tools.tool(
      machine,
      name,
      (one) => version === undefined || satisfies('tool', one, version),
    )
    if (here) return [{ name, evidence, from: 'base', ...here }]
    if (NPM_TOOLS.includes(name)) return [{ name, version, evidence, from: 'npm' }]
    if (PIP_TOOLS.includes(name)) return [{ name, version, evidence, from: 'pip' }]
    if (kind.tools.isPackaged(resolvedBase, name)) return [{ name, version, evidence, from: 'packages' }]
    return []
  })
}

/** Whether a language without version choice lacks a tool here. */
export function lacksTool({ language, tools }: Finding, there: readonly ToolPlan[]): boolean {
  return language === 'other' && tools.some(({ name }) => !there.some((one) => one.name === name))
}

export function lackingNote({ label, evidence, tools }: Finding): string {
  const names = tools.map(({ name }) => name).join(' and ')
  return `${evidence.file} suggests ${label}, but neither this base nor Debian has its tools: install ${names} on this machine, or with a command under [lifecycle] setup in agentpod.toml`
}
