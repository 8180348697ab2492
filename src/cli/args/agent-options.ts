/** Options of a run of agents. What they mean is in `agent-values.ts`, which is loaded when they are used. */
import type { OptionSpec } from './parse.ts'

export const EXECUTABLES_OPTION = {
  'with-executables': {
    help: 'take files too that run later on this machine, such as hooks and package scripts',
  },
  take: {
    value: 'PATH',
    help: 'of those files take this one, or all below this directory, and leave the others out',
    repeat: true,
  },
} as const satisfies Record<string, OptionSpec>

export const UNCOMMITTED_OPTION = {
  'with-uncommitted': { help: 'commit files too that you had not committed when the run began' },
} as const satisfies Record<string, OptionSpec>

export const BRANCH_OPTION = {
  branch: {
    value: 'TEMPLATE',
    help: 'how branches are called (default agentpod/{slug}-{agent}-{n})',
  },
} as const satisfies Record<string, OptionSpec>

export const AGENT_OPTIONS = {
  agent: {
    short: 'a',
    value: 'NAME[:N]',
    help: 'an agent to put to work, or N of them; several work side by side',
    repeat: true,
  },
  model: { value: 'MODEL', help: 'the model, as the agent calls it' },
  time: { value: 'TIME', help: 'how long it may work, like 15m or 2h (default 1h)' },
  'max-cost': { value: 'USD', help: 'stop it when it has used models for this much, like 2.50' },
  permission: {
    value: 'KIND[:PATTERN]=DECISION',
    help: 'bash, write, mcp or network: ask, allow or deny, like bash=ask or "bash:git push*=deny"',
    repeat: true,
  },
  'answer-time': {
    value: 'TIME',
    help: 'how long a question waits before it is answered with no (default 5m)',
  },
  ask: { help: 'ask before everything that is not denied' },
  mcp: { value: 'FILE', help: 'MCP servers to start inside: JSON with mcpServers', repeat: true },
  clean: { help: 'begin with the last commit, without uncommitted and untracked files' },
  ...BRANCH_OPTION,
  detach: { short: 'd', help: 'print the runs and leave them working; `agentpod follow` watches them' },
  'keep-for': { value: 'TIME', help: 'how long its sandbox is kept for follow-ups (default 7d)' },
  'prompt-file': { value: 'FILE', help: 'the prompt is in this file; - is standard input' },
  'base-url': { value: 'URL', help: 'where the model is asked, such as a gateway' },
  'agent-command': { value: 'COMMAND', help: 'of the agent custom: what is run, by a shell' },
  acp: { help: 'of the agent custom: the command speaks the Agent Client Protocol' },
  ...EXECUTABLES_OPTION,
} as const satisfies Record<string, OptionSpec>
