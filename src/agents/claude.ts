/** Claude Code, through its adapter for the Agent Client Protocol. */
import { acpDriver } from './acp.ts'
import type { Agent } from './agent.ts'
import type { AgentFile, Assignment, Credential, Launch } from './assignment.ts'
import { clip } from './clip.ts'
import { ANTHROPIC } from './credentials.ts'
import { BUILD_NODE } from './install.ts'
import { type Json, textAt } from './json.ts'
import { prefixedName } from './mcp-name.ts'

/** Of gateways that want a bearer. */
const TOKEN: Credential = {
  ...ANTHROPIC,
  variable: 'ANTHROPIC_AUTH_TOKEN',
  title: 'a token for a gateway',
  header: 'authorization',
  scheme: { kind: 'prefix', prefix: 'Bearer' },
}
/** `claude setup-token` prints it. It is for Anthropic's own hosts only. */
const SUBSCRIPTION: Credential = {
  variable: 'CLAUDE_CODE_OAUTH_TOKEN',
  title: 'a Claude subscription',
  baseUrl: 'https://api.anthropic.com',
  header: 'authorization',
  scheme: { kind: 'prefix', prefix: 'Bearer' },
}

const ADAPTER = 'node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js'
/** What its list of sessions has room for. */
const LONGEST_SESSION_TITLE = 80
const ASKING_FILE = '.claude/agentpod-asks.mjs'

export const claude: Agent = {
  name: 'claude',
  title: 'Claude Code',
  coAuthor: { name: 'Claude', email: 'noreply@anthropic.com' },
  install: {
    kind: 'npm',
    node: BUILD_NODE,
    packages: ['@agentclientprotocol/claude-agent-acp@0.99.1', '@anthropic-ai/claude-agent-sdk@0.3.312'],
    programs: { claude: '@anthropic-ai/claude-agent-sdk-linux-{arch}/claude' },
  },
  credentials: [ANTHROPIC, TOKEN, SUBSCRIPTION],
  driver: acpDriver({
    modes: { bypass: ['bypassPermissions'], asking: ['default'] },
    mcpTool,
    // Without a title the adapter asks the model for one, and that request costs money.
    sessionMeta: (prompt) => ({ claudeCode: { options: { title: titleOf(prompt) } } }),
    ended(output) {
      const [all, code] = /^Exit code (\d{1,3})(?:\n|$)/.exec(output) ?? []
      return all === undefined ? { output } : { output: output.slice(all.length), exitCode: Number(code) }
    },
  }),
  canAsk: true,
  canResume: true,
  takesMcp: true,
  launch(assignment) {
    const { directory, home, asks } = assignment
    const { variables, files } = surroundings(assignment)
    return {
      command: [
        `${directory}/node/bin/node`,
        ...(asks ? ['--import', `${home}/${ASKING_FILE}`] : []),
        `${directory}/${ADAPTER}`,
      ],
      variables,
      files: [...files, ...(asks ? [{ path: ASKING_FILE, content: ASKING }] : [])],
    }
  },
  interactive: (assignment) => ({
    command: [
      '/bin/sh',
      '-c',
      KNOWN_KEY,
      `${assignment.directory}/bin/claude`,
      // Left to itself it has a model decide what it need not ask about, which costs and is not what was asked for.
      ...(assignment.asks ? ['--permission-mode', 'default'] : ['--dangerously-skip-permissions']),
      ...(assignment.session === undefined ? [] : ['--resume', assignment.session]),
    ],
    // On a terminal it fetches a catalogue of plugins, which would be refused and told to whoever took over.
    variables: {
      ...surroundings(assignment).variables,
      CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL: '1',
    },
    files: [...surroundings(assignment).files, greeting(assignment)],
  }),
}

function surroundings({ directory, baseUrl, credential, model, asks }: Assignment): Omit<Launch, 'command'> {
  return {
    variables: {
      CLAUDE_CODE_EXECUTABLE: `${directory}/bin/claude`,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_AUTOUPDATER: '1',
      DISABLE_TELEMETRY: '1',
      // Calls that are paid for and that nobody sees: a title for the terminal, and what one might say next.
      CLAUDE_CODE_DISABLE_TERMINAL_TITLE: '1',
      CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION: 'false',
      DISABLE_ERROR_REPORTING: '1',
      // It tries ten times otherwise, for minutes and without a word, even when the key is refused.
      CLAUDE_CODE_MAX_RETRIES: '6',
      // The sandbox is ours: this lets it skip its questions where the user inside is root.
      IS_SANDBOX: '1',
      ...(credential.variable !== SUBSCRIPTION.variable && { ANTHROPIC_BASE_URL: baseUrl }),
      ...(model !== undefined && { ANTHROPIC_MODEL: model }),
    },
    files: [{ path: '.claude/settings.json', content: json(settingsOf(asks)) }],
  }
}

/**
 * SECURITY: a project's own servers and hooks are commands which nobody is asked about, and Claude Code starts them where the project says so. It has words against
 * both, which go before the project's, and its adapter has none, so they are said where the adapter starts it.
 */
const ASKING = `import child_process from 'node:child_process'
import { syncBuiltinESMExports } from 'node:module'

const { spawn } = child_process
child_process.spawn = (program, words, ...rest) => {
  const isIt = program === process.env.CLAUDE_CODE_EXECUTABLE && Array.isArray(words)
  return spawn(program, isIt ? closed(words) : words, ...rest)
}
syncBuiltinESMExports()

function closed(words) {
  const at = words.indexOf('--settings')
  const settings = at < 0 ? {} : JSON.parse(words[at + 1])
  const others = at < 0 ? words : words.toSpliced(at, 2)
  return [...others, '--strict-mcp-config', '--settings', JSON.stringify({ ...settings, disableAllHooks: true })]
}
`

/** SECURITY: left to itself it does not ask about commands that it holds to be harmless, and what a project allows it would not be asked about. */
function settingsOf(asks: boolean): unknown {
  return asks
    ? { permissions: { ask: ['Bash', 'Edit', 'Write', 'NotebookEdit', 'WebFetch', 'mcp__*'] } }
    : { skipDangerousModePermissionPrompt: true }
}

/** It asks whether a key that it finds is meant, unless it knows the end of it. */
const KNOWN_KEY = `key=$(printf %s "\${ANTHROPIC_API_KEY-}" | tail -c 20)
sed -i "s/@key@/$key/" "$HOME/.claude.json"
exec "$0" "$@"`

/** Without this it greets whoever takes over on a terminal with its first steps, and asks whether the project is to be trusted. */
function greeting({ workspace }: Assignment): AgentFile {
  const project = { hasTrustDialogAccepted: true, hasCompletedProjectOnboarding: true }
  return {
    path: '.claude.json',
    content: json({
      hasCompletedOnboarding: true,
      customApiKeyResponses: { approved: ['@key@'], rejected: [] },
      projects: { [workspace]: project },
    }),
  }
}

/** The first line with words in it. */
function titleOf(prompt: string): string {
  const [line = ''] = prompt.trim().split('\n', 1)
  return clip(line.trim(), LONGEST_SESSION_TITLE) || 'AgentPod'
}

function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}

/** It names such tools `mcp__server__tool`, and a question about one says which server it is. */
function mcpTool(call: Json, servers: readonly string[]): string | undefined {
  const name = textAt(call, '_meta', 'claudeCode', 'toolName') ?? textAt(call, 'name')
  const server = textAt(call, '_meta', 'claudeCode', 'mcpServer', 'name')
  return prefixedName(name, server === undefined ? servers : [server])
}
