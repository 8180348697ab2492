/** The words that agents go by, for whoever has to know one when they see it and nothing more. */
const NAMES = [
  'claude',
  'codex',
  'opencode',
  'gemini',
  'qwen',
  'copilot',
  'pi',
  'cline',
  'continue',
  'aider',
  'custom',
  'acp',
] as const

/** Other words for them that people use. */
export const ALIASES: Readonly<Record<string, (typeof NAMES)[number]>> = {
  'claude-code': 'claude',
  'codex-cli': 'codex',
  'open-code': 'opencode',
  'gemini-cli': 'gemini',
  'qwen-code': 'qwen',
  'copilot-cli': 'copilot',
  'github-copilot': 'copilot',
  cn: 'continue',
}

/** `agent` is whichever works here by default. */
export const AGENT_NAMES: ReadonlySet<string> = new Set([...NAMES, ...Object.keys(ALIASES), 'agent'])
