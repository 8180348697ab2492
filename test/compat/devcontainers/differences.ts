/** Where our output differs on purpose: docs/compat/devcontainers.md says why. */
import assert from 'node:assert/strict'
import type { Compared } from './compare.ts'
import type { Configuration } from './configurations.ts'

type Parts = Compared['official']

/** Where nothing is merged, the official command prints the requirement of minus infinity. */
const withoutInfinity = (official: Parts): Parts => {
  const { hostRequirements, ...merged } = official.mergedConfiguration as Record<string, unknown>
  assert.deepEqual(hostRequirements, { cpus: null, memory: '-Infinity', storage: '-Infinity' })
  return { ...official, mergedConfiguration: merged }
}

/** A label's value of a wrong kind is ignored. */
const withoutWrongUser = (official: Parts): Parts => {
  const { remoteUser, ...merged } = official.mergedConfiguration as Record<string, unknown>
  assert.equal(remoteUser, 5)
  return { ...official, mergedConfiguration: merged }
}

/** By the name of the configuration: what the official output would have to be to equal ours. */
export const DIFFERENCES: Readonly<Record<string, (official: Parts) => Parts>> = {
  'an image and nothing else, in the usual place': withoutInfinity,
  'lines that end as on Windows': withoutInfinity,
  'variables in a build': withoutInfinity,
  'the old place of the Dockerfile': withoutInfinity,
  'a compose file': withoutInfinity,
  'a schema, and secrets': withoutInfinity,
  'a label with a value of a wrong kind': withoutWrongUser,
}

/** What the official command reads, and ours refuses, with the reason. */
export const STRICTER: readonly (Configuration & { readonly reason: string })[] = [
  { name: 'a missing comma', json: '{"image": "made:1" "name": "x"}', reason: 'file.malformed' },
  { name: 'a key that is there twice', json: '{"image": "a", "image": "made:1"}', reason: 'file.malformed' },
  { name: 'an unknown property', json: { image: 'made:1', postCreate: 'x' }, reason: 'file.unknown_key' },
  { name: 'an unknown stage', json: { image: 'made:1', waitFor: 'never' }, reason: 'file.malformed' },
  { name: 'a value of a wrong kind', json: { image: 'made:1', init: 'yes' }, reason: 'file.malformed' },
  { name: 'no source', json: { name: 'x' }, reason: 'devcontainer.no_source' },
  {
    name: 'two sources',
    json: { image: 'made:1', dockerComposeFile: 'c.yml', service: 'app', workspaceFolder: '/w' },
    reason: 'devcontainer.contradiction',
  },
  {
    name: 'a mount of the workspace without its folder',
    json: { image: 'made:1', workspaceMount: 'type=volume,source=a,target=/w' },
    reason: 'file.malformed',
  },
  {
    name: 'several files and no choice',
    json: { image: 'made:1' },
    files: { '.devcontainer/other/devcontainer.json': '{"image": "made:2"}' },
    reason: 'devcontainer.several',
  },
]

export function expected(name: string, official: Parts): Parts {
  const change = Object.hasOwn(DIFFERENCES, name) ? DIFFERENCES[name] : undefined
  return change ? change(official) : official
}
