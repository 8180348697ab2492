/**
 * GitHub Copilot CLI, which speaks the Agent Client Protocol itself, with a model of one's own. A subscription of GitHub is of no use yet: it only takes
 * tokens that begin as GitHub's do, which a placeholder does not.
 */
import { acpDriver } from './acp.ts'
import type { Agent } from './agent.ts'
import type { Assignment, Credential, Launch } from './assignment.ts'
import { ANTHROPIC, OPENAI } from './credentials.ts'
import { keyAs } from './key-variable.ts'

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
  launch: (assignment) => launch(assignment, ['--acp']),
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
function mcpConfig({ mcpServers }: Assignment): unknown {
  const servers = mcpServers.map(({ name, command, args, env }) => [
    name,
    { type: 'local', command, args, env, tools: ['*'] },
  ])
  return { mcpServers: Object.fromEntries(servers) }
}
