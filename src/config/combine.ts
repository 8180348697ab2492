/** What the user grants and what a project wishes for, as one: the project may only narrow, and asks for the rest. */
import { createHash } from 'node:crypto'
import { DEFAULT_NETWORK, NETWORK_MODES, type NetworkMode } from '../core/network.ts'
import { narrow } from '../policy/narrow.ts'
import { describeRule, hashRules, type Rule } from '../policy/rule.ts'
import type { NetworkWish, SecretWish } from './network-table.ts'
import {
  beyondGrant,
  describePrivileges,
  isNothing,
  NO_PRIVILEGES,
  type Privileges,
  withinGrant,
} from './privileges.ts'

/** What a project asks for beyond what its user has granted. The hash is what the answer is remembered by. */
export interface Asked {
  readonly mode: NetworkMode | undefined
  readonly presets: readonly string[]
  readonly rules: readonly Rule[]
  readonly secrets: readonly SecretWish[]
  readonly privileges: Privileges
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
  if (project.narrowedFrom) return combineProfile(user, project, project.narrowedFrom, isApproved)
  const asked = askedBeyond(user, project)
  const isGranted = asked !== undefined && isApproved(asked.hash)
  const hasOwn = project.allow.length > 0 || project.presets.length > 0 || project.listsNothing === true
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
      ...(project.privileges && {
        privileges: extra ? project.privileges : withinGrant(project.privileges, granted(user)),
      }),
    },
  }
}

/** A profile has less than its file, so the question is about the file: one answer is for all its profiles. */
function combineProfile(
  user: NetworkWish,
  { narrowedFrom: _, ...profile }: NetworkWish,
  whole: NetworkWish,
  isApproved: (hash: string) => boolean,
): Combined {
  const { wish, asked } = combine(user, whole, isApproved)
  const deny = profile.deny.filter((rule) => !whole.deny.includes(rule))
  return { wish: combine(wish, { ...profile, deny }).wish, asked }
}

function granted({ privileges = NO_PRIVILEGES }: NetworkWish): Privileges {
  return privileges
}

function askedBeyond(user: NetworkWish, project: NetworkWish): Asked | undefined {
  const mode =
    narrowedMode(user.mode, project.mode) === (project.mode ?? user.mode) ? undefined : project.mode
  const presets = project.presets.filter((name) => !user.presets.includes(name))
  const rules = narrow(project.allow, user.allow).asked?.rules ?? []
  const owned = user.secrets.map(({ name }) => name)
  const secrets = project.secrets.filter(({ name }) => !owned.includes(name))
  const privileges = beyondGrant(project.privileges ?? NO_PRIVILEGES, granted(user))
  const isMore = !isNothing(privileges)
  if (mode === undefined && presets.length + rules.length + secrets.length === 0 && !isMore) return undefined
  const content = {
    mode: mode ?? null,
    presets: [...presets].sort(),
    rules: hashRules(rules),
    secrets: secrets.map(({ name }) => name).sort(),
    ...(isMore && { privileges }),
  }
  // What was approved before there were privileges stays approved: without them the hash is the one it was.
  const hash = createHash('sha256')
    .update(`agentpod.asked.${isMore ? 2 : 1}\n${JSON.stringify(content)}`)
    .digest('hex')
  return { mode, presets, rules, secrets, privileges, hash }
}

/** A line each, for the person who is to decide. */
export function describeAsked({ mode, presets, rules, secrets, privileges }: Asked): string[] {
  return [
    ...(mode === undefined ? [] : [`the network mode ${mode}`]),
    ...presets.map((name) => `the hosts of preset ${name}`),
    ...rules.map((rule) => describeRule(rule)),
    ...secrets.map(({ name }) => `a placeholder for your secret ${name}`),
    ...describePrivileges(privileges),
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
