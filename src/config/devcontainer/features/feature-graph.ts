/** Which Features are installed: those of the file, and what they depend on, at any depth. */
import { invalid, isAgentPodError } from '../../../core/error.ts'
import type { Path, Position } from '../../toml/positions.ts'
import { printable, problemsIn, quoted } from '../../toml/problem.ts'
import { type FeatureOptionsValue, MOST_FEATURES } from '../properties.ts'
import { type FeatureLock, lockedDigest } from './feature-lock.ts'
import { parseFeatureMetadata } from './feature-metadata.ts'
import { type FeatureReference, parseFeatureReference } from './feature-reference.ts'
import type { FeatureDocument, FeatureResolver, ResolvedFeature } from './feature-resolver.ts'
import { type FeatureKey, type FeatureNode, installOrder, isSameFeature } from './install-order.ts'

export interface FeaturesRequest {
  /** The devcontainer.json, relative to the project. */
  readonly file: string
  readonly features: Readonly<Record<string, FeatureOptionsValue>>
  readonly overrideFeatureInstallOrder?: readonly string[] | undefined
  readonly lock?: FeatureLock | undefined
  /** The positions in the file, for messages. */
  at?(path: Path): Position | undefined
}

/** The Features in the order of installation. Each reference is fetched once. */
export async function resolveFeatures(
  request: FeaturesRequest,
  resolver: FeatureResolver,
): Promise<readonly ResolvedFeature[]> {
  const { file, lock, overrideFeatureInstallOrder = [] } = request
  const read = new Map<string, Read>()
  const where = (path: Path): string => {
    const position = request.at?.(path)
    return position ? `${file}:${position.line}:${position.column}` : file
  }
  const waiting: Wanted[] = Object.entries(withoutOldFeatures(request.features)).flatMap(
    ([written, options]) =>
      placed(where(['features', written]), () => wantedOf({ [written]: options }, file, true)),
  )
  const found: ResolvedFeature[] = []
  const keys: FeatureKey[] = []
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    const { reference, options, isRequested } = next
    const one =
      read.get(reference.written) ??
      (await readFeature(reference, resolver, lock).catch((error: unknown) =>
        placed(where(isRequested ? ['features', reference.written] : ['features']), () => {
          throw error
        }),
      ))
    read.set(reference.written, one)
    const key = keyOf(reference, options, one)
    if (keys.some((known) => isSameFeature(known, key))) continue
    if (keys.length >= MOST_FEATURES)
      throw invalid('devcontainer.too_many_features', `${file} needs more than ${MOST_FEATURES} Features`)
    keys.push(key)
    found.push({ reference, options, isRequested, ...one })
    waiting.push(...wantedOf(one.metadata.properties.dependsOn ?? {}, file, false))
  }
  const nodes = found.map((feature, index): FeatureNode => {
    const { dependsOn = {}, installsAfter = [] } = feature.metadata.properties
    return {
      ...(keys[index] ?? keyOf(feature.reference, feature.options, feature)),
      feature,
      dependsOn: wantedOf(dependsOn, file, false).flatMap(({ reference, options }) => {
        const one = read.get(reference.written)
        return one ? [keyOf(reference, options, one)] : []
      }),
      installsAfter: installsAfter.map((written) => parseFeatureReference(written, file)),
    }
  })
  return installOrder(nodes, {
    file: where(['features']),
    override: overrideFeatureInstallOrder.map((written, index) =>
      placed(where(['overrideFeatureInstallOrder', index]), () => parseFeatureReference(written, file)),
    ),
  })
}

/** Adds the place in devcontainer.json to an error that has none. */
function placed<T>(where: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    if (!isAgentPodError(error, 'invalid_argument') || problemsIn(error)) throw error
    throw invalid(error.reason, `${where}: ${error.message}`, error.hint)
  }
}

interface Wanted {
  readonly reference: FeatureReference
  readonly options: FeatureOptionsValue
  readonly isRequested: boolean
}

type Read = Pick<ResolvedFeature, 'metadata' | 'digest'>

function wantedOf(
  features: Readonly<Record<string, FeatureOptionsValue>>,
  file: string,
  isRequested: boolean,
): Wanted[] {
  return Object.entries(features).map(([written, options]) => ({
    reference: parseFeatureReference(written, file),
    options,
    isRequested,
  }))
}

function keyOf(reference: FeatureReference, options: FeatureOptionsValue, one: Read): FeatureKey {
  const { id, currentId = id, legacyIds = [] } = one.metadata.properties
  return { reference, options, digest: one.digest, aliases: [currentId, ...legacyIds] }
}

async function readFeature(
  reference: FeatureReference,
  resolver: FeatureResolver,
  lock: FeatureLock | undefined,
): Promise<Read> {
  const { written } = reference
  if (reference.kind === 'folder') {
    const file = `${reference.path}/devcontainer-feature.json`
    const text = await resolver.folder(reference)
    if (text === undefined)
      throw invalid(
        'devcontainer.feature',
        `the Feature ${quoted(written)} has no file ${printable(file, 300)}`,
        'create it, or correct the path; links are not followed',
      )
    return { metadata: parseFeatureMetadata({ file, text }) }
  }
  const pinned = lockedDigest(lock, written)
  const document: FeatureDocument =
    reference.kind === 'registry'
      ? await resolver.artifact(reference, pinned)
      : await resolver.tarball(reference, pinned)
  if (pinned !== undefined && document.digest !== pinned)
    throw invalid(
      'devcontainer.lock',
      `the Feature ${quoted(written)} has the digest ${document.digest}, and the lockfile has ${pinned}`,
      'remove its entry from the lockfile if the change is wanted',
    )
  const metadata = parseFeatureMetadata({ file: written, text: document.metadata })
  return { metadata, digest: document.digest }
}

const OFFICIAL = 'ghcr.io/devcontainers/features'

/** Features that became an option of another one. */
const BECAME_OPTIONS: Readonly<Record<string, readonly [feature: string, option: string]>> = {
  gradle: ['java', 'installGradle'],
  maven: ['java', 'installMaven'],
  jupyterlab: ['python', 'installJupyterlab'],
}

/** As the official command does. Other old names get their registry when the reference is parsed. */
function withoutOldFeatures(
  features: Readonly<Record<string, FeatureOptionsValue>>,
): Readonly<Record<string, FeatureOptionsValue>> {
  const made: Record<string, FeatureOptionsValue> = { ...features }
  for (const [old, [name, option]] of Object.entries(BECAME_OPTIONS)) {
    if (!Object.hasOwn(made, old)) continue
    delete made[old]
    const full = `${OFFICIAL}/${name}`
    const known =
      Object.keys(made).find((key) => key === name || key === full || key.startsWith(`${full}:`)) ??
      `${full}:1`
    const said = made[known]
    made[known] = {
      ...(typeof said === 'object' ? said : typeof said === 'string' ? { version: said } : {}),
      [option]: true,
    }
  }
  return made
}
