/**
 * Every agent that AgentPod knows. This is the only list of agents: names, aliases, help, completion and
 * error messages derive from it.
 */
import { invalid } from '../core/error.ts'
import { nearest } from '../util/nearest.ts'
import type { Agent } from './agent.ts'
import { acp } from './catalog/acp.ts'
import { aider } from './catalog/aider.ts'
import { claude } from './catalog/claude.ts'
import { cline } from './catalog/cline.ts'
import { codex } from './catalog/codex.ts'
import { continueCli } from './catalog/continue.ts'
import { copilot } from './catalog/copilot.ts'
import { custom } from './catalog/custom.ts'
import { gemini } from './catalog/gemini.ts'
import { opencode } from './catalog/opencode.ts'
import { pi } from './catalog/pi.ts'
import { qwen } from './catalog/qwen.ts'

export const AGENTS: readonly Agent[] = [
  claude,
  codex,
  opencode,
  gemini,
  qwen,
  copilot,
  cline,
  pi,
  continueCli,
  aider,
  custom,
  acp,
]

/** Stands for the agent that the project or the user has chosen as the default. */
export const DEFAULT_AGENT = 'agent'

const BY_NAME: ReadonlyMap<string, Agent> = new Map(
  AGENTS.flatMap((agent) => [agent.name, ...(agent.aliases ?? [])].map((name) => [name, agent] as const)),
)

/** Every word that names an agent on the command line, in lower case. */
export const AGENT_NAMES: ReadonlySet<string> = new Set([...BY_NAME.keys(), DEFAULT_AGENT])

/** Finds an agent by its name or an alias, in upper or lower case. */
export function agentNamed(name: string): Agent {
  const found = BY_NAME.get(name.toLowerCase())
  if (found) return found
  const similar = nearest(name.toLowerCase(), BY_NAME.keys())
  throw invalid(
    'agent.unknown',
    `there is no agent ${JSON.stringify(name.slice(0, 100))}`,
    similar ? `did you mean ${similar}?` : `there are ${AGENTS.map((agent) => agent.name).join(', ')}`,
  )
}

/**
 * The agent to use with `--acp`: the one that runs the same command over the Agent Client Protocol, if there
 * is one.
 */
export function overAcp(agent: Agent): Agent {
  return agent.acpVariant === undefined ? agent : agentNamed(agent.acpVariant)
}
