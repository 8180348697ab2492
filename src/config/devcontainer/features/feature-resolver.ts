/** How Features are read. The caller fetches; this folder decides what is fetched and what the bytes mean. */
import type { FeatureOptionsValue } from '../properties.ts'
import type { FeatureMetadata } from './feature-metadata.ts'
import type { FeatureReference } from './feature-reference.ts'

export type ReferenceOf<K extends FeatureReference['kind']> = Extract<FeatureReference, { readonly kind: K }>

export interface FeatureDocument {
  /** `sha256:...` of the manifest, or of the tarball. */
  readonly digest: string
  /** The text of devcontainer-feature.json, or of the annotation `dev.containers.metadata`. */
  readonly metadata: string
}

/** `pinned` is the digest of the lockfile: another one is an error. */
export interface FeatureResolver {
  artifact(reference: ReferenceOf<'registry'>, pinned: string | undefined): Promise<FeatureDocument>
  tarball(reference: ReferenceOf<'tarball'>, pinned: string | undefined): Promise<FeatureDocument>
  /** The text of the folder's devcontainer-feature.json, without following links; undefined without one. */
  folder(reference: ReferenceOf<'folder'>): Promise<string | undefined>
}

/** A Feature to install. */
export interface ResolvedFeature {
  readonly reference: FeatureReference
  readonly options: FeatureOptionsValue
  readonly metadata: FeatureMetadata
  /** Folders have none. */
  readonly digest?: string | undefined
  /** Whether devcontainer.json names it, not only another Feature. */
  readonly isRequested: boolean
}
