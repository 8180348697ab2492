/** Qwen Code, which speaks the Agent Client Protocol itself. */

import { type JsonObject, stringAt } from '../../util/untrusted-json.ts'
import type { Agent } from '../agent.ts'
import type { Assignment, Credential, Launch } from '../assignment.ts'
import { LIKE_OPENAI } from '../credentials.ts'
import { acpDriver } from '../drivers/acp/acp-driver.ts'
import { prefixedToolName } from '../drivers/output/mcp-name.ts'
import { BUILD_NODE } from '../install.ts'
import { keyAs } from '../key-variable.ts'

const ALIBABA: Credential = {
  ...LIKE_OPENAI,
  variable: 'DASHSCOPE_API_KEY',
  title: 'an API key of Alibaba Cloud',
  baseUrl: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
  baseUrlVariable: 'DASHSCOPE_BASE_URL',
}

const MODELS: Readonly<Record<string, string>> = {
  [ALIBABA.variable]: 'qwen3-coder-plus',
  [LIKE_OPENAI.variable]: 'gpt-5.5',
}
const PROGRAM = 'node_modules/@qwen-code/qwen-code/cli.js'
const OVERRIDES_FILE = '.qwen/agentpod-overrides.json'

export const qwen: Agent = {
  name: 'qwen',
  aliases: ['qwen-code'],
  title: 'Qwen Code',
  coAuthor: { name: 'Qwen-Coder', email: 'noreply@alibabacloud.com' },
  install: { kind: 'npm', node: BUILD_NODE, packages: ['@qwen-code/qwen-code@0.24.4'] },
  credentials: [ALIBABA, LIKE_OPENAI],
  driver: acpDriver({
    modes: { bypass: ['yolo'], asking: ['default'] },
    counting: { input: 'whole', per: 'each' },
    mcpTool,
  }),
  canAsk: true,
  canResume: true,
  takesMcp: true,
  launch: (assignment) => launch(assignment, ['--acp']),
  interactive(assignment) {
    const { session, workspace } = assignment
    const own = launch(assignment, session === undefined ? [] : ['--resume', session])
    // On a terminal it asks the user whether to trust the project. SECURITY: no, for the reason below.
    const trust = {
      path: '.qwen/trustedFolders.json',
      content: `${JSON.stringify({ [workspace]: 'DO_NOT_TRUST' })}\n`,
    }
    return { ...own, files: [...own.files, trust] }
  },
}

function launch(assignment: Assignment, words: readonly string[]): Launch {
  const { directory, home, model, asks, baseUrl, credential, mcpServers } = assignment
  const command = [
    `${directory}/node/bin/node`,
    `${directory}/${PROGRAM}`,
    ...words,
    '--auth-type',
    'openai',
    '--approval-mode',
    asks ? 'default' : 'yolo',
    // SECURITY: MCP servers of a trusted project are not started.
    ...(asks ? mcpServers.flatMap(({ name }) => ['--allowed-mcp-server-names', name]) : []),
  ]
  return {
    command: keyAs(LIKE_OPENAI.variable, credential.variable, command),
    variables: {
      OPENAI_BASE_URL: baseUrl,
      OPENAI_MODEL: model ?? MODELS[credential.variable] ?? 'qwen3-coder-plus',
      QWEN_CODE_NO_RELAUNCH: 'true',
      ...(asks && { QWEN_CODE_SYSTEM_SETTINGS_PATH: `${home}/${OVERRIDES_FILE}` }),
    },
    files: [
      { path: '.qwen/settings.json', content: `${JSON.stringify(settingsOf(assignment), null, 2)}\n` },
      { path: OVERRIDES_FILE, content: `${JSON.stringify(asks ? OVERRIDES : {}, null, 2)}\n` },
    ],
  }
}

/**
 * By default it does not ask about commands that it considers harmless, or about tools of MCP servers that
 * the project trusts.
 */
const ASKED = { ask: ['run_shell_command', 'edit', 'write_file', 'web_fetch', 'mcp__*'] }

/**
 * SECURITY: overrides the settings of a trusted project: its hooks and discovered tools are commands that run
 * without a question.
 */
const OVERRIDES = {
  permissions: ASKED,
  disableAllHooks: true,
  tools: { discoveryCommand: '', callCommand: '' },
  mcp: { serverCommand: '' },
}

function settingsOf({ asks, mcpServers }: Assignment): unknown {
  return {
    privacy: { usageStatisticsEnabled: false },
    telemetry: { enabled: false },
    general: { disableAutoUpdate: true, disableUpdateNag: true, enableAutoUpdate: false },
    tools: { sandbox: false },
    ui: { enableFollowupSuggestions: false },
    ...(asks && { permissions: ASKED }),
    // SECURITY: an untrusted project cannot allow what must be asked about. Its MCP servers are not started
    // either.
    security: {
      auth: { selectedType: 'openai' },
      folderTrust: { enabled: asks && mcpServers.length === 0 },
    },
  }
}

function mcpTool(call: JsonObject, servers: readonly string[]): string | undefined {
  return prefixedToolName(stringAt(call, '_meta', 'toolName'), servers)
}
