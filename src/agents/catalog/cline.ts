/** Cline's command line, which speaks the Agent Client Protocol itself. */

import type { Agent } from '../agent.ts'
import type { Assignment, Launch } from '../assignment.ts'
import { ANTHROPIC, LIKE_OPENAI } from '../credentials.ts'
import { acpDriver } from '../drivers/acp/acp-driver.ts'
import { joinedToolName } from '../drivers/output/mcp-name.ts'
import { keyAs } from '../key-variable.ts'

const KEY = 'CLINE_API_KEY'
const SETTINGS = '.cline/data/settings'

export const cline: Agent = {
  name: 'cline',
  title: 'Cline',
  coAuthor: { name: 'Cline', email: 'noreply@cline.bot' },
  chatter: ['data.cline.bot', 'otel.cline.bot', 'api.cline.bot', 'models.dev'],
  install: {
    kind: 'npm',
    packages: ['@cline/cli-linux-{arch}@3.0.65'],
    programs: { cline: '@cline/cli-linux-{arch}/bin/cline' },
  },
  credentials: [ANTHROPIC, LIKE_OPENAI],
  driver: acpDriver({
    modes: { bypass: [], asking: [] },
    options: (asks) => ({ auto_approve: asks ? 'false' : 'true' }),
    takesAnyModel: true,
    ignoresMcp: true,
    mcpTool: joinedToolName('__'),
  }),
  canAsk: true,
  canResume: true,
  takesMcp: true,
  launch: (assignment) => launch(assignment, ['--acp']),
  interactive: (assignment) =>
    launch(assignment, ['--tui', ...(assignment.session === undefined ? [] : ['--id', assignment.session])]),
}

function launch(assignment: Assignment, words: readonly string[]): Launch {
  const { directory, credential, asks, model, baseUrl } = assignment
  const isAnthropic = credential.variable === ANTHROPIC.variable
  const provider = isAnthropic ? 'anthropic' : 'openai-compatible'
  const name = model ?? (isAnthropic ? 'claude-sonnet-4-5' : 'gpt-5.5')
  const command = [`${directory}/bin/cline`, ...words, '--auto-approve', String(!asks)]
  const place = baseUrl.replace(/\/+$/, '')
  const settings = {
    provider,
    model: name,
    baseUrl: isAnthropic && !place.endsWith('/v1') ? `${place}/v1` : place,
  }
  const entry = { settings, updatedAt: '2026-01-01T00:00:00.000Z', tokenSource: 'manual' }
  const providers = { version: 1, lastUsedProvider: provider, modes: {}, providers: { [provider]: entry } }
  return {
    command: keyAs(KEY, credential.variable, command),
    variables: { CLINE_PROVIDER: provider, CLINE_MODEL: name, CLINE_NO_AUTO_UPDATE: '1' },
    files: [
      { path: `${SETTINGS}/providers.json`, content: `${JSON.stringify(providers, null, 2)}\n` },
      {
        path: `${SETTINGS}/cline_mcp_settings.json`,
        content: `${JSON.stringify(mcpConfig(assignment), null, 2)}\n`,
      },
    ],
  }
}

/** It does not start MCP servers that the protocol names, so they are in its settings. */
function mcpConfig({ mcpServers }: Assignment): unknown {
  const servers = mcpServers.map(({ name, command, args, env }) => [
    name,
    { command, args, env, disabled: false },
  ])
  return { mcpServers: Object.fromEntries(servers) }
}
