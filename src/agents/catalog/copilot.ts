/**
 * GitHub Copilot CLI, which speaks the Agent Client Protocol itself, with your own model. A GitHub Copilot
 * subscription does not work yet: it accepts only tokens with GitHub's prefix, and our placeholder has none.
 */

import type { Agent } from '../agent.ts'
import type { Assignment, Credential, Launch } from '../assignment.ts'
import { ANTHROPIC, OPENAI } from '../credentials.ts'
import { acpDriver } from '../drivers/acp/acp-driver.ts'
import { joinedToolName } from '../drivers/output/mcp-name.ts'
import { keyAs } from '../key-variable.ts'

const OWN: Credential = {
  ...OPENAI,
  variable: 'COPILOT_PROVIDER_API_KEY',
  title: 'a key for a model service of your own',
  baseUrlVariable: 'COPILOT_PROVIDER_BASE_URL',
}

export const copilot: Agent = {
  name: 'copilot',
  aliases: ['copilot-cli', 'github-copilot'],
  title: 'GitHub Copilot CLI',
  coAuthor: { name: 'Copilot', email: '223556219+Copilot@users.noreply.github.com' },
  install: {
    kind: 'npm',
    packages: ['@github/copilot-linux-{arch}@1.0.102'],
    programs: { copilot: '@github/copilot-linux-{arch}/copilot' },
  },
  credentials: [OWN, OPENAI, ANTHROPIC],
  driver: acpDriver({
    modes: { bypass: [], asking: [] },
    options: (asks) => ({ allow_all: asks ? 'off' : 'on' }),
    ignoresMcp: true,
    // A question has only the tool's name, so the call before it names the server.
    mcpTool: joinedToolName('-'),
    counting: { input: 'whole' },
    complaint: /^(?:Info: .*)?(Error: .*)/s,
    ended(output) {
      const [all] = /\n?<shellId: \d{1,9} completed with exit code \d{1,3}>$/.exec(output.slice(-100)) ?? []
      return { output: all === undefined ? output : output.slice(0, -all.length) }
    },
  }),
  canAsk: true,
  canResume: true,
  takesMcp: true,
  launch(assignment) {
    const own = launch(assignment, ['--acp'])
    if (!assignment.asks) return own
    return { ...own, command: ['/bin/sh', '-c', WITHOUT_HOOKS, assignment.workspace, ...own.command] }
  },
  interactive(assignment) {
    const { session, workspace } = assignment
    const own = launch(assignment, session === undefined ? [] : [`--resume=${session}`])
    // On a terminal it asks the user whether to trust the project.
    const trust = {
      path: '.copilot/config.json',
      content: `${JSON.stringify({ trustedFolders: [workspace] })}\n`,
    }
    return { ...own, files: [...own.files, trust] }
  },
}

function launch(assignment: Assignment, words: readonly string[]): Launch {
  const { directory, asks, credential } = assignment
  const command = [
    `${directory}/bin/copilot`,
    ...words,
    '--no-auto-update',
    ...(asks ? [] : ['--allow-all-tools', '--allow-all-paths', '--allow-all-urls']),
  ]
  return {
    command: keyAs(OWN.variable, credential.variable, command),
    variables: { COPILOT_AUTO_UPDATE: 'false', ...ownModel(assignment) },
    files: [
      { path: '.copilot/mcp-config.json', content: `${JSON.stringify(mcpConfig(assignment), null, 2)}\n` },
    ],
  }
}

/**
 * SECURITY: hooks of a project are commands that run without a question, one of them can approve everything
 * that Copilot would ask, and no setting turns them off. So if Copilot has to ask, a project with hooks is
 * refused; a person who takes over sees what it does. Settings with escape sequences are refused without
 * being read.
 */
const WITHOUT_HOOKS = `dir=$0
command -v grep >/dev/null || exit 1
while :; do
  found=$(ls -A "$dir/.github/hooks" 2>/dev/null
    cd "$dir" && grep -l -e hooks -e '[\\]u' .github/copilot/settings*.json .claude/settings*.json 2>/dev/null)
  if [ -n "$found" ]; then
    echo "Copilot cannot be made to ask where a project has hooks, in .github/hooks or in settings" >&2
    exit 1
  fi
  [ "$dir" != / ] || break
  dir=$(dirname "$dir")
done
exec "$@"`

/** With these variables Copilot does not contact GitHub. */
function ownModel({ credential, baseUrl, model }: Assignment): Record<string, string> {
  const isAnthropic = credential.variable === ANTHROPIC.variable
  const chosen = model ?? (isAnthropic ? 'claude-sonnet-4-5' : 'gpt-5.5')
  return {
    COPILOT_OFFLINE: 'true',
    COPILOT_PROVIDER_BASE_URL: baseUrl,
    COPILOT_PROVIDER_TYPE: isAnthropic ? 'anthropic' : 'openai',
    ...(!isAnthropic && {
      COPILOT_PROVIDER_WIRE_API: /^gpt-(?:[5-9]|\d\d)/.test(chosen) ? 'responses' : 'completions',
    }),
    COPILOT_MODEL: chosen,
  }
}

/** It does not start MCP servers that the protocol names, so they are in its settings. */
function mcpConfig({ mcpServers, asks }: Assignment): unknown {
  const servers = mcpServers.map(({ name, command, args, env }) => [
    name,
    {
      type: 'local',
      ...(asks ? { command: '/bin/sh', args: ['-c', UNHINTED, command, ...args] } : { command, args }),
      env,
      tools: ['*'],
    },
  ])
  return { mcpServers: Object.fromEntries(servers) }
}

/**
 * SECURITY: it does not ask about tools that their server marks as read-only, and no setting changes that. So
 * if it has to ask, the mark is removed from the server's output. A JSON string cannot contain such a key
 * unescaped, so nothing else is changed. Without a `sed` that writes line by line the server does not start.
 */
const UNHINTED = `sed -u '' </dev/null || exit 1
"$0" "$@" | sed -u 's/"readOnlyHint"/"agentpodHint"/g'`
