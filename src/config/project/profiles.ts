/** Profiles: named sets of sizes and stricter rules. A profile never widens what its file asks for. */
import { invalid } from '../../core/error.ts'
import { DEFAULT_NETWORK, NETWORK_MODES } from '../../core/network.ts'
import { PERMISSION_KINDS } from '../../core/permission.ts'
import { narrow } from '../../policy/narrow.ts'
import { dropUndefined } from '../../util/drop-undefined.ts'
import { nearest } from '../../util/nearest.ts'
import {
  narrowPermissions,
  type PermissionsWish,
  permissionsWish,
  widerThan,
  withDefaultPermissions,
} from '../grants/permissions.ts'
import { type NetworkWish, wishOf } from '../network/network-table.ts'
import { printable, quoted, type Remark } from '../toml/problem.ts'
import { type ProjectData, projectWish, resourcesWish } from './data.ts'
import type { ProfileTable } from './schema.ts'

/**
 * The data with the profile applied. The wish also keeps that of the whole file, which the user is asked
 * about once for all profiles.
 */
export function applyProfile(data: ProjectData, name: string): ProjectData {
  const profile = data.profiles.get(name)
  if (!profile) throw unknownProfile(name, [...data.profiles.keys()])
  return {
    ...data,
    resources: { ...data.resources, ...dropUndefined(resourcesWish(profile.resources)) },
    network: { ...narrowedNetwork(data.network, profile), narrowedFrom: projectWish(data) },
    agents: { ...data.agents, permissions: stricterPermissions(data, profile) },
  }
}

function unknownProfile(name: string, known: readonly string[]): Error {
  const near = nearest(name, known)
  const all =
    known.length === 0
      ? 'the project has no profiles'
      : `there are ${known.map((one) => printable(one)).join(', ')}`
  return invalid('profile.unknown', `unknown profile: ${quoted(name)}`, near ? `did you mean ${near}?` : all)
}

function narrowedNetwork(whole: NetworkWish, { network }: ProfileTable): NetworkWish {
  if (!network) return whole
  const own = wishOf({ network }, 'project')
  const presets = network.presets ? own.presets : whole.presets
  const allow = network.allow ? narrow(own.allow, whole.allow).granted : whole.allow
  const isListed = network.presets !== undefined || network.allow !== undefined || whole.listsNothing
  return {
    ...whole,
    mode: own.mode ?? whole.mode,
    intercept: own.intercept ?? whole.intercept,
    presets,
    allow,
    deny: [...whole.deny, ...own.deny],
    listsNothing: isListed && presets.length + allow.length === 0 ? true : undefined,
  }
}

/** Everything by which a profile would widen. */
export function checkProfiles(data: ProjectData): Remark[] {
  return [...data.profiles].flatMap(([name, profile]) => [
    ...widerNetwork(data.network, profile).map((remark) => below(['profiles', name, 'network'], remark)),
    ...widerPermissions(data, profile).map((remark) =>
      below(['profiles', name, 'agents', 'permissions'], remark),
    ),
  ])
}

function below(above: readonly string[], remark: Remark): Remark {
  return { ...remark, path: [...above, ...remark.path], reason: 'profile.wider' }
}

function widerNetwork(whole: NetworkWish, { network }: ProfileTable): Remark[] {
  if (!network) return []
  const own = wishOf({ network }, 'project')
  const remarks: Remark[] = []
  const add = (path: Remark['path'], message: string, hint: string): void =>
    void remarks.push({ path, message, hint })
  const most = whole.mode ?? DEFAULT_NETWORK.mode
  if (own.mode !== undefined && NETWORK_MODES.indexOf(own.mode) > NETWORK_MODES.indexOf(most))
    add(
      ['mode'],
      `a profile can only be stricter: ${own.mode} is wider than ${most}`,
      'set the wider mode under [network]',
    )
  if (own.intercept === 'needed' && whole.intercept === 'all')
    add(['intercept'], 'a profile can only be stricter: "needed" intercepts less than "all"', 'leave it out')
  for (const [index, preset] of (network.presets ?? []).entries())
    if (!whole.presets.includes(preset))
      add(
        ['presets', index],
        `a profile can only be stricter: [network] does not have the preset ${preset}`,
        'add it to presets under [network]',
      )
  for (const [index, rule] of own.allow.entries())
    if (narrow([rule], whole.allow).asked)
      add(
        ['allow', index],
        `a profile can only be stricter: [network] does not allow all of ${rule.host}`,
        'add it to allow under [network]',
      )
  return remarks
}

/** Kinds that neither names are left out: the user's settings apply to them. */
function stricterPermissions({ agents }: ProjectData, profile: ProfileTable): PermissionsWish {
  const own = permissionsWish(profile.agents?.permissions ?? {})
  const { permissions } = agents
  const all = narrowPermissions(withDefaultPermissions(permissions), own)
  return Object.fromEntries(
    PERMISSION_KINDS.filter((kind) => own[kind] ?? permissions[kind]).map((kind) => [
      kind,
      own[kind] ? all[kind] : permissions[kind],
    ]),
  )
}

function widerPermissions({ agents }: ProjectData, profile: ProfileTable): Remark[] {
  const own = permissionsWish(profile.agents?.permissions ?? {})
  const whole = withDefaultPermissions(agents.permissions)
  return PERMISSION_KINDS.flatMap((kind) => {
    const wider = widerThan(whole[kind], own[kind] ?? [])
    if (!wider) return []
    const { pattern, decision } = wider.rule
    const isTable = typeof profile.agents?.permissions?.[kind] === 'object'
    return [
      {
        path: isTable ? [kind, pattern] : [kind],
        message: `a profile can only be stricter: ${decision} is wider than ${wider.than}`,
        hint: 'set it under [agents.permissions]',
      },
    ]
  })
}
