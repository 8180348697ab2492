/**
 * Combines what the user grants with what a project asks for: the project can only narrow it, and must ask
 * for the rest.
 */
import { createHash } from 'node:crypto'
import { DEFAULT_NETWORK, NETWORK_MODES, type NetworkMode } from '../../core/network.ts'
import { narrow } from '../../policy/narrow.ts'
import { describeRule, hashRules, type Rule } from '../../policy/rule.ts'
import type { NetworkWish, SecretWish } from '../network/network-table.ts'
import {
  beyondGrant,
  describePrivileges,
  hasNoPrivileges,
  NO_PRIVILEGES,
  type Privileges,
  withinGrant,
} from './privileges.ts'

/** What a project asks for beyond the user's grants. The answer is stored under the hash. */
export interface ApprovalRequest {
  readonly mode: NetworkMode | undefined
  readonly presets: readonly string[]
  readonly rules: readonly Rule[]
  readonly secrets: readonly SecretWish[]
  readonly privileges: Privileges
  readonly hash: string
}

export interface Combined {
  readonly wish: NetworkWish
  readonly asked: ApprovalRequest | undefined
}

/** A file that asks for nothing. */
export const NO_WISH: NetworkWish = {
  mode: undefined,
  intercept: undefined,
  presets: [],
  allow: [],
  deny: [],
  secrets: [],
}

/**
 * SECURITY: CF-02. An approved request is granted as if the user had written it; any other request is left
 * out.
 */
export function combine(
  user: NetworkWish,
  project: NetworkWish = NO_WISH,
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

/**
 * A profile only narrows its file, so the user is asked about the file: one answer covers all its profiles.
 */
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

function askedBeyond(user: NetworkWish, project: NetworkWish): ApprovalRequest | undefined {
  const mode =
    narrowedMode(user.mode, project.mode) === (project.mode ?? user.mode) ? undefined : project.mode
  const presets = project.presets.filter((name) => !user.presets.includes(name))
  const rules = narrow(project.allow, user.allow).asked?.rules ?? []
  const owned = user.secrets.map(({ name }) => name)
  const secrets = project.secrets.filter(({ name }) => !owned.includes(name))
  const privileges = beyondGrant(project.privileges ?? NO_PRIVILEGES, granted(user))
  const isMore = !hasNoPrivileges(privileges)
  if (mode === undefined && presets.length + rules.length + secrets.length === 0 && !isMore) return undefined
  const content = {
    mode: mode ?? null,
    presets: [...presets].sort(),
    rules: hashRules(rules),
    secrets: secrets.map(({ name }) => name).sort(),
    ...(isMore && { privileges }),
  }
  // Without privileges the hash is the same as in versions before privileges existed, so old approvals stay
  // valid.
  const hash = createHash('sha256')
    .update(`agentpod.asked.${isMore ? 2 : 1}\n${JSON.stringify(content)}`)
    .digest('hex')
  return { mode, presets, rules, secrets, privileges, hash }
}

/** One line for each item, for the person who decides. */
export function describeApprovalRequest({
  mode,
  presets,
  rules,
  secrets,
  privileges,
}: ApprovalRequest): string[] {
  return [
    ...(mode === undefined ? [] : [`the network mode ${mode}`]),
    ...presets.map((name) => `the hosts of preset ${name}`),
    ...rules.map((rule) => describeRule(rule)),
    ...secrets.map(({ name }) => `a placeholder for your secret ${name}`),
    ...describePrivileges(privileges),
  ]
}

/** The default mode is `allowlist`. */
function narrowedMode(
  user: NetworkMode | undefined,
  project: NetworkMode | undefined,
): NetworkMode | undefined {
  if (project === undefined) return user
  const most = user ?? DEFAULT_NETWORK.mode
  return NETWORK_MODES.indexOf(project) < NETWORK_MODES.indexOf(most) ? project : most
}
