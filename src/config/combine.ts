/** What the user grants and what a project wishes for, as one: the project may only narrow, and asks for the rest. */
import { createHash } from 'node:crypto'
import { DEFAULT_NETWORK, NETWORK_MODES, type NetworkMode } from '../core/network.ts'
import { narrow } from '../policy/narrow.ts'
import { describeRule, hashRules, type Rule } from '../policy/rule.ts'
import type { NetworkWish, SecretWish } from './network-table.ts'

/** What a project asks for beyond what its user has granted. The hash is what the answer is remembered by. */
export interface Asked {
  readonly mode: NetworkMode | undefined
  readonly presets: readonly string[]
  readonly rules: readonly Rule[]
  readonly secrets: readonly SecretWish[]
  readonly hash: string
}

export interface Combined {
  readonly wish: NetworkWish
  readonly asked: Asked | undefined
}

const NOTHING: NetworkWish = {
  mode: undefined,
  intercept: undefined,
  presets: [],
  allow: [],
  deny: [],
  secrets: [],
}

/** SECURITY: CF-02. With `isApproved`, what is asked for is granted as if the user had written it; without, it is left out. */
export function combine(
  user: NetworkWish,
  project: NetworkWish = NOTHING,
  isApproved: (hash: string) => boolean = () => false,
): Combined {
  const asked = askedBeyond(user, project)
  const isGranted = asked !== undefined && isApproved(asked.hash)
  const hasOwn = project.allow.length > 0 || project.presets.length > 0
  const narrowed = narrow(project.allow, user.allow).granted
  const extra = isGranted ? asked : undefined
  return {
    asked: isGranted ? undefined : asked,
    wish: {
      mode: extra?.mode ?? narrowedMode(user.mode, project.mode),
      intercept: project.intercept === 'all' ? 'all' : user.intercept,
      presets: [
        ...(hasOwn ? user.presets.filter((name) => project.presets.includes(name)) : user.presets),
        ...(extra?.presets ?? []),
      ],
      allow: [...(hasOwn ? narrowed : user.allow), ...(extra?.rules ?? [])],
      deny: [...user.deny, ...project.deny],
      secrets: [...user.secrets, ...(extra?.secrets ?? [])],
    },
  }
}

function askedBeyond(user: NetworkWish, project: NetworkWish): Asked | undefined {
  const mode =
    narrowedMode(user.mode, project.mode) === (project.mode ?? user.mode) ? undefined : project.mode
  const presets = project.presets.filter((name) => !user.presets.includes(name))
  const rules = narrow(project.allow, user.allow).asked?.rules ?? []
  const owned = user.secrets.map(({ name }) => name)
  const secrets = project.secrets.filter(({ name }) => !owned.includes(name))
  if (mode === undefined && presets.length + rules.length + secrets.length === 0) return undefined
  const content = {
    mode: mode ?? null,
    presets: [...presets].sort(),
    rules: hashRules(rules),
    secrets: secrets.map(({ name }) => name).sort(),
  }
  const hash = createHash('sha256')
    .update(`agentpod.asked.1\n${JSON.stringify(content)}`)
    .digest('hex')
  return { mode, presets, rules, secrets, hash }
}

/** A line each, for the person who is to decide. */
export function describeAsked({ mode, presets, rules, secrets }: Asked): string[] {
  return [
    ...(mode === undefined ? [] : [`the network mode ${mode}`]),
    ...presets.map((name) => `the hosts of preset ${name}`),
    ...rules.map((rule) => describeRule(rule)),
    ...secrets.map(({ name }) => `a placeholder for your secret ${name}`),
  ]
}

/** Who says nothing means an allowlist. */
function narrowedMode(
  user: NetworkMode | undefined,
  project: NetworkMode | undefined,
): NetworkMode | undefined {
  if (project === undefined) return user
  const most = user ?? DEFAULT_NETWORK.mode
  return NETWORK_MODES.indexOf(project) < NETWORK_MODES.indexOf(most) ? project : most
}
