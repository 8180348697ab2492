/** The agents there are. */
import { invalid } from '../core/error.ts'
import { nearest } from '../util/nearest.ts'
import type { Agent } from './agent.ts'
import { aider } from './aider.ts'
import { claude } from './claude.ts'
import { cline } from './cline.ts'
import { codex } from './codex.ts'
import { continueCli } from './continue.ts'
import { copilot } from './copilot.ts'
import { acp, custom } from './custom.ts'
import { gemini } from './gemini.ts'
import { ALIASES } from './names.ts'
import { opencode } from './opencode.ts'
import { pi } from './pi.ts'
import { qwen } from './qwen.ts'

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

export function agentNamed(name: string): Agent {
  const said = name.toLowerCase()
  const own = Object.hasOwn(ALIASES, said) ? ALIASES[said] : said
  const found = AGENTS.find((one) => one.name === own)
  if (found) return found
  const known = AGENTS.map((one) => one.name)
  const meant = nearest(said, [...known, ...Object.keys(ALIASES)])
  throw invalid(
    'agent.unknown',
    `there is no agent ${JSON.stringify(name.slice(0, 100))}`,
    meant ? `did you mean ${meant}?` : `there are ${known.join(', ')}`,
  )
}
