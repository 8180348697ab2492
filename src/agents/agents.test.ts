import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Agent } from './agent.ts'
import { AGENTS, agentNamed } from './agents.ts'
import type { Assignment, Credential } from './assignment.ts'
import { agentDirectory } from './install.ts'

const NOTHING: Credential = { variable: 'NONE', title: '', baseUrl: '', header: '', scheme: { kind: 'bare' } }

function assignmentFor(agent: Agent, more: Partial<Assignment> = {}): Assignment {
  const credential = more.credential ?? agent.credentials[0] ?? NOTHING
  return {
    directory: agentDirectory(agent),
    home: '/home/user',
    workspace: '/home/user/project',
    model: undefined,
    credential,
    baseUrl: credential.baseUrl,
    mcpServers: [],
    asks: false,
    session: undefined,
    prompt: 'do it',
    command: ['./own-agent', '--flag'],
    ...more,
  }
}

/** Every agent with every way to pay, asking and not, new and going on. */
function* assignments(): Generator<readonly [Agent, Assignment]> {
  for (const agent of AGENTS)
    for (const credential of agent.credentials.length > 0 ? agent.credentials : [NOTHING])
      for (const asks of agent.canAsk ? [true, false] : [false])
        for (const session of [undefined, 'session-1'])
          for (const model of [undefined, 'model-1'])
            yield [agent, assignmentFor(agent, { credential, asks, session, model })]
}

test('agents are found by name and alias, and a mistyped name is corrected', () => {
  assert.equal(agentNamed('claude').name, 'claude')
  assert.equal(agentNamed('Claude-Code').name, 'claude')
  assert.equal(agentNamed('cn').name, 'continue')
  for (const [said, hint] of [
    ['cluade', /claude/],
    ['codx', /codex/],
    ['zzzzzzzz', /there are claude/],
    ['__proto__', /there are/],
    ['constructor', /there are/],
  ] as const)
    assert.throws(
      () => agentNamed(said),
      (error: { code?: string; hint?: string }) =>
        error.code === 'invalid_argument' && hint.test(error.hint ?? ''),
    )
  assert.equal(new Set(AGENTS.map(({ name }) => name)).size, AGENTS.length)
})

test('every agent starts a program of its layer, a shell, or the user’s command', () => {
  for (const [agent, assignment] of assignments())
    for (const launch of [agent.launch(assignment), agent.interactive?.(assignment)]) {
      if (!launch) continue
      const [program = ''] = launch.command
      const known = [`${assignment.directory}/`, '/bin/sh', './own-agent']
      assert.ok(
        known.some((start) => program.startsWith(start)),
        `${agent.name}: ${program}`,
      )
      assert.ok(launch.command.every((word) => typeof word === 'string' && !word.includes('undefined')))
      for (const value of Object.values(launch.variables)) assert.equal(typeof value, 'string')
    }
})

test('files of an agent are below the home directory, each path once', () => {
  for (const [agent, assignment] of assignments())
    for (const launch of [agent.launch(assignment), agent.interactive?.(assignment)]) {
      const paths = (launch?.files ?? []).map(({ path }) => path)
      for (const path of paths) assert.match(path, /^\.[a-z]/, agent.name)
      assert.equal(new Set(paths).size, paths.length)
    }
})

test('no launch overrides the variable of the key', () => {
  for (const [agent, assignment] of assignments()) {
    const { variables } = agent.launch(assignment)
    assert.ok(!Object.hasOwn(variables, assignment.credential.variable), agent.name)
  }
})

test('the prompt is an argument only for agents that read no input', () => {
  const prompt = "it's `$(id)` \n --flag {prompt}"
  for (const agent of AGENTS) {
    const { command } = agent.launch(assignmentFor(agent, { prompt }))
    assert.equal(command.includes(prompt), !agent.driver.talks, agent.name)
    const [first] = agent.driver.begin(assignmentFor(agent, { prompt })).send
    assert.equal(first !== undefined, agent.driver.talks)
  }
})

test('a gateway’s address reaches every agent that supports one', () => {
  const place = 'https://gateway.example.com'
  for (const agent of AGENTS.filter(({ credentials }) => credentials.length > 0))
    for (const credential of agent.credentials) {
      if (credential.baseUrlVariable === undefined) continue
      const { variables, files } = agent.launch(assignmentFor(agent, { credential, baseUrl: place }))
      const all = JSON.stringify([variables, files])
      assert.ok(all.includes(place), `${agent.name} with ${credential.variable}`)
    }
})

test('MCP servers reach every agent that supports them, by the protocol or by its files', () => {
  const mcpServers = [{ name: 'files', command: '/usr/bin/files-server', args: ['--x'], env: { A: 'b' } }]
  for (const agent of AGENTS.filter(({ takesMcp }) => takesMcp)) {
    const assignment = assignmentFor(agent, { mcpServers })
    const { state } = agent.driver.begin(assignment)
    const told = JSON.stringify([agent.launch(assignment), state])
    assert.ok(told.includes('/usr/bin/files-server'), agent.name)
  }
})

test('a resumed conversation is named by the command or by the driver', () => {
  for (const agent of AGENTS.filter(({ canResume }) => canResume)) {
    const again = assignmentFor(agent, { session: 'session-1' })
    const anew = assignmentFor(agent)
    const differs = JSON.stringify(agent.launch(again).command) !== JSON.stringify(agent.launch(anew).command)
    const isNamed = JSON.stringify(agent.driver.begin(again).state).includes('session-1')
    assert.ok(differs || isNamed, agent.name)
  }
})

test('codex uses the sign-in of `codex login` without the refresh token', () => {
  const signIn = agentNamed('codex').credentials.find((one) => one.signIn)?.signIn
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const token = `${part({ alg: 'RS256' })}.${part({ email: 'a@example.com' })}.signature`
  const text = JSON.stringify({
    OPENAI_API_KEY: null,
    tokens: {
      id_token: token,
      access_token: 'the-key',
      refresh_token: 'the-refresh',
      account_id: 'account-1',
    },
  })
  const read = signIn?.read(text)
  assert.equal(read?.value, 'the-key')
  const [file] = read?.files('the-placeholder') ?? []
  assert.equal(file?.path, '.codex/auth.json')
  const inside = JSON.parse(file?.content ?? '{}') as { tokens: Record<string, string> }
  assert.equal(inside.tokens['access_token'], 'the-placeholder')
  assert.equal(inside.tokens['account_id'], 'account-1')
  assert.ok(inside.tokens['id_token']?.startsWith(token.slice(0, -'signature'.length)))
  for (const secret of ['the-key', 'the-refresh', 'signature"'])
    assert.ok(!file?.content.includes(secret), secret)
  for (const bad of [
    '',
    '{',
    '[]',
    'null',
    '{}',
    '{"tokens":{"access_token":1,"id_token":"x"}}',
    '{"tokens":[]}',
  ])
    assert.equal(signIn?.read(bad), undefined, bad)
})

test('a custom command gets the prompt where it asks for it', () => {
  const custom = agentNamed('custom')
  const command = (words: readonly string[]): readonly string[] =>
    custom.launch(assignmentFor(custom, { command: words, prompt: 'a $& b' })).command
  assert.deepEqual(command(['x', '-y']), ['x', '-y', 'a $& b'])
  assert.deepEqual(command(['x', '--do={prompt}', 'z']), ['x', '--do=a $& b', 'z'])
  const own = agentNamed('acp')
  assert.deepEqual(own.launch(assignmentFor(own)).command, ['./own-agent', '--flag'])
})
