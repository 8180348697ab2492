/** Claude Code, through its adapter for the Agent Client Protocol. */

import { type JsonObject, stringAt } from '../../util/untrusted-json.ts'
import type { Agent } from '../agent.ts'
import type { AgentFile, Assignment, Credential, Launch } from '../assignment.ts'
import { ANTHROPIC } from '../credentials.ts'
import { acpDriver } from '../drivers/acp/acp-driver.ts'
import { clip } from '../drivers/output/clip.ts'
import { prefixedToolName } from '../drivers/output/mcp-name.ts'
import { BUILD_NODE } from '../install.ts'

/** For gateways that expect a bearer token. */
const TOKEN: Credential = {
  ...ANTHROPIC,
  variable: 'ANTHROPIC_AUTH_TOKEN',
  title: 'a token for a gateway',
  header: 'authorization',
  scheme: { kind: 'prefix', prefix: 'Bearer' },
}
/** Printed by `claude setup-token`. Only for Anthropic's own hosts. */
const SUBSCRIPTION: Credential = {
  variable: 'CLAUDE_CODE_OAUTH_TOKEN',
  title: 'a Claude subscription',
  baseUrl: 'https://api.anthropic.com',
  header: 'authorization',
  scheme: { kind: 'prefix', prefix: 'Bearer' },
}

const ADAPTER = 'node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js'
/** Longest title in its list of sessions. */
const LONGEST_SESSION_TITLE = 80
const ASKING_FILE = '.claude/agentpod-asks.mjs'

export const claude: Agent = {
  name: 'claude',
  aliases: ['claude-code'],
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
      // By default a model decides what needs no question, which costs money and is not what the rules say.
      ...(assignment.asks ? ['--permission-mode', 'default'] : ['--dangerously-skip-permissions']),
      ...(assignment.session === undefined ? [] : ['--resume', assignment.session]),
    ],
    // On a terminal it downloads a plugin catalogue; the refusal would be shown to the user.
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
      // Turns off paid requests that nobody sees: a terminal title, and suggestions for the next prompt.
      CLAUDE_CODE_DISABLE_TERMINAL_TITLE: '1',
      CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION: 'false',
      DISABLE_ERROR_REPORTING: '1',
      // By default it retries ten times, silently for minutes, even if the key is refused.
      CLAUDE_CODE_MAX_RETRIES: '6',
      // Tells it that it runs in a sandbox, so that it may skip questions as root.
      IS_SANDBOX: '1',
      ...(credential.variable !== SUBSCRIPTION.variable && { ANTHROPIC_BASE_URL: baseUrl }),
      ...(model !== undefined && { ANTHROPIC_MODEL: model }),
    },
    files: [{ path: '.claude/settings.json', content: json(settingsOf(asks)) }],
  }
}

/**
 * SECURITY: a project's own MCP servers and hooks are commands that run without a question. Claude Code has
 * options that turn both off and override the project's settings. Its adapter cannot pass them, so they are
 * added where the adapter starts Claude Code.
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

/**
 * SECURITY: by default it does not ask about commands that it considers harmless, or that the project allows.
 */
function settingsOf(asks: boolean): unknown {
  return asks
    ? { permissions: { ask: ['Bash', 'Edit', 'Write', 'NotebookEdit', 'WebFetch', 'mcp__*'] } }
    : { skipDangerousModePermissionPrompt: true }
}

/** It asks whether to use a key that it finds, unless it knows the last characters of the key. */
const KNOWN_KEY = `key=$(printf %s "\${ANTHROPIC_API_KEY-}" | tail -c 20)
sed -i "s/@key@/$key/" "$HOME/.claude.json"
exec "$0" "$@"`

/** Without this it shows its onboarding when a person takes over, and asks whether to trust the project. */
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

/** The first line that is not empty. */
function titleOf(prompt: string): string {
  const [line = ''] = prompt.trim().split('\n', 1)
  return clip(line.trim(), LONGEST_SESSION_TITLE) || 'AgentPod'
}

function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}

/** Tools of MCP servers are named `mcp__server__tool`, and a question about one names the server. */
function mcpTool(call: JsonObject, servers: readonly string[]): string | undefined {
  const name = stringAt(call, '_meta', 'claudeCode', 'toolName') ?? stringAt(call, 'name')
  const server = stringAt(call, '_meta', 'claudeCode', 'mcpServer', 'name')
  return prefixedToolName(name, server === undefined ? servers : [server])
}
