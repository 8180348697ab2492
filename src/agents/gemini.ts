/** Gemini CLI, which speaks the Agent Client Protocol itself. */
import { acpDriver } from './acp.ts'
import type { Agent } from './agent.ts'
import type { Assignment, Credential, Launch } from './assignment.ts'
import { BUILD_NODE } from './install.ts'
import { type Json, textAt } from './json.ts'

const KEY: Credential = {
  variable: 'GEMINI_API_KEY',
  title: 'an API key of Google AI',
  baseUrl: 'https://generativelanguage.googleapis.com',
  baseUrlVariable: 'GOOGLE_GEMINI_BASE_URL',
  header: 'x-goog-api-key',
  scheme: { kind: 'bare' },
}

const PROGRAM = 'node_modules/@google/gemini-cli/bundle/gemini.js'

export const gemini: Agent = {
  name: 'gemini',
  title: 'Gemini CLI',
  coAuthor: { name: 'Gemini CLI', email: 'noreply@google.com' },
  install: { kind: 'npm', node: BUILD_NODE, packages: ['@google/gemini-cli@0.61.0'] },
  credentials: [KEY],
  driver: acpDriver({
    modes: { bypass: ['yolo'], asking: ['default'] },
    titleIsCommand: true,
    replaysLate: true,
    mcpTool,
  }),
  canAsk: true,
  canResume: true,
  takesMcp: true,
  launch: (assignment) => launch(assignment, ['--acp'], assignment.session !== undefined),
  interactive: (assignment) =>
    launch(
      assignment,
      assignment.session === undefined ? [] : ['--resume', assignment.session],
      assignment.session !== undefined,
    ),
}

function launch(assignment: Assignment, words: readonly string[], isResumed: boolean): Launch {
  const { directory, model, asks, baseUrl, mcpServers } = assignment
  const command = [
    `${directory}/node/bin/node`,
    `${directory}/${PROGRAM}`,
    ...words,
    ...(model === undefined ? [] : ['--model', model]),
    '--approval-mode',
    asks ? 'default' : 'yolo',
    // SECURITY: a project that is not trusted cannot allow itself what is to be asked about. It has no servers either.
    ...(asks && mcpServers.length === 0 ? [] : ['--skip-trust']),
  ]
  return {
    command: isResumed ? ['/bin/sh', '-c', RENAMED, ...command] : command,
    variables: {
      GEMINI_CLI_NO_RELAUNCH: 'true',
      ...(baseUrl !== KEY.baseUrl && { GOOGLE_GEMINI_BASE_URL: baseUrl }),
    },
    files: [
      { path: '.gemini/settings.json', content: `${JSON.stringify(SETTINGS, null, 2)}\n` },
      { path: '.gemini/policies/agentpod.toml', content: asks ? ASKED : '' },
    ],
  }
}

/**
 * Its records are named after the minute in which they begin. A process that takes one up in that same minute writes an empty one over it before it
 * reads, so that they are given an older name first.
 */
const RENAMED = `for file in "$HOME"/.gemini/tmp/*/chats/session-*; do
  [ ! -e "$file" ] || mv -f "$file" "\${file%/*}/session-2020-01-01T00-00-\${file##*-}"
done
exec "$0" "$@"`

/** Left to itself it does not ask about commands that it holds to be harmless. */
const ASKED = ['run_shell_command', 'write_file', 'replace', 'web_fetch']
  .map((tool) => `[[rule]]\ntoolName = "${tool}"\ndecision = "ask_user"\npriority = 900\n`)
  .join('\n')

const SETTINGS = {
  security: { auth: { selectedType: 'gemini-api-key' } },
  privacy: { usageStatisticsEnabled: false },
  telemetry: { enabled: false },
  general: { disableAutoUpdate: true, disableUpdateNag: true, enableAutoUpdate: false },
  tools: { sandbox: false },
}

/** The call's id begins with the tool's name, and tools of servers are named `mcp_server_tool`. */
function mcpTool(call: Json): string | undefined {
  const [, name] = /^mcp_(.+?)__call/.exec(textAt(call, 'toolCallId') ?? '') ?? []
  if (name === undefined) return undefined
  const [server = '', ...tool] = name.split('_')
  return `${server}/${tool.join('_')}`
}
