import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { RANKS, type Rank } from '../../evidence.ts'
import { rankOfFile } from '../../source-rank.ts'
import { evidence, finding, plan } from '../../testing/plan-parts.ts'
import { explainPlan } from '../explain.ts'

const FILES: readonly (readonly [file: string, rank: Rank])[] = [
  ['', 'default'],
  ['agentpod.toml', 'agentpod.toml'],
  ['agentpod.lock', 'lock'],
  ['.devcontainer/devcontainer.json', 'devcontainer'],
  ['.devcontainer.json', 'devcontainer'],
  ['.devcontainer/web/devcontainer.json', 'devcontainer'],
  ['docker-compose.dev.yml', 'compose file'],
  ['.cursor/environment.json', 'agent file'],
  ['.github/workflows/copilot-setup-steps.yml', 'agent file'],
  ['.gitpod.yml', 'platform file'],
  ['Procfile', 'platform file'],
  ['replit.nix', 'platform file'],
  ['mise.toml', 'version file'],
  ['.config/mise/config.toml', 'version file'],
  ['mise-tasks/test', 'version file'],
  ['.tool-versions', 'version file'],
  ['package.json', 'manifest'],
  ['Makefile', 'manifest'],
  ['.github/workflows/ci.yml', 'ci'],
]

describe('the order of precedence', () => {
  for (const [file, rank] of FILES)
    test(`FMT-1 ${file || 'no file'} has the rank ${rank}`, () => assert.equal(rankOfFile(file), rank))

  test('FMT-1 the order is the documented one', () =>
    assert.deepEqual(RANKS, [
      'flag',
      'agentpod.toml',
      'lock',
      'customizations',
      'devcontainer',
      'compose file',
      'agent file',
      'platform file',
      'version file',
      'manifest',
      'ci',
      'range',
      'default',
    ]))

  test('FMT-1 packages, ports, variables and commands name each source that they beat', async () => {
    const npm = finding('node', {
      packages: [{ name: 'libvips-dev', evidence: evidence('package.json') }],
      ports: [{ port: 3000, evidence: evidence('package.json') }],
      variables: { MODE: 'language' },
      commands: {
        test: { run: 'npm test', evidence: evidence('package.json') },
        start: { run: 'npm start', evidence: evidence('package.json') },
      },
    })
    const made = await plan({
      detected: {
        findings: [npm],
        packages: [{ name: 'libvips-dev', evidence: evidence('.cursor/environment.json') }],
        ports: [{ port: 3000, evidence: evidence('.cursor/environment.json') }],
        commands: {
          test: { run: 'make check', evidence: evidence('.github/workflows/ci.yml') },
          start: { run: 'gunicorn app', evidence: evidence('Procfile') },
        },
      },
      toml: '[environment]\nbase = "debian"\n[environment.variables]\nMODE = "file"\n[ports]\n3000 = { label = "Web" }\n',
    })
    const beaten = Object.fromEntries(
      explainPlan(made).flatMap(({ key, rank, beat }) =>
        beat.length > 0 && key !== 'base'
          ? [[key, [rank, ...beat.map(({ evidence: { file }, why }) => `${file}: ${why}`)]]]
          : [],
      ),
    )
    assert.deepEqual(beaten, {
      'packages.libvips-dev': ['agent file', 'package.json: it says the same'],
      'commands.test': ['manifest', '.github/workflows/ci.yml: a manifest goes before CI'],
      'commands.start': ['platform file', 'package.json: a platform file goes before a manifest'],
      'ports.3000': [
        'agentpod.toml',
        '.cursor/environment.json: agentpod.toml goes before a file for agents',
        'package.json: agentpod.toml goes before a manifest',
      ],
      'variables.MODE': ['agentpod.toml', 'node.manifest: agentpod.toml goes before a manifest'],
    })
  })
})
