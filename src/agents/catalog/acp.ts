/** Any command that speaks the Agent Client Protocol. */
import type { Agent } from '../agent.ts'
import { acpDriver } from '../drivers/acp/acp-driver.ts'
import { promptVariables } from './custom.ts'

/** Names that agents give to the mode in which they ask nothing. */
const BYPASS_MODES = ['bypassPermissions', 'yolo', 'agent-full-access', 'full-access', 'bypass']

export const acp: Agent = {
  name: 'acp',
  title: 'a command that speaks ACP',
  coAuthor: { name: 'agentpod custom agent', email: 'noreply@example.com' },
  install: { kind: 'none' },
  credentials: [],
  takesCommand: true,
  driver: acpDriver({ modes: { bypass: BYPASS_MODES, asking: ['default', 'ask', 'manual'] } }),
  canAsk: true,
  canResume: true,
  takesMcp: true,
  namesServers: false,
  launch: (assignment) => ({
    command: assignment.command,
    variables: promptVariables(assignment),
    files: [],
  }),
}
