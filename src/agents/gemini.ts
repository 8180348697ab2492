/** Gemini CLI, which speaks the Agent Client Protocol itself. */
import { acpDriver } from './acp.ts'
import type { Agent } from './agent.ts'
import type { Assignment, Credential, Launch } from './assignment.ts'
import { BUILD_NODE } from './install.ts'
import { type Json, textAt } from './json.ts'
import { parted } from './mcp-name.ts'

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
/** Of tools of servers; not put before the name of a server that begins like it. */
const PREFIX = 'mcp_'

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
  launch(assignment) {
    const { asks, mcpServers, session, workspace } = assignment
    // SECURITY: a project that is not trusted cannot allow itself what is to be asked about. It has no servers either.
    const isTrusted = !asks || mcpServers.length > 0
    const own = launch(assignment, ['--acp', ...(isTrusted ? ['--skip-trust'] : [])], session !== undefined)
    if (!asks || !isTrusted) return own
    return { ...own, command: ['/bin/sh', '-c', PLAIN_PROJECT, workspace, ...own.command] }
  },
  interactive(assignment) {
    const { session, workspace } = assignment
    const own = launch(assignment, session === undefined ? [] : ['--resume', session], session !== undefined)
    // It asks whoever sits at a terminal whether the project is to be trusted. SECURITY: no, for the reason above.
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
    // SECURITY: rules of an administrator go before all that a project which has to be trusted says, and its own servers are not started.
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
 * Its records are named after the minute in which they begin. A process that takes one up in that same minute writes an empty one over it before it
 * reads, so that they are given an older name first. One that takes it up later leaves an empty one of a newer name beside it, which must not get that name.
 */
const RENAMED = `for file in "$HOME"/.gemini/tmp/*/chats/session-*; do
  old=\${file%/*}/session-2020-01-01T00-00-\${file##*-}
  if [ ! -e "$file" ] || [ "$file" = "$old" ]; then continue; fi
  if [ -e "$old" ] && [ "$(wc -c <"$old")" -ge "$(wc -c <"$file")" ]; then rm -f "$file"; else mv -f "$file" "$old"; fi
done
exec "$0" "$@"`

/** Left to itself it does not ask about commands that it holds to be harmless, nor about tools of servers that it was told to start. */
const ASKED = ['run_shell_command', 'write_file', 'replace', 'web_fetch', 'mcp_*']
  .map((tool) => `[[rule]]\ntoolName = "${tool}"\ndecision = "ask_user"\npriority = 900\n`)
  .join('\n')

/**
 * SECURITY: a project that has to be trusted brings hooks, servers and commands that find tools, which nobody is asked about, and Gemini takes words against them
 * only from files of root. So where it is to ask, a project whose settings have any of them is refused. What is written with escapes is not read but refused too.
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
 * Tools of servers are named `mcp_server_tool`, and a call's id begins with the tool's name. After it comes `__` and what the model's service calls the
 * call, or, where it calls it nothing, the time and a number.
 */
function mcpTool(call: Json, servers: readonly string[]): string | undefined {
  const id = textAt(call, 'toolCallId') ?? ''
  if (!id.startsWith(PREFIX)) return undefined
  const mark = id.lastIndexOf('__')
  const name = mark > 0 ? id.slice(0, mark) : id.replace(/-\d+-\d+$/, '')
  const known = parted(name.slice(PREFIX.length), '_', servers) ?? parted(name, '_', servers)
  const [server = '', ...tool] = name.slice(PREFIX.length).split('_')
  return known ?? `${server}/${tool.join('_')}`
}
