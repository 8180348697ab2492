/** Container images made in tests, and a way to put them into a registry. */
import { createHash } from 'node:crypto'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { type TarEntry, tarOf } from './tar-bytes.ts'

export type Compression = 'gzip' | 'zstd' | 'none'

export interface Blob {
  readonly digest: string
  readonly data: Buffer
  readonly mediaType: string
}

export interface MadeImage {
  readonly manifest: Blob
  readonly blobs: readonly Blob[]
}

export interface ImageParts {
  readonly layers: readonly (readonly TarEntry[])[]
  readonly config?: Readonly<Record<string, unknown>>
  readonly compression?: Compression
  /** Docker's media types in place of those of the OCI. */
  readonly isDocker?: boolean
  readonly architecture?: string
  readonly os?: string
}

export const ARCHITECTURE = process.arch === 'x64' ? 'amd64' : process.arch
const OCI = 'application/vnd.oci.image'
const DOCKER = 'application/vnd.docker'

export function sha256(data: Buffer): string {
  return `sha256:${createHash('sha256').update(data).digest('hex')}`
}

export function blobOf(data: Buffer, mediaType: string): Blob {
  return { digest: sha256(data), data, mediaType }
}

export function jsonBlob(value: unknown, mediaType: string): Blob {
  return blobOf(Buffer.from(JSON.stringify(value)), mediaType)
}

export function makeImage(parts: ImageParts): MadeImage {
  const tars = parts.layers.map(tarOf)
  return imageOfTars(tars, parts)
}

export function imageOfTars(tars: readonly Buffer[], parts: Omit<ImageParts, 'layers'>): MadeImage {
  const { compression = 'gzip', isDocker = false } = parts
  const layers = tars.map((tar) => blobOf(compress(tar, compression), layerType(compression, isDocker)))
  const config = jsonBlob(
    {
      architecture: parts.architecture ?? ARCHITECTURE,
      os: parts.os ?? 'linux',
      config: parts.config ?? {},
      rootfs: { type: 'layers', diff_ids: tars.map(sha256) },
    },
    isDocker ? `${DOCKER}.container.image.v1+json` : `${OCI}.config.v1+json`,
  )
  return { manifest: manifestOf(config, layers, isDocker), blobs: [config, ...layers] }
}

export function manifestOf(config: Blob, layers: readonly Blob[], isDocker = false): Blob {
  const mediaType = isDocker ? `${DOCKER}.distribution.manifest.v2+json` : `${OCI}.manifest.v1+json`
  return jsonBlob(
    { schemaVersion: 2, mediaType, config: descriptor(config), layers: layers.map(descriptor) },
    mediaType,
  )
}

export function descriptor({ mediaType, digest, data }: Blob): object {
  return { mediaType, digest, size: data.length }
}

/** An index with an image for each platform, and an attestation as BuildKit adds it. */
export function indexOf(
  images: readonly { readonly image: MadeImage; readonly platform: Readonly<Record<string, string>> }[],
): Blob {
  const attestation = jsonBlob(
    { schemaVersion: 2, mediaType: `${OCI}.manifest.v1+json` },
    `${OCI}.manifest.v1+json`,
  )
  return jsonBlob(
    {
      schemaVersion: 2,
      mediaType: `${OCI}.index.v1+json`,
      manifests: [
        {
          ...descriptor(attestation),
          platform: { os: 'unknown', architecture: 'unknown' },
          annotations: { 'vnd.docker.reference.type': 'attestation-manifest' },
        },
        ...images.map(({ image, platform }) => ({ ...descriptor(image.manifest), platform })),
      ],
    },
    `${OCI}.index.v1+json`,
  )
}

function compress(tar: Buffer, compression: Compression): Buffer {
  if (compression === 'gzip') return gzipSync(tar)
  return compression === 'zstd' ? zstdCompressSync(tar) : tar
}

function layerType(compression: Compression, isDocker: boolean): string {
  const kind = isDocker ? `${DOCKER}.image.rootfs.diff.tar` : `${OCI}.layer.v1.tar`
  const sign = isDocker ? '.' : '+'
  return compression === 'none' ? kind : `${kind}${sign}${compression}`
}
