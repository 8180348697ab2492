import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, beforeEach, describe, test } from 'node:test'
import { readProject, readUser } from '../../config/config-files.ts'
import { Approvals } from '../../config/grants/approvals.ts'
import { combine } from '../../config/grants/combine.ts'
import { isAgentPodError } from '../../core/error.ts'
import { homeAt } from '../../core/home.ts'
import type { AgentRequest } from '../../workbench/run/agent-request.ts'
import { agentSettings } from '../../workbench/run/agent-settings.ts'
import { chooseAgents } from '../../workbench/run/choose-agents.ts'
import { permissionsOf, type RunPermissions } from '../../workbench/run/run-permissions.ts'
import { AGENT_OPTIONS } from './agent-options.ts'
import { agentRequest } from './agent-values.ts'
import { readMcpServers } from './mcp-file.ts'
import { NETWORK_OPTIONS, PROCESS_OPTIONS, SANDBOX_OPTIONS } from './options.ts'
import { parseArgs } from './parse.ts'

const scratch = realpathSync(mkdtempSync(join(tmpdir(), 'agentpod-permissions-')))
after(() => rmSync(scratch, { recursive: true }))
const [root, project] = [join(scratch, 'home'), join(scratch, 'project')]
const bench = { home: homeAt(root) }

beforeEach(() => {
  for (const directory of [root, project]) {
    rmSync(directory, { recursive: true, force: true })
    mkdirSync(directory)
  }
})

function request(...words: readonly string[]): AgentRequest {
  const options = { ...SANDBOX_OPTIONS, ...NETWORK_OPTIONS, ...PROCESS_OPTIONS, ...AGENT_OPTIONS }
  const parsed = parseArgs(words, { usage: '', options, words: { min: 0, max: 9 } })
  return agentRequest(parsed, { agents: ['claude'], prompt: 'fix it', env: {} })
}

function rules(o: { user?: string; project?: string; words?: readonly string[] }): RunPermissions {
  if (o.user !== undefined) writeFileSync(join(root, 'config.toml'), o.user)
  if (o.project !== undefined) writeFileSync(join(project, 'agentpod.toml'), o.project)
  const asked = request(...(o.words ?? []))
  return permissionsOf(asked, agentSettings(bench, asked, project))
}

const all = (decision: string): object[] => [{ pattern: '*', decision }]

describe('what an agent may do', () => {
  test('is everything inside, and what somebody says of the network, where nobody says anything', () =>
    assert.deepEqual(rules({}), { bash: [], write: [], mcp: [], network: all('ask') }))

  test('is what the user’s file says', () =>
    assert.deepEqual(rules({ user: '[agents.permissions]\nbash = { "git push*" = "deny" }' }).bash, [
      { pattern: 'git push*', decision: 'deny' },
    ]))

  test('CF-02: is made stricter by the project, and no wider', () => {
    const file = '[agents.permissions]\nbash = "ask"\nnetwork = "allow"\nmcp = "deny"'
    assert.deepEqual(rules({ project: file }), {
      bash: all('ask'),
      write: [],
      mcp: all('deny'),
      network: all('ask'),
    })
    assert.deepEqual(rules({ user: '[agents.permissions]\nbash = "deny"', project: file }).bash, all('deny'))
  })

  test('is what the project wants where the user has granted it', () => {
    const file = '[agents.permissions]\nnetwork = "allow"'
    assert.deepEqual(
      rules({ project: file, user: '[grants]\npermissions = ["network"]' }).network,
      all('allow'),
    )
    writeFileSync(join(root, 'config.toml'), '')
    const { asked } = combine(readUser(root), readProject(project))
    assert.ok(asked)
    new Approvals(root).add(asked.hash, project, new Date(0))
    assert.deepEqual(rules({}).network, all('allow'))
  })

  test('is what the person says who starts it', () => {
    const user = '[agents.permissions]\nbash = { "*" = "ask", "npm test*" = "allow" }'
    const words = (...texts: string[]): string[] => texts.flatMap((text) => ['--permission', text])
    assert.deepEqual(rules({ user, words: words('bash=deny') }).bash, all('deny'))
    assert.deepEqual(rules({ user, words: words('bash:rm *=deny', 'bash=allow') }).bash, [
      { pattern: '*', decision: 'allow' },
      { pattern: 'rm *', decision: 'deny' },
    ])
    assert.deepEqual(rules({ user, words: words('bash:npm test*=deny') }).bash, [
      { pattern: '*', decision: 'ask' },
      { pattern: 'npm test*', decision: 'deny' },
    ])
  })

  test('is asked for altogether with --ask, but for what is denied', () =>
    assert.deepEqual(
      rules({
        user: '[agents.permissions]\nbash = { "npm test*" = "allow", "git push*" = "deny" }',
        words: ['--ask', '--permission', 'write:src/*=allow'],
      }),
      {
        bash: [
          { pattern: 'npm test*', decision: 'ask' },
          { pattern: 'git push*', decision: 'deny' },
          { pattern: '*', decision: 'ask' },
        ],
        write: [
          { pattern: '*', decision: 'ask' },
          { pattern: 'src/*', decision: 'allow' },
        ],
        mcp: all('ask'),
        network: all('ask'),
      },
    ))
})

describe('what else is said of a run', () => {
  const settings = (...words: string[]): ReturnType<typeof agentSettings> =>
    agentSettings(bench, request(...words), project)

  test('the nearest word holds, and of limits the project’s only where it is lower', () => {
    writeFileSync(
      join(root, 'config.toml'),
      '[agents]\ndefault = "codex"\nmodel = "small"\ntime = "1h"\nmax_cost = 2\nbranch = "mine/{n}"',
    )
    const without = settings()
    assert.deepEqual(
      [without.agent, without.model, without.timeMs, without.maxCostUsd, without.branch],
      ['codex', 'small', 3_600_000, 2, 'mine/{n}'],
    )
    writeFileSync(
      join(project, 'agentpod.toml'),
      '[agents]\ndefault = "claude"\nmodel = "large"\ntime = "2h"\nmax_cost = 1',
    )
    const narrowed = settings()
    assert.deepEqual(
      [narrowed.agent, narrowed.model, narrowed.timeMs, narrowed.maxCostUsd],
      ['claude', 'large', 3_600_000, 1],
    )
    const said = settings(
      '--model',
      'own',
      '--time',
      '90m',
      '--max-cost',
      '$5.50',
      '--branch',
      'x/{slug}-{n}',
    )
    assert.deepEqual(
      [said.model, said.timeMs, said.maxCostUsd, said.branch],
      ['own', 5_400_000, 5.5, 'x/{slug}-{n}'],
    )
  })

  const WRONG: readonly (readonly [words: string, message: RegExp])[] = [
    ['--max-cost 0', /amount of dollars/],
    ['--max-cost much', /is a number/],
    ['--time 5', /has no unit/],
    ['--time 5m', /^$/],
    ['--time 0.5s', /a second or more/],
    ['--branch {slug}', /no \{n\}/],
    ['--base-url ftp://example.com', /an address/],
    ['--base-url https://me:key@example.com', /without a key/],
    ['--permission bash=maybe', /=allow, =ask or =deny/],
  ]
  for (const [words, message] of WRONG)
    test(`${words} ${message.source === '^$' ? 'is right' : 'is refused'}`, () => {
      const call = (): unknown => {
        const given = request(...words.split(' '))
        return permissionsOf(given, agentSettings(bench, given, project))
      }
      if (message.source === '^$') call()
      else
        assert.throws(
          call,
          (error) => isAgentPodError(error, 'invalid_argument') && message.test(error.message),
        )
    })
})

describe('agents are chosen', () => {
  const names = (...words: string[]): string[] =>
    chooseAgents(words).map(({ agent, number }) => `${agent.name}-${number}`)

  test('by name, with a number, or twice', () =>
    assert.deepEqual(names('claude', 'codex:2', 'claude'), ['claude-1', 'claude-2', 'codex-1', 'codex-2']))

  for (const word of ['claude:0', 'claude:17', 'claude:', 'claude:x', 'claude:1.5', 'cluade'])
    test(`${word} is refused`, () =>
      assert.throws(
        () => chooseAgents([word]),
        (error) => isAgentPodError(error, 'invalid_argument'),
      ))
})

describe('a file of MCP servers', () => {
  const file = join(scratch, 'mcp.json')
  const read = (content: unknown): unknown => {
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content))
    return readMcpServers([file])
  }

  test('names commands; what other tools write is passed over', () =>
    assert.deepEqual(
      read({
        other: 1,
        mcpServers: {
          one: { type: 'stdio', command: 'one', args: ['-x'], env: { A: 'b' }, timeout: 3 },
          two: { command: 'two', disabled: true },
        },
      }),
      [{ name: 'one', command: 'one', args: ['-x'], env: { A: 'b' } }],
    ))

  for (const [name, content, message] of [
    ['that is no JSON', '{', /cannot read/],
    ['without servers', {}, /mcpServers/],
    ['with a server elsewhere', { mcpServers: { web: { url: 'https://example.com' } } }, /no command/],
    ['with a name that is none', { mcpServers: { 'a b': { command: 'x' } } }, /a b/],
    ['that is too large', ' '.repeat(1024 * 1024 + 1), /larger than 1 MiB/],
  ] as const)
    test(`${name} is refused`, () =>
      assert.throws(
        () => read(content),
        (error) => isAgentPodError(error, 'invalid_argument') && message.test(error.message),
      ))
})
