/** The network spec of a sandbox: the request, checked against what its owner may ask for. */
import { AgentPodError, invalid } from '../../core/error.ts'
import {
  type AddressLists,
  DEFAULT_NETWORK,
  type HeaderRule,
  type Interception,
  NETWORK_MODES,
  type NetworkCap,
  type NetworkMode,
  type NetworkRule,
  type NetworkSpec,
  type RuleSource,
} from '../../core/network.ts'
import { parseBlock, readBlock } from '../../policy/cidr.ts'
import { parseHostName } from '../../policy/host-name.ts'
import { parseNamedAddress } from '../../policy/named-address.ts'
import { narrow } from '../../policy/narrow.ts'
import {
  describeRule,
  parseDenial,
  parseRule,
  type Rule,
  readDenial,
  readRule,
  writeRule,
} from '../../policy/rule.ts'

/** A rule as a caller writes it: `example.com:8443/api/**`, or its parts. */
export type RuleRequest =
  | string
  | (Omit<NetworkRule, 'source'> & { readonly source?: RuleSource | undefined })

export interface NetworkRequest {
  readonly mode?: NetworkMode | undefined
  readonly allow?: readonly RuleRequest[] | undefined
  readonly deny?: readonly RuleRequest[] | undefined
  readonly secrets?: readonly string[] | undefined
  readonly intercept?: Interception | undefined
  readonly addresses?: AddressLists | undefined
  readonly headers?: readonly HeaderRule[] | undefined
  /** Set by builds only: the API does not accept it, and snapshots do not pass it on. */
  readonly cache?: boolean | undefined
  /** Set by runs only, like `cache`. */
  readonly meter?: boolean | undefined
}

/** A change of the rules of an existing sandbox. Fields that are left out stay. */
export interface NetworkChange {
  readonly mode?: NetworkMode | undefined
  readonly allow?: readonly RuleRequest[] | undefined
  readonly deny?: readonly RuleRequest[] | undefined
  /** Hosts whose rules (of creation or added later) are removed. */
  readonly forget?: readonly string[] | undefined
}

const MOST_RULES = 512

/**
 * The defaults of a snapshot are reduced to what the owner may have now. A request beyond that is refused.
 */
export function resolveNetwork(
  asked: NetworkRequest = {},
  template: NetworkSpec | undefined,
  cap: NetworkCap | undefined,
): NetworkSpec {
  const base = template ? within(template, cap) : defaultOf(cap)
  const mode = asked.mode ?? base.mode
  checkMode(mode, cap)
  if (template && asked.mode === undefined && mode === 'off' && asked.allow && asked.allow.length > 0)
    throw invalid(
      'network.off',
      'the snapshot was made without a network, so allowing hosts has no effect',
      'add --net allowlist',
    )
  const rules = asked.allow ? asked.allow.map((rule) => grant(rule, 'create')) : base.rules
  checkRules(rules, cap)
  const addresses = asked.addresses ?? base.addresses
  if (addresses) for (const block of [...addresses.allowed, ...addresses.denied]) parseBlock(block)
  for (const one of addresses?.named ?? []) parseNamedAddress(one)
  if (addresses && addresses.allowed.length + (addresses.named?.length ?? 0) > 0 && cap?.rules)
    throw beyond('this key may not reach addresses')
  const headers = (asked.headers ?? base.headers)?.map(checkedHeaders)
  return bounded({
    mode,
    rules,
    denied: asked.deny ? asked.deny.map((rule) => denial(rule, 'create')) : base.denied,
    secrets: asked.secrets ? [...new Set(asked.secrets)] : base.secrets,
    intercept: asked.intercept ?? base.intercept,
    ...(addresses && { addresses }),
    ...(headers && headers.length > 0 && { headers }),
    ...(asked.cache && { cache: true }),
    ...(asked.meter && { meter: true }),
  })
}

export function changeNetwork(
  spec: NetworkSpec,
  change: NetworkChange,
  cap: NetworkCap | undefined,
): NetworkSpec {
  const mode = change.mode ?? spec.mode
  if (change.mode !== undefined) checkMode(mode, cap)
  const added = (change.allow ?? []).map((rule) => grant(rule, 'live'))
  checkRules(added, cap)
  const forgotten = new Set((change.forget ?? []).map((text) => grant(text, 'live').host))
  const isKept = ({ host }: NetworkRule): boolean => !forgotten.has(host)
  const denied = (change.deny ?? []).map((rule) => denial(rule, 'live'))
  return bounded({
    ...spec,
    mode,
    rules: distinct([...spec.rules.filter(isKept), ...added]),
    // Allowing a host removes the denial of exactly that host.
    denied: distinct([
      ...spec.denied.filter((rule) => isKept(rule) && !added.some(({ host }) => host === rule.host)),
      ...denied,
    ]),
  })
}

/** The rules in parsed form. */
export function rulesOf({ rules, denied }: Pick<NetworkSpec, 'rules' | 'denied'>): {
  rules: Rule[]
  denied: Rule[]
} {
  return {
    rules: rules.map(readRule),
    denied: denied.map(readDenial),
  }
}

function grant(asked: RuleRequest, source: RuleSource): NetworkRule {
  return writeRule(
    typeof asked === 'string'
      ? parseRule(asked, source)
      : readRule({ ...asked, source: asked.source ?? source }),
  )
}

function denial(asked: RuleRequest, source: RuleSource): NetworkRule {
  return writeRule(
    typeof asked === 'string'
      ? parseDenial(asked, source)
      : readDenial({ ...asked, source: asked.source ?? source }),
  )
}

/** The most that a key's sandboxes may have, from the arguments of `key create`. */
export function capOf(mode: NetworkMode, allow: readonly string[] | undefined): NetworkCap {
  return { mode, ...(allow && { rules: allow.map((text) => grant(text, 'user')) }) }
}

function defaultOf(cap: NetworkCap | undefined): NetworkSpec {
  return { ...DEFAULT_NETWORK, mode: lower(DEFAULT_NETWORK.mode, cap?.mode) }
}

function within(spec: NetworkSpec, cap: NetworkCap | undefined): NetworkSpec {
  if (!cap) return spec
  const mode = lower(spec.mode, cap.mode)
  if (!cap.rules) return { ...spec, mode }
  const { granted } = narrow(rulesOf(spec).rules, rulesOf({ rules: cap.rules, denied: [] }).rules)
  const { addresses: _, ...rest } = spec
  return { ...rest, mode, rules: granted.map(writeRule) }
}

/** Whether a text is an address block and not a host. */
export function isAddressBlock(text: string): boolean {
  return readBlock(text) !== undefined
}

export function lower(asked: NetworkMode, most: NetworkMode | undefined): NetworkMode {
  if (most === undefined) return asked
  return NETWORK_MODES[Math.min(NETWORK_MODES.indexOf(asked), NETWORK_MODES.indexOf(most))] ?? 'off'
}

function checkMode(mode: NetworkMode, cap: NetworkCap | undefined): void {
  if (lower(mode, cap?.mode) !== mode)
    throw beyond(`the network mode of this key's sandboxes may be at most ${cap?.mode}`)
}

function checkRules(rules: readonly NetworkRule[], cap: NetworkCap | undefined): void {
  checkCap(rules.map(readRule), cap)
}

/** `permission_denied` names the rules beyond the cap. */
export function checkCap(rules: readonly Rule[], cap: NetworkCap | undefined): void {
  if (!cap?.rules || rules.length === 0) return
  const { asked } = narrow(rules, cap.rules.map(readRule))
  if (asked) throw beyond(`this key may not reach ${asked.rules.map(describeRule).join('; ')}`)
}

function beyond(message: string): AgentPodError {
  return new AgentPodError({
    code: 'permission_denied',
    reason: 'network.beyond_key',
    message,
    hint: 'ask the admin for a key that allows more (`agentpod key create --net ... --allow ...`)',
  })
}

const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/
const HEADER_VALUE = /^[\t\u0020-\u007e\u0080-\u00ff]{0,8192}$/
/** SECURITY: NW-18, NW-21. Headers that decide where a request goes and how long it is cannot be set. */
const OURS = /^(?:host|content-length|transfer-encoding|connection|keep-alive|upgrade|te|trailer|proxy-.*)$/

function checkedHeaders({ host, headers }: HeaderRule): HeaderRule {
  for (const [name, value] of Object.entries(headers)) {
    if (!HEADER_NAME.test(name) || OURS.test(name.toLowerCase()) || !HEADER_VALUE.test(value))
      throw invalid('network.header', `the header ${JSON.stringify(name)} cannot be set on outgoing requests`)
  }
  const pattern = host.startsWith('*.') ? `*.${parseHostName(host.slice(2))}` : parseHostName(host)
  return { host: pattern, headers }
}

function bounded(spec: NetworkSpec): NetworkSpec {
  if (spec.rules.length + spec.denied.length <= MOST_RULES) return spec
  throw invalid('network.rules', `a sandbox has at most ${MOST_RULES} rules`)
}

function distinct(rules: readonly NetworkRule[]): NetworkRule[] {
  return [...new Map(rules.map((rule) => [JSON.stringify({ ...rule, source: '' }), rule])).values()]
}
