/** Gemini CLI, which speaks the Agent Client Protocol itself. */

import { type JsonObject, stringAt } from '../../util/untrusted-json.ts'
import type { Agent } from '../agent.ts'
import type { Assignment, Credential, Launch } from '../assignment.ts'
import { acpDriver } from '../drivers/acp/acp-driver.ts'
import { splitToolName } from '../drivers/output/mcp-name.ts'
import { BUILD_NODE } from '../install.ts'

const KEY: Credential = {
  variable: 'GEMINI_API_KEY',
  title: 'an API key of Google AI',
  baseUrl: 'https://generativelanguage.googleapis.com',
  baseUrlVariable: 'GOOGLE_GEMINI_BASE_URL',
  header: 'x-goog-api-key',
  scheme: { kind: 'bare' },
}

const PROGRAM = 'node_modules/@google/gemini-cli/bundle/gemini.js'
const POLICY = '.gemini/policies/agentpod.toml'
/** Prefix of tools of MCP servers; not added to a server whose name begins with it. */
const PREFIX = 'mcp_'

export const gemini: Agent = {
  name: 'gemini',
  aliases: ['gemini-cli'],
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
  launch(assignment) {
    const { asks, mcpServers, session, workspace } = assignment
    // SECURITY: an untrusted project cannot allow what must be asked about. Its MCP servers are not started
    // either.
    const isTrusted = !asks || mcpServers.length > 0
    const own = launch(assignment, ['--acp', ...(isTrusted ? ['--skip-trust'] : [])], session !== undefined)
    if (!asks || !isTrusted) return own
    return { ...own, command: ['/bin/sh', '-c', PLAIN_PROJECT, workspace, ...own.command] }
  },
  interactive(assignment) {
    const { session, workspace } = assignment
    const own = launch(assignment, session === undefined ? [] : ['--resume', session], session !== undefined)
    // On a terminal it asks the user whether to trust the project. SECURITY: no, for the reason above.
    const trust = {
      path: '.gemini/trustedFolders.json',
      content: `${JSON.stringify({ [workspace]: 'DO_NOT_TRUST' })}\n`,
    }
    return { ...own, files: [...own.files, trust] }
  },
}

function launch(assignment: Assignment, words: readonly string[], isResumed: boolean): Launch {
  const { directory, home, model, asks, baseUrl, mcpServers } = assignment
  const command = [
    `${directory}/node/bin/node`,
    `${directory}/${PROGRAM}`,
    ...words,
    ...(model === undefined ? [] : ['--model', model]),
    '--approval-mode',
    asks ? 'default' : 'yolo',
    // SECURITY: an administrator's rules override those of a trusted project, and its own MCP servers are not
    // started.
    ...(asks ? ['--admin-policy', `${home}/${POLICY}`] : []),
    ...(asks ? mcpServers.flatMap(({ name }) => ['--allowed-mcp-server-names', name]) : []),
  ]
  return {
    command: isResumed ? ['/bin/sh', '-c', RENAMED, ...command] : command,
    variables: {
      GEMINI_CLI_NO_RELAUNCH: 'true',
      ...(baseUrl !== KEY.baseUrl && { GOOGLE_GEMINI_BASE_URL: baseUrl }),
    },
    files: [
      { path: '.gemini/settings.json', content: `${JSON.stringify(SETTINGS, null, 2)}\n` },
      { path: POLICY, content: asks ? ASKED : '' },
    ],
  }
}

/**
 * Session files are named after the minute in which they begin. A process that resumes a session within that
 * minute overwrites the file with an empty one before it reads it, so the file gets an older name first. A
 * process that resumes later leaves an empty file with a newer name beside it, which must not get that older
 * name.
 */
const RENAMED = `for file in "$HOME"/.gemini/tmp/*/chats/session-*; do
  old=\${file%/*}/session-2020-01-01T00-00-\${file##*-}
  if [ ! -e "$file" ] || [ "$file" = "$old" ]; then continue; fi
  if [ -e "$old" ] && [ "$(wc -c <"$old")" -ge "$(wc -c <"$file")" ]; then rm -f "$file"; else mv -f "$file" "$old"; fi
done
exec "$0" "$@"`

/**
 * By default it does not ask about commands that it considers harmless, or about tools of configured MCP
 * servers.
 */
const ASKED = ['run_shell_command', 'write_file', 'replace', 'web_fetch', 'mcp_*']
  .map((tool) => `[[rule]]\ntoolName = "${tool}"\ndecision = "ask_user"\npriority = 900\n`)
  .join('\n')

/**
 * SECURITY: a trusted project can bring hooks, MCP servers and tool discovery commands, which run without a
 * question, and only files of root can turn them off. So if Gemini has to ask, a project with any of these
 * settings is refused. Settings with escape sequences are refused without being read.
 */
const PLAIN_PROJECT = `command -v grep >/dev/null || exit 1
if [ -e "$0/.gemini/extensions" ] || grep -q -e hooks -e Command -e mcpServers -e '[\\]u' "$0/.gemini/settings.json" 2>/dev/null; then
  echo "Gemini cannot be made to ask and be given servers where a project has hooks, servers, commands or extensions of its own in .gemini" >&2
  exit 1
fi
exec "$@"`

const SETTINGS = {
  security: { auth: { selectedType: 'gemini-api-key' } },
  privacy: { usageStatisticsEnabled: false },
  telemetry: { enabled: false },
  general: { disableAutoUpdate: true, disableUpdateNag: true, enableAutoUpdate: false },
  tools: { sandbox: false },
}

/**
 * Tools of MCP servers are named `mcp_server_tool`, and the id of a call begins with the tool's name. Then
 * comes `__` and the id that the model's API gives the call or, without one, the time and a number.
 */
function mcpTool(call: JsonObject, servers: readonly string[]): string | undefined {
  const id = stringAt(call, 'toolCallId') ?? ''
  if (!id.startsWith(PREFIX)) return undefined
  const mark = id.lastIndexOf('__')
  const name = mark > 0 ? id.slice(0, mark) : id.replace(/-\d+-\d+$/, '')
  const known = splitToolName(name.slice(PREFIX.length), '_', servers) ?? splitToolName(name, '_', servers)
  const [server = '', ...tool] = name.slice(PREFIX.length).split('_')
  return known ?? `${server}/${tool.join('_')}`
}
