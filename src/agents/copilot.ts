/**
 * GitHub Copilot CLI, which speaks the Agent Client Protocol itself, with a model of one's own. A subscription of GitHub is of no use yet: it only takes
 * tokens that begin as GitHub's do, which a placeholder does not.
 */
import { acpDriver } from './acp.ts'
import type { Agent } from './agent.ts'
import type { Assignment, Credential, Launch } from './assignment.ts'
import { ANTHROPIC, OPENAI } from './credentials.ts'
import { keyAs } from './key-variable.ts'
import { joinedName } from './mcp-name.ts'

const OWN: Credential = {
  ...OPENAI,
  variable: 'COPILOT_PROVIDER_API_KEY',
  title: 'a key for a model service of your own',
  baseUrlVariable: 'COPILOT_PROVIDER_BASE_URL',
}

export const copilot: Agent = {
  name: 'copilot',
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
    // A question has the tool's name alone, so it is the call before it that says whose tool it is.
    mcpTool: joinedName('-'),
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
    // It asks whoever sits at a terminal whether the project is to be trusted.
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
 * SECURITY: hooks of a project are commands that nobody is asked about, one of them can say yes to all that Copilot would ask, and no setting of the user's keeps it from running
 * them. So where it is to ask for us, a project that has some is refused; whoever takes it over sees what it does. What is written with escapes is not read but refused too.
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

/** Then GitHub is not spoken to at all. */
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

/** Servers that it is told of over the protocol it does not start. */
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
 * SECURITY: it calls tools unasked that their server says only read, and nothing that it can be told changes that. So where it is to ask, what a server writes is
 * handed on without that word. A key cannot stand inside of a text of JSON like this, so nothing else is changed. Where there is no `sed` that writes line by line,
 * the server does not start.
 */
const UNHINTED = `sed -u '' </dev/null || exit 1
"$0" "$@" | sed -u 's/"readOnlyHint"/"agentpodHint"/g'`
