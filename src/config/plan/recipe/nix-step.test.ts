import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { NetworkRule } from '../../../core/network.ts'
import { DATA_PRESETS } from '../../presets/catalog.ts'
import { parseProject } from '../../project/project-file.ts'
import { detected, plan, presets } from '../../testing/plan-parts.ts'
import { requireFlakeHosts } from './nix-step.ts'
import { recipeOf } from './recipe.ts'

const toml = (list: readonly string[]): string =>
  `[environment]\nbase = "debian"\n[environment.packages]\nnix = ${JSON.stringify(list)}\n`

describe('packages of nix', () => {
  test('FMT-7 they are installed in the sandbox, from nixpkgs and from flakes', async () => {
    const list = ['ripgrep', 'nixpkgs/nixos-25.05#jq', 'github:owner/repo/main#tool', '.#default']
    const made = await plan({ toml: toml(list) })
    const step = recipeOf(made, presets()).steps.find(({ name }) => name === 'packages/nix')
    assert.match(
      step?.run ?? '',
      /profile install --profile \/opt\/agentpod\/nix -- 'https:\/\/channels\.nixos\.org\/nixpkgs-unstable\/nixexprs\.tar\.xz#ripgrep' 'https:\/\/channels\.nixos\.org\/nixos-25\.05\/nixexprs\.tar\.xz#jq' 'github:owner\/repo\/main#tool' 'path:\/home\/user\/shop#default' \|\| \{\n/,
    )
    assert.deepEqual(step?.inputs?.files, ['flake.nix', 'flake.lock'])
    assert.ok(made.path.includes('/opt/agentpod/nix/bin'))
    // The step builds the flake, so no note says that it is not used.
    const notes = ['flake.nix is not used: it has no plain list']
    const noted = async (names: readonly string[]): Promise<number> =>
      (await plan({ toml: toml(names), detected: detected({ notes }) })).notes.length
    assert.deepEqual([await noted(['jq']), await noted(['.#default'])], [1, 0])
  })

  const hostsOf = async (list: readonly string[], approved: readonly NetworkRule[]): Promise<string[]> => {
    const { steps } = recipeOf(await plan({ toml: toml(list) }), presets(), undefined, approved)
    return steps.find(({ name }) => name === 'packages/nix')?.network.map(({ host }) => host) ?? []
  }
  const rule = (host: string): NetworkRule => ({ host, source: 'project' })

  test('FMT-7 SECURITY: the step reaches the preset nix, and only flakes reach the approved hosts too', async () => {
    const approved = [rule('github.com')]
    assert.deepEqual(await hostsOf(['ripgrep', 'nixpkgs#jq'], approved), ['nix.example.com'])
    assert.deepEqual(await hostsOf(['.#default'], []), ['nix.example.com'])
    assert.deepEqual(await hostsOf(['.#default'], approved), ['nix.example.com', 'github.com'])
    assert.deepEqual(await hostsOf(['github:owner/repo#tool'], approved), ['nix.example.com', 'github.com'])
    assert.deepEqual(
      DATA_PRESETS['nix']?.filter((host) => !host.endsWith('.nixos.org')),
      [],
    )
  })

  test('FMT-7 SECURITY: a flake on GitHub needs the approval of its hosts', async () => {
    const made = await plan({ toml: toml(['github:owner/repo#tool']) })
    const all = ['github.com', 'api.github.com', 'codeload.github.com'].map(rule)
    requireFlakeHosts(made, all)
    requireFlakeHosts(await plan({ toml: toml(['ripgrep', '.#default']) }), [])
    assert.throws(() => requireFlakeHosts(made, []), {
      reason: 'nix.hosts',
      message:
        /"github:owner\/repo#tool" .* needs github\.com, api\.github\.com, codeload\.github\.com, which/,
    })
    assert.throws(() => requireFlakeHosts(made, all.slice(0, 2)), {
      message: /needs codeload\.github\.com, which/,
    })
    assert.throws(
      () => requireFlakeHosts(made, [{ ...rule('github.com'), ports: [8443] }, ...all.slice(1)]),
      {
        message: /needs github\.com, which/,
      },
    )
  })

  test('FMT-7 without them there is no step, and nothing of nix is on the PATH', async () => {
    const made = await plan({ toml: toml([]) })
    assert.equal(
      recipeOf(made, presets()).steps.some(({ name }) => name === 'packages/nix'),
      false,
    )
    assert.equal(made.path.includes('/opt/agentpod/nix/bin'), false)
  })

  for (const evil of [
    '--option',
    '/etc/x#y',
    '../x#y',
    'path:/etc#x',
    'git+file:///x#y',
    'nixpkgs/master#x',
    'a b',
    '$(x)',
    '.#',
  ])
    test(`FMT-7 SECURITY: ${JSON.stringify(evil)} is not a package of nix`, () => {
      assert.throws(
        () => parseProject({ file: 'agentpod.toml', text: toml([evil]) }),
        /must be an attribute of nixpkgs/,
      )
    })
})
