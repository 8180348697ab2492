/** What a build of a Dockerfile is asked for, and what it gives. */
import type { NetworkRule } from '../../core/network.ts'
import type { BuildJob } from '../build-request.ts'
import type { LintWarning } from './graph.ts'

export interface DockerfileRequest {
  /** How errors name the file: `Dockerfile`. */
  readonly name: string
  readonly content: string
  readonly target?: string | undefined
  readonly args: Readonly<Record<string, string>>
  /** sha256 of the build context, a tar archive that was uploaded; undefined if there is none. */
  readonly context?: string | undefined
  /** The only images that it may use; any if left out. */
  readonly images?: readonly string[] | undefined
  /** Values by id. They are in no layer, key, record or log. */
  readonly secrets: Readonly<Record<string, string>>
  /** The hosts that commands may reach, and that ADD fetches from. */
  readonly network: readonly NetworkRule[]
  /** Hosts that they may not reach, whatever allows them. */
  readonly deny: readonly NetworkRule[]
  /** The reference to store the image under. */
  readonly tag?: string | undefined
  readonly useCache: boolean
  readonly timeoutMs: number
}

export type DockerfileJob = Omit<BuildJob, 'again'> & {
  onWarnings(warnings: readonly LintWarning[]): void | Promise<void>
}

export type DockerfileResult =
  | {
      readonly kind: 'built'
      /** The key of the last layer; undefined if the result is an image as it is. */
      readonly digest: string | undefined
      /** The stored image, if a reference was given. */
      readonly image: { readonly ref: string; readonly digest: string } | undefined
      /** The image's configuration as JSON. */
      readonly config: string
      readonly steps: number
      readonly sizeBytes: number
    }
  /** These archives have to be uploaded first. */
  | { readonly kind: 'needs'; readonly files: readonly string[] }
