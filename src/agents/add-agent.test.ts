// Adds an agent to a copy of the sources, in the two steps that README.md names, and looks for it everywhere.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Step } from '../core/recipe.ts'

const ROOT = join(import.meta.dirname, '..', '..')

// Its imports are written with '@agents/', so that no tool takes them for imports of this file.
const ZEBRA = `
import type { Agent } from '@agents/agent.ts'
import { ANTHROPIC } from '@agents/credentials.ts'
import { endByExit, lineDriver } from '@agents/drivers/json-lines.ts'

export const zebra: Agent = {
  name: 'zebra',
  aliases: ['zebra-cli'],
  title: 'Zebra Code',
  coAuthor: { name: 'Zebra', email: 'zebra@example.com' },
  install: { kind: 'npm', packages: ['zebra-code@1.2.3'], node: '24.21.0' },
  credentials: [ANTHROPIC],
  driver: lineDriver<null>({ start: null, read: (own) => ({ own }), end: (_, code) => endByExit(code) }),
  canAsk: false,
  canResume: false,
  takesMcp: false,
  launch: ({ directory, prompt }) => ({
    command: [\`\${directory}/bin/zebra\`, prompt],
    variables: {},
    files: [],
  }),
}
`

const place = mkdtempSync(join(tmpdir(), 'agentpod-add-agent-'))
const project = join(place, 'project')

before(() => {
  const isNeeded = (path: string): boolean => !path.endsWith('.test.ts') && !path.endsWith('/fixtures')
  cpSync(join(ROOT, 'src'), join(place, 'src'), { recursive: true, filter: isNeeded })
  cpSync(join(ROOT, 'package.json'), join(place, 'package.json'))
  symlinkSync(join(ROOT, 'node_modules'), join(place, 'node_modules'))
  writeFileSync(join(place, 'src/agents/catalog/zebra.ts'), ZEBRA.replaceAll('@agents/', '../'))
  const list = join(place, 'src/agents/agents.ts')
  const text = readFileSync(list, 'utf8')
    .replace(/^import \{ qwen \}.*$/m, "$&\nimport { zebra } from './catalog/zebra.ts'")
    .replace(/^ {2}qwen,$/m, '$&\n  zebra,')
  writeFileSync(list, text)
  mkdirSync(project)
  const env = { PATH: process.env['PATH'], HOME: place, GIT_CONFIG_NOSYSTEM: '1' }
  const git = (...args: readonly string[]): unknown => execFileSync('git', args, { cwd: project, env })
  git('init', '-q')
  writeFileSync(join(project, 'agentpod.toml'), '[agents]\ndefault = "zebra"\n')
  git('add', '-A')
  git('-c', 'user.name=A', '-c', 'user.email=a@example.com', 'commit', '-qm', 'begin')
})

after(() => rmSync(place, { recursive: true, force: true }))

function agentpod(...args: readonly string[]): { readonly exitCode: number | null; readonly text: string } {
  const command = ['--disable-warning=ExperimentalWarning', join(place, 'src/cli/main.ts'), ...args]
  const { status, stdout, stderr } = spawnSync(process.execPath, command, {
    cwd: project,
    env: { PATH: process.env['PATH'], HOME: place, AGENTPOD_HOME: join(place, 'home') },
    encoding: 'utf8',
    timeout: 60_000,
  })
  return { exitCode: status, text: stdout + stderr }
}

// A rule that the new agent cannot obey stops the run before a server is needed, and its message has the
// agent's title.
const RULE = ['--permission', 'bash=ask']
const REFUSED = /Zebra Code cannot/

test('`agentpod run` recognises a new agent by its name and its alias', () => {
  for (const word of ['zebra', 'Zebra-CLI']) {
    const { exitCode, text } = agentpod('run', word, 'do it', ...RULE)
    assert.match(text, REFUSED)
    assert.equal(exitCode, 2)
  }
})

test('a mistyped name of a new agent is corrected', () => {
  assert.match(agentpod('run', 'zebar', 'do it').text, /did you mean zebra\?/)
})

test('agentpod.toml can name a new agent as the default', () => {
  assert.match(agentpod('run', 'agent', 'do it', ...RULE).text, REFUSED)
})

test('help, completion and errors list a new agent', () => {
  assert.match(agentpod('run', '--help').text, /^ {2}claude, .*\bzebra\b/m)
  assert.match(agentpod('completion', 'words', 'run').text, /^zebra$/m)
  assert.match(agentpod('run', '--agent', 'nothing-like-it', 'do it').text, /there are claude, .*\bzebra\b/)
})

test('a new agent has a recipe that installs it', () => {
  const script = `
    import { agentNamed } from '${place}/src/agents/agents.ts'
    import { agentRecipe } from '${place}/src/agents/install.ts'
    const npm = { variables: {}, network: [] }
    const recipe = agentRecipe(agentNamed('zebra'), { base: { name: 'host' }, arch: 'x64', npm })
    console.log(JSON.stringify(recipe.steps))
  `
  const options = ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', script]
  const steps = JSON.parse(execFileSync(process.execPath, options, { encoding: 'utf8' })) as Step[]
  assert.deepEqual(
    steps.map(({ name, title }) => [name, title]),
    [['agent/zebra', 'Zebra Code 1.2.3']],
  )
  assert.match(steps[0]?.run ?? '', /zebra-code@1\.2\.3/)
})
