/** Qwen Code, which speaks the Agent Client Protocol itself. */
import { acpDriver } from './acp.ts'
import type { Agent } from './agent.ts'
import type { Assignment, Credential, Launch } from './assignment.ts'
import { LIKE_OPENAI } from './credentials.ts'
import { BUILD_NODE } from './install.ts'
import { type Json, textAt } from './json.ts'
import { keyAs } from './key-variable.ts'

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

export const qwen: Agent = {
  name: 'qwen',
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
  interactive: (assignment) =>
    launch(assignment, assignment.session === undefined ? [] : ['--resume', assignment.session]),
}

function launch(assignment: Assignment, words: readonly string[]): Launch {
  const { directory, model, asks, baseUrl, credential } = assignment
  const command = [
    `${directory}/node/bin/node`,
    `${directory}/${PROGRAM}`,
    ...words,
    '--auth-type',
    'openai',
    '--approval-mode',
    asks ? 'default' : 'yolo',
  ]
  return {
    command: keyAs(LIKE_OPENAI.variable, credential.variable, command),
    variables: {
      OPENAI_BASE_URL: baseUrl,
      OPENAI_MODEL: model ?? MODELS[credential.variable] ?? 'qwen3-coder-plus',
      QWEN_CODE_NO_RELAUNCH: 'true',
    },
    files: [{ path: '.qwen/settings.json', content: `${JSON.stringify(settingsOf(assignment), null, 2)}\n` }],
  }
}

function settingsOf({ asks, mcpServers }: Assignment): unknown {
  return {
    privacy: { usageStatisticsEnabled: false },
    telemetry: { enabled: false },
    general: { disableAutoUpdate: true, disableUpdateNag: true, enableAutoUpdate: false },
    tools: { sandbox: false },
    ui: { enableFollowupSuggestions: false },
    // Left to itself it does not ask about commands that it holds to be harmless.
    ...(asks && { permissions: { ask: ['run_shell_command', 'edit', 'write_file', 'web_fetch'] } }),
    // SECURITY: a project that is not trusted cannot allow itself what is to be asked about. It has no servers either.
    security: {
      auth: { selectedType: 'openai' },
      folderTrust: { enabled: asks && mcpServers.length === 0 },
    },
  }
}

function mcpTool(call: Json): string | undefined {
  const [, server, tool] = /^mcp__(.+?)__(.+)$/.exec(textAt(call, '_meta', 'toolName') ?? '') ?? []
  return server === undefined || tool === undefined ? undefined : `${server}/${tool}`
}
