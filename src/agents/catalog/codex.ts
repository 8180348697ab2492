/** Codex, through its adapter for the Agent Client Protocol. */

import { type JsonObject, objectAt, stringAt } from '../../util/untrusted-json.ts'
import type { Agent } from '../agent.ts'
import type { AgentFile, Assignment, Credential, Launch, SignIn } from '../assignment.ts'
import { OPENAI } from '../credentials.ts'
import { acpDriver } from '../drivers/acp/acp-driver.ts'
import { readLine } from '../drivers/output/json.ts'
import { BUILD_NODE } from '../install.ts'

/**
 * The file that `codex login` writes. Only the access token is used, and the sandbox gets only its
 * placeholder. The refresh token stays on the host: using a copy in the sandbox would sign the user out.
 */
const SIGN_IN: SignIn = {
  path: '.codex/auth.json',
  read(text) {
    const file = readLine(text)
    const tokens = objectAt(file, 'tokens')
    const value = stringAt(tokens, 'access_token')
    const identity = stringAt(tokens, 'id_token')
    if (!file || !value || identity === undefined) return undefined
    const files = (placeholder: string): AgentFile[] => [
      {
        path: '.codex/auth.json',
        content: `${JSON.stringify({
          auth_mode: 'chatgpt',
          OPENAI_API_KEY: null,
          tokens: {
            id_token: unsigned(identity),
            access_token: placeholder,
            refresh_token: placeholder,
            ...(stringAt(tokens, 'account_id') !== undefined && {
              account_id: stringAt(tokens, 'account_id'),
            }),
          },
          // A date in the future, so that Codex does not try to refresh the token.
          last_refresh: '2099-01-01T00:00:00Z',
        })}\n`,
      },
    ]
    return { value, files }
  },
}

/** The token names the user's plan. Without its signature it grants nothing. */
function unsigned(token: string): string {
  const [head = '', body = ''] = token.split('.')
  return `${head}.${body}.${Buffer.from('unsigned').toString('base64url')}`
}

const SUBSCRIPTION: Credential = {
  variable: 'CODEX_CHATGPT_TOKEN',
  title: 'a ChatGPT plan',
  baseUrl: 'https://chatgpt.com/backend-api/',
  header: 'authorization',
  scheme: { kind: 'prefix', prefix: 'Bearer' },
  signIn: SIGN_IN,
}

const ADAPTER = 'node_modules/@agentclientprotocol/codex-acp/dist/index.js'
/** The provider that config.toml describes. */
const PROVIDER = 'agentpod'
const ASKING_FILE = '.codex/agentpod-asks.mjs'

export const codex: Agent = {
  name: 'codex',
  aliases: ['codex-cli'],
  title: 'Codex',
  coAuthor: { name: 'Codex', email: 'noreply@openai.com' },
  chatter: ['github.com', 'api.github.com', 'raw.githubusercontent.com', 'chatgpt.com', 'ab.chatgpt.com'],
  install: {
    kind: 'npm',
    node: BUILD_NODE,
    packages: ['@agentclientprotocol/codex-acp@2.6.0', '@openai/codex@0.166.0'],
    programs: { codex: '@openai/codex-linux-{arch}/vendor/{cpu}-unknown-linux-musl/bin/codex' },
  },
  credentials: [OPENAI, SUBSCRIPTION],
  driver: acpDriver({
    modes: { bypass: ['agent-full-access'], asking: ['read-only'] },
    complaint: /^((?:exceeded retry limit|unexpected status|stream disconnected|stream error).*)/s,
    mcpTool,
  }),
  canAsk: true,
  canResume: true,
  takesMcp: true,
  launch: (assignment) => ({
    command: [
      `${assignment.directory}/node/bin/node`,
      ...(assignment.asks ? ['--import', `${assignment.home}/${ASKING_FILE}`] : []),
      `${assignment.directory}/${ADAPTER}`,
    ],
    ...surroundings(assignment),
  }),
  interactive: (assignment) => ({
    command: [
      `${assignment.directory}/bin/codex`,
      ...(assignment.session === undefined ? [] : ['resume', assignment.session]),
    ],
    // Codex shows nothing before the user has answered whether to trust the folder, every time. Trust gives
    // the project no more rights here: on a terminal Codex has no policy that asks and works without its own
    // sandbox.
    ...surroundings(assignment, true),
  }),
}

/**
 * Codex asks about everything only with a policy that its server accepts, but that neither its file nor its
 * adapter can set. Each mode of the adapter either asks about nothing or needs a sandbox inside the sandbox.
 * So the adapter's messages to the server are changed: every turn asks, no turn has its own sandbox, and a
 * refusal is told to the model instead of ending the turn. SECURITY: if this no longer fits a new adapter,
 * the mode that the driver sets stays in force, in which nothing can be written.
 */
const ASKING = `import child_process from 'node:child_process'
import { syncBuiltinESMExports } from 'node:module'

const { spawn } = child_process
child_process.spawn = (program, words, ...rest) => {
  const child = spawn(program, words, ...rest)
  if (Array.isArray(words) && words[0] === 'app-server') {
    const write = child.stdin.write.bind(child.stdin)
    child.stdin.write = (data, ...more) => write(changed(String(data)), ...more)
  }
  return child
}
syncBuiltinESMExports()

function changed(line) {
  let message
  try {
    message = JSON.parse(line)
  } catch {
    return line
  }
  // Permissions of an untrusted project do not count. It asks about tools that call themselves harmless only
  // if told to.
  const config = message?.params?.config
  if (config?.projects) {
    for (const project of Object.values(config.projects)) project.trust_level = 'untrusted'
    for (const server of Object.values(config.mcp_servers ?? {})) server.default_tools_approval_mode = 'prompt'
    return JSON.stringify(message) + '\\n'
  }
  if (message?.method === 'turn/start' && message.params) {
    message.params.approvalPolicy = 'untrusted'
    message.params.sandboxPolicy = { type: 'dangerFullAccess' }
    return JSON.stringify(message) + '\\n'
  }
  for (const word of ['decision', 'action'])
    if (message?.result?.[word] === 'cancel') {
      message.result[word] = 'decline'
      return JSON.stringify(message) + '\\n'
    }
  return line
}
`

function surroundings(assignment: Assignment, isTrusted = !assignment.asks): Omit<Launch, 'command'> {
  const isSignedIn = assignment.credential.variable === SUBSCRIPTION.variable
  return {
    variables: {
      CODEX_PATH: `${assignment.directory}/bin/codex`,
      NO_BROWSER: '1',
      // A configured server overrides the project's server of the same name. By default it would not be
      // started.
      DISABLE_MCP_CONFIG_FILTERING: 'true',
      ...(!isSignedIn && { MODEL_PROVIDER: PROVIDER }),
    },
    files: [
      { path: '.codex/config.toml', content: configOf(assignment, isSignedIn, isTrusted) },
      ...(assignment.asks ? [{ path: ASKING_FILE, content: ASKING }] : []),
    ],
  }
}

/** Its own sandbox is off, because it already runs in one. */
function configOf(
  { asks, model, baseUrl, workspace }: Assignment,
  isSignedIn: boolean,
  isTrusted: boolean,
): string {
  const top = [
    ...(model === undefined ? [] : [`model = ${text(model)}`]),
    ...(isSignedIn ? [] : [`model_provider = ${text(PROVIDER)}`]),
    'check_for_update_on_startup = false',
    `approval_policy = ${text(asks ? 'on-request' : 'never')}`,
    'sandbox_mode = "danger-full-access"',
  ]
  const provider = [
    `[model_providers.${PROVIDER}]`,
    'name = "OpenAI"',
    `base_url = ${text(baseUrl)}`,
    `env_key = ${text(OPENAI.variable)}`,
    'wire_api = "responses"',
  ]
  const rest = [
    '[analytics]',
    'enabled = false',
    '[features]',
    'plugins = false',
    'apps = false',
    `[projects.${text(workspace)}]`,
    `trust_level = ${text(isTrusted ? 'trusted' : 'untrusted')}`,
  ]
  return `${[...top, ...(isSignedIn ? [] : provider), ...rest].join('\n')}\n`
}

/** A basic string of TOML, which is written like a JSON string. */
function text(value: string): string {
  return JSON.stringify(value).replaceAll('\u007F', '\\u007f')
}

/**
 * A question refers to a call that was announced before, and only the announcement names the tool. If several
 * calls of a server wait for an answer, the adapter does not know which one is meant and passes on the
 * question of Codex.
 */
function mcpTool(call: JsonObject): string | undefined {
  const input = objectAt(call, 'rawInput')
  const server = stringAt(input, 'server') ?? stringAt(input, 'serverName')
  if (server === undefined) return undefined
  const [, asked] = / to run tool "([^"]+)"/.exec(stringAt(input, 'description') ?? '') ?? []
  const tool = stringAt(input, 'tool') ?? asked
  return `${server}/${tool ?? 'unknown'}`
}
