/** Codex, through its adapter for the Agent Client Protocol. */
import { acpDriver } from './acp.ts'
import type { Agent } from './agent.ts'
import type { AgentFile, Assignment, Credential, Launch, SignIn } from './assignment.ts'
import { OPENAI } from './credentials.ts'
import { BUILD_NODE } from './install.ts'
import { type Json, objectAt, readLine, textAt } from './json.ts'

/**
 * What `codex login` leaves behind. Only the access token is of use outside, and only its placeholder goes inside. What it is refreshed with stays
 * where it is: a copy that is used inside would sign the user out outside.
 */
const SIGN_IN: SignIn = {
  path: '.codex/auth.json',
  read(text) {
    const file = readLine(text)
    const tokens = objectAt(file, 'tokens')
    const value = textAt(tokens, 'access_token')
    const identity = textAt(tokens, 'id_token')
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
            ...(textAt(tokens, 'account_id') !== undefined && { account_id: textAt(tokens, 'account_id') }),
          },
          // From far ahead, so that it does not try to refresh what it holds.
          last_refresh: '2099-01-01T00:00:00Z',
        })}\n`,
      },
    ]
    return { value, files }
  },
}

/** It says whose plan it is, and without its signature it opens nothing. */
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
    // It shows nothing of the conversation before somebody has answered about a folder that is not trusted, each time anew. Trust allows the project nothing
    // that is kept from it otherwise: on a terminal it has no policy that asks and works without a sandbox of its own.
    ...surroundings(assignment, true),
  }),
}

/**
 * Codex asks about everything only by a policy that neither its file nor its adapter has a word for, though its server takes it. Each mode that the
 * adapter has either asks about nothing or needs a sandbox in the sandbox. So what the adapter tells the server is changed on the way: every turn
 * asks, no turn has a sandbox of its own, and a no is told to the model instead of ending the turn. SECURITY: should this ever not fit the adapter any more,
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
  // What a project that is not trusted allows itself does not count. About tools of servers that call themselves harmless it asks only where it is told to.
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
      // A server that it is given goes before one of the same name that the project has. Left to itself it would not be started.
      DISABLE_MCP_CONFIG_FILTERING: 'true',
      ...(!isSignedIn && { MODEL_PROVIDER: PROVIDER }),
    },
    files: [
      { path: '.codex/config.toml', content: configOf(assignment, isSignedIn, isTrusted) },
      ...(assignment.asks ? [{ path: ASKING_FILE, content: ASKING }] : []),
    ],
  }
}

/** Its own sandbox is off, since it is in one. */
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

/** A basic string of TOML, which is written like one of JSON. */
function text(value: string): string {
  return JSON.stringify(value).replaceAll('\u007F', '\\u007f')
}

/**
 * A question about a call is one about a call that was told before, and only that says the tool. Where several calls of a server wait for an answer, the adapter does not
 * know which of them it is, and hands on what Codex asks.
 */
function mcpTool(call: Json): string | undefined {
  const input = objectAt(call, 'rawInput')
  const server = textAt(input, 'server') ?? textAt(input, 'serverName')
  if (server === undefined) return undefined
  const [, asked] = / to run tool "([^"]+)"/.exec(textAt(input, 'description') ?? '') ?? []
  const tool = textAt(input, 'tool') ?? asked
  return `${server}/${tool ?? 'unknown'}`
}
