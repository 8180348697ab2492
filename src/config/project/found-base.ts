/** A base that a file other than agentpod.toml names: an image, or a Dockerfile of the project. */
import type { BaseDockerfile } from '../../bases/base-kind.ts'
import type { Evidence, Rank } from '../evidence.ts'
import { NO_PRIVILEGES, type Privileges } from '../grants/privileges.ts'

export interface FoundBase {
  /** Exactly one of the two. */
  readonly image?: string | undefined
  readonly dockerfile?: BaseDockerfile | undefined
  readonly evidence: Evidence
  readonly rank: Rank
}

/** SECURITY: CF-02. It needs the same approval as `image` and `dockerfile` in agentpod.toml. */
export function basePrivileges({ image, dockerfile }: FoundBase): Privileges {
  const images = [...(image === undefined ? [] : [image]), ...(dockerfile?.images ?? [])]
  return {
    ...NO_PRIVILEGES,
    ...(images.length > 0 && { images }),
    ...(dockerfile && { dockerfiles: [dockerfile.file] }),
  }
}

/** `the image node:22`, `the Dockerfile docker/dev.Dockerfile`. */
export function baseText({ image, dockerfile }: FoundBase): string {
  return dockerfile ? `the Dockerfile ${dockerfile.file}` : `the image ${image}`
}
