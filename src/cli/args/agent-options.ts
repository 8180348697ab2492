/** Options of a run of agents. What they mean is in `agent-values.ts`, which is loaded when they are used. */
import type { OptionSpec } from './parse.ts'

export const EXECUTABLES_OPTION = {
  'with-executables': {
    help: 'include files that would run later on this machine, such as hooks and package scripts',
  },
  take: {
    value: 'PATH',
    help: 'include only this one of those files, or all below this directory',
    repeat: true,
  },
} as const satisfies Record<string, OptionSpec>

export const UNCOMMITTED_OPTION = {
  'with-uncommitted': { help: 'also commit files that were uncommitted when the run began' },
} as const satisfies Record<string, OptionSpec>

export const BRANCH_OPTION = {
  branch: {
    value: 'TEMPLATE',
    help: 'how branches are named (default agentpod/{slug}-{agent}-{n})',
  },
} as const satisfies Record<string, OptionSpec>

export const AGENT_OPTIONS = {
  agent: {
    short: 'a',
    value: 'NAME[:N]',
    help: 'an agent, or N runs of it; several agents run in parallel',
    repeat: true,
  },
  model: { value: 'MODEL', help: 'the model, by the agent’s name for it' },
  time: { value: 'TIME', help: 'how long it may work, like 15m or 2h (default 1h)' },
  'max-cost': {
    value: 'USD',
    help: 'stop it when its model calls have cost this much, in dollars, like 2.50',
  },
  permission: {
    value: 'KIND[:PATTERN]=DECISION',
    help: 'bash, write, mcp or network: ask, allow or deny, like bash=ask or "bash:git push*=deny"',
    repeat: true,
  },
  'answer-time': {
    value: 'TIME',
    help: 'how long a question waits before it is denied (default 5m)',
  },
  ask: { help: 'ask before everything that is not denied' },
  mcp: { value: 'FILE', help: 'MCP servers to start inside: JSON with mcpServers', repeat: true },
  clean: { help: 'start from the last commit, without uncommitted and untracked files' },
  ...BRANCH_OPTION,
  detach: { short: 'd', help: 'print the runs and return; `agentpod follow` watches them' },
  'keep-for': { value: 'TIME', help: 'how long its sandbox is kept for follow-ups (default 7d)' },
  'prompt-file': { value: 'FILE', help: 'read the prompt from this file; - is standard input' },
  'base-url': { value: 'URL', help: 'the address of the model’s API, such as a gateway' },
  'agent-command': { value: 'COMMAND', help: 'agent custom: the command to run, in a shell' },
  acp: { help: 'agent custom: the command speaks the Agent Client Protocol' },
  ...EXECUTABLES_OPTION,
} as const satisfies Record<string, OptionSpec>
