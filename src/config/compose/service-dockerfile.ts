/** The Dockerfile of a service that is built. */
import { posix } from 'node:path'
import type { BaseDockerfile } from '../../bases/base-kind.ts'
import { dockerfileImages } from '../project/dockerfile-images.ts'
import type { ComposeService } from './model.ts'

/**
 * Undefined if the service is not built. A file that cannot be read names no image; building it is an error
 * that says why.
 */
export function serviceDockerfile(
  tree: { read(file: string): string | undefined },
  { build }: Pick<ComposeService, 'build'>,
): BaseDockerfile | undefined {
  if (!build) return undefined
  const { context, target, args } = build
  const file = posix.join(context, build.dockerfile ?? 'Dockerfile')
  const text = tree.read(file)
  return { file, context, target, args, images: text === undefined ? [] : dockerfileImages(text, args) }
}
