/** OpenCode, which speaks the Agent Client Protocol itself. */

import type { Agent } from '../agent.ts'
import type { Assignment, Credential, Launch } from '../assignment.ts'
import { ANTHROPIC, OPENAI } from '../credentials.ts'
import { acpDriver } from '../drivers/acp/acp-driver.ts'
import { joinedToolName } from '../drivers/output/mcp-name.ts'

const OPENROUTER: Credential = {
  ...OPENAI,
  variable: 'OPENROUTER_API_KEY',
  title: 'an API key of OpenRouter',
  baseUrl: 'https://openrouter.ai/api/v1',
  baseUrlVariable: undefined,
}

/** OpenCode's name of the provider that a key is for. */
const PROVIDERS: Readonly<Record<string, string>> = {
  [ANTHROPIC.variable]: 'anthropic',
  [OPENAI.variable]: 'openai',
  [OPENROUTER.variable]: 'openrouter',
}

export const opencode: Agent = {
  name: 'opencode',
  aliases: ['open-code'],
  title: 'OpenCode',
  coAuthor: { name: 'opencode', email: 'noreply@opencode.ai' },
  chatter: ['models.opencode.ai', 'models.dev'],
  install: {
    kind: 'npm',
    packages: ['opencode-linux-{arch}@1.18.33'],
    programs: { opencode: 'opencode-linux-{arch}/bin/opencode' },
  },
  credentials: [ANTHROPIC, OPENAI, OPENROUTER],
  driver: acpDriver({
    modes: { bypass: [], asking: [] },
    counting: { per: 'last' },
    mcpTool: joinedToolName('_'),
  }),
  canAsk: true,
  canResume: true,
  takesMcp: true,
  launch: (assignment) => ({
    command: [`${assignment.directory}/bin/opencode`, 'acp'],
    ...surroundings(assignment),
  }),
  interactive: (assignment) => ({
    command: [
      `${assignment.directory}/bin/opencode`,
      ...(assignment.session === undefined ? [] : ['--session', assignment.session]),
    ],
    ...surroundings(assignment),
  }),
}

function surroundings(assignment: Assignment): Omit<Launch, 'command'> {
  return {
    variables: {
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
      OPENCODE_DISABLE_SHARE: '1',
      // SECURITY: the project's own settings could allow what must be asked about.
      ...(assignment.asks && { OPENCODE_DISABLE_PROJECT_CONFIG: '1' }),
    },
    files: [
      {
        path: '.config/opencode/opencode.json',
        content: `${JSON.stringify(configOf(assignment), null, 2)}\n`,
      },
    ],
  }
}

/**
 * Of its own tools only those that change nothing run without a question; tools of MCP servers have other
 * names.
 */
const ASKING = {
  '*': 'ask',
  ...Object.fromEntries(
    [
      'read',
      'glob',
      'grep',
      'list',
      'lsp',
      'todoread',
      'todowrite',
      'skill',
      'task',
      'question',
      'doom_loop',
    ].map((tool) => [tool, 'allow']),
  ),
}

function configOf({ credential, baseUrl, model, asks }: Assignment): unknown {
  const provider = PROVIDERS[credential.variable] ?? 'anthropic'
  const chosen = model === undefined ? undefined : withProvider(model, provider)
  return {
    $schema: 'https://opencode.ai/config.json',
    autoupdate: false,
    share: 'disabled',
    // A gateway may have no other model than the one that is named.
    ...(chosen !== undefined && { model: chosen, small_model: chosen }),
    enabled_providers: [provider],
    provider: {
      [provider]: {
        options: {
          baseURL: provider === 'anthropic' ? withVersion(baseUrl) : baseUrl,
          apiKey: `{env:${credential.variable}}`,
        },
        // Declares a model that OpenCode does not know.
        ...(chosen !== undefined && { models: { [chosen.slice(provider.length + 1)]: {} } }),
      },
    },
    permission: asks ? ASKING : 'allow',
  }
}

function withProvider(model: string, provider: string): string {
  return model.startsWith(`${provider}/`) ? model : `${provider}/${model}`
}

/** Claude Code expects the address without the API version, OpenCode with it. */
function withVersion(baseUrl: string): string {
  const place = baseUrl.replace(/\/+$/, '')
  return place.endsWith('/v1') ? place : `${place}/v1`
}
