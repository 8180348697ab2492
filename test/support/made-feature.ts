/** Features of development containers, as `devcontainer features publish` stores them in a registry. */
import { gzipSync } from 'node:zlib'
import { type Blob, blobOf, descriptor, jsonBlob } from './made-image.ts'
import { type TarEntry, tarOf } from './tar-bytes.ts'
import type { ToyRegistry } from './toy-registry.ts'

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json'

export interface FeatureParts {
  readonly id: string
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly script?: string
  readonly more?: readonly TarEntry[]
  /** The media type says tar in both cases. */
  readonly isPlain?: boolean
  readonly hasAnnotation?: boolean
}

export function featureArchive({ id, metadata, script = 'exit 0\n', more = [] }: FeatureParts): Buffer {
  const described = { id, version: '1.2.3', name: id, ...metadata }
  return tarOf([
    { name: './', type: 'directory' },
    { name: './devcontainer-feature.json', content: Buffer.from(JSON.stringify(described)) },
    { name: './install.sh', content: Buffer.from(`#!/bin/sh\nset -e\n${script}`) },
    ...more,
  ])
}

/** Stores a Feature under the tags that the official command gives it. Returns the digest of its manifest. */
export function putFeature(registry: ToyRegistry, namespace: string, parts: FeatureParts): string {
  const tar = featureArchive(parts)
  return putFeatureArchive(registry, namespace, parts, parts.isPlain ? tar : gzipSync(tar))
}

export function putFeatureArchive(
  registry: ToyRegistry,
  namespace: string,
  { id, metadata, hasAnnotation = true }: FeatureParts,
  archive: Buffer,
): string {
  const config = blobOf(Buffer.from('{}'), 'application/vnd.devcontainers')
  const layer = blobOf(archive, 'application/vnd.devcontainers.layer.v1+tar')
  const described = JSON.stringify({ id, version: '1.2.3', name: id, ...metadata })
  const manifest: Blob = jsonBlob(
    {
      schemaVersion: 2,
      mediaType: MANIFEST,
      config: descriptor(config),
      layers: [descriptor(layer)],
      annotations: {
        'com.github.package.type': 'devcontainer_feature',
        ...(hasAnnotation && { 'dev.containers.metadata': described }),
      },
    },
    MANIFEST,
  )
  registry.putBlob(config)
  registry.putBlob(layer)
  for (const tag of ['1', '1.2', '1.2.3', 'latest']) registry.putManifest(`${namespace}/${id}`, tag, manifest)
  return manifest.digest
}
