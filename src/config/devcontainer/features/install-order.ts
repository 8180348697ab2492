/**
 * The order in which Features are installed, as the official command computes it: in rounds. Each round takes
 * every Feature whose dependencies are installed, keeps those of the highest priority, and sorts them.
 *
 * Where the specification's text and the official command differ, this follows the command: fewer options
 * sort first, tags are compared as text, and folders are the same if path and options are.
 */
import { invalid } from '../../../core/error.ts'
import { printable } from '../../toml/problem.ts'
import type { FeatureOptionsValue } from '../properties.ts'
import { type FeatureReference, featureResource } from './feature-reference.ts'
import type { ResolvedFeature } from './feature-resolver.ts'

/** What tells two Features apart. */
export interface FeatureKey {
  readonly reference: FeatureReference
  readonly options: FeatureOptionsValue
  readonly digest?: string | undefined
  /** The id and the ids that it had before. */
  readonly aliases: readonly string[]
}

export interface FeatureNode extends FeatureKey {
  readonly feature: ResolvedFeature
  readonly dependsOn: readonly FeatureKey[]
  /** Only those that are installed count. */
  readonly installsAfter: readonly FeatureReference[]
}

export interface OrderRequest {
  /** The name of the file in messages. */
  readonly file: string
  readonly override: readonly FeatureReference[]
}

export function installOrder(nodes: readonly FeatureNode[], o: OrderRequest): readonly ResolvedFeature[] {
  const soft = new Map(nodes.map((node) => [node, softDependencies(node, nodes)]))
  const priorities = new Map(nodes.map((node) => [node, priorityOf(node, o.override)]))
  const installed: FeatureNode[] = []
  let left = nodes
  const isReady = (node: FeatureNode): boolean =>
    node.dependsOn.every((one) => installed.some((done) => isSameFeature(done, one))) &&
    (soft.get(node) ?? []).every((one) => installed.some((done) => isNamed(done, one)))
  while (left.length > 0) {
    const ready = left.filter(isReady)
    if (ready.length === 0) throw cycleError(left, soft, o.file)
    const highest = Math.max(...ready.map((node) => priorities.get(node) ?? 0))
    const round = ready.filter((node) => priorities.get(node) === highest)
    left = left.filter((node) => !round.includes(node))
    installed.push(...round.toSorted(compareFeatures))
  }
  return installed.map(({ feature }) => feature)
}

export function isSameFeature(one: FeatureKey, other: FeatureKey): boolean {
  return one.reference.kind === other.reference.kind && compareFeatures(one, other) === 0
}

/** Whether a reference without version and options means this Feature, by its name or an earlier one. */
function isNamed({ reference, aliases }: FeatureKey, name: FeatureReference): boolean {
  if (reference.kind !== name.kind) return false
  if (featureResource(reference) === featureResource(name)) return true
  if (reference.kind !== 'registry' || name.kind !== 'registry') return false
  const isNeighbour = reference.registry === name.registry && reference.namespace === name.namespace
  return isNeighbour && aliases.includes(name.id)
}

function softDependencies(node: FeatureNode, nodes: readonly FeatureNode[]): readonly FeatureReference[] {
  return node.installsAfter.filter((name) => nodes.some((one) => isNamed(one, name)))
}

/** Aliases do not count here. The first of n names has the priority n. */
function priorityOf({ reference }: FeatureKey, override: readonly FeatureReference[]): number {
  const at = override.findIndex(
    (name) => name.kind === reference.kind && featureResource(name) === featureResource(reference),
  )
  return at < 0 ? 0 : override.length - at
}

function compareFeatures(one: FeatureKey, other: FeatureKey): number {
  const [a, b] = [one.reference, other.reference]
  if (a.kind !== b.kind) return compareTexts(a.written, b.written)
  if (a.kind !== 'registry' || b.kind !== 'registry')
    return compareTexts(featureResource(a), featureResource(b)) || compareOptions(one.options, other.options)
  if (one.digest === other.digest && compareOptions(one.options, other.options) === 0) return 0
  return (
    compareTexts(`${a.registry}/${a.namespace}`, `${b.registry}/${b.namespace}`) ||
    (one.aliases.some((alias) => other.aliases.includes(alias)) ? 0 : compareTexts(a.id, b.id)) ||
    (a.tag !== undefined && b.tag !== undefined ? compareTexts(a.tag, b.tag) : 0) ||
    compareOptions(one.options, other.options) ||
    compareTexts(one.digest ?? '', other.digest ?? '')
  )
}

function compareOptions(one: FeatureOptionsValue, other: FeatureOptionsValue): number {
  if (typeof one === 'string' && typeof other === 'string') return compareTexts(one, other)
  if (typeof one === 'boolean' && typeof other === 'boolean') return Number(one) - Number(other)
  if (typeof one !== 'object' || typeof other !== 'object') return compareTexts(typeof one, typeof other)
  const [keys, others] = [Object.keys(one).toSorted(), Object.keys(other).toSorted()]
  if (keys.length !== others.length) return keys.length - others.length
  for (const [index, key] of keys.entries()) {
    const otherKey = others[index] ?? ''
    if (key !== otherKey) return compareTexts(key, otherKey)
    const [value, otherValue] = [one[key], other[key]]
    // Values of different types count as equal, as they do for the official command.
    const isComparable = value !== undefined && typeof value === typeof otherValue
    const order = isComparable ? compareOptions(value, otherValue ?? '') : 0
    if (order !== 0) return order
  }
  return 0
}

/** As the official command sorts in its usual language. */
function compareTexts(one: string, other: string): number {
  return one.localeCompare(other, 'en')
}

/** One cycle among the Features that are left: each of them waits for another one. */
function cycleError(
  left: readonly FeatureNode[],
  soft: ReadonlyMap<FeatureNode, readonly FeatureReference[]>,
  file: string,
): Error {
  const trail: FeatureNode[] = []
  let node = left[0]
  while (node && !trail.includes(node)) {
    trail.push(node)
    const current: FeatureNode = node
    node = left.find(
      (one) =>
        current.dependsOn.some((key) => isSameFeature(one, key)) ||
        (soft.get(current) ?? []).some((name) => isNamed(one, name)),
    )
  }
  const cycle = [...trail.slice(node ? trail.indexOf(node) : 0), ...(node ? [node] : [])]
  const names = cycle.map(({ reference }) => printable(reference.written, 100))
  return invalid(
    'devcontainer.feature_cycle',
    `${file}: Features wait for each other: ${names.join(' -> ')}`,
    'remove one of them, or a dependsOn or installsAfter between them',
  )
}
