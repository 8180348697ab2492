/** Gets Features of development containers with podimage, by the same rules as images. */
import { closeSync, fstatSync, openSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import * as z from 'zod'
import { AgentPodError, invalid } from '../../../core/error.ts'
import { parseImageRef } from '../../../core/image-ref.ts'
import type { FetchedFeature, PullOptions } from '../../../core/provider.ts'
import { randomWord, systemRandom } from '../../../util/random.ts'
import { sha256Hex } from '../../../util/sha256.ts'
import type { Podimage } from './podimage.ts'
import { endpointsOf, type Registries } from './registries.ts'

const fetched = z.object({
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  metadata: z.string().max(1024 * 1024),
  archiveDigest: z.string().regex(/^[0-9a-f]{64}$/),
  sizeBytes: z.number(),
})

/** More than podimage writes for 32 MiB of files. */
const LARGEST_ARCHIVE = 48 * 1024 * 1024

export interface FeatureParts {
  readonly podimage: Podimage
  readonly registries: Registries
  readonly exchange: string
}

export async function fetchFeature(
  { podimage, registries, exchange }: FeatureParts,
  ref: string,
  o: PullOptions,
): Promise<FetchedFeature> {
  const source = await sourceOf(ref, registries, o)
  const file = join(exchange, `image-${randomWord(systemRandom, 16)}.feature`)
  const fd = openSync(file, 'wx', 0o600)
  const late = AbortSignal.timeout(o.timeoutMs)
  try {
    const answer = await podimage(
      { op: 'feature', ...source },
      { files: [fd], signal: o.signal ? AbortSignal.any([o.signal, late]) : late },
    )
    const { digest, metadata, archiveDigest } = fetched.parse(answer)
    if (fstatSync(fd).size > LARGEST_ARCHIVE) throw damaged(ref)
    const archive = await readFile(file)
    if (sha256Hex(archive) !== archiveDigest) throw damaged(ref)
    return { digest, metadata, archive }
  } finally {
    closeSync(fd)
    await rm(file, { force: true })
  }
}

async function sourceOf(
  ref: string,
  registries: Registries,
  { isAnonymous }: PullOptions,
): Promise<Readonly<Record<string, unknown>>> {
  if (/^https?:/.test(ref)) {
    // A web server gets no credential of a registry.
    const [endpoint] = await endpointsOf(hostOf(ref), registries, {
      useMirrors: false,
      isAnonymous: true,
    })
    return { endpoints: [endpoint], feature: { url: ref } }
  }
  const { registry, repository, tag, digest } = parseImageRef(ref)
  const endpoints = await endpointsOf(registry, registries, { useMirrors: true, isAnonymous })
  return { endpoints, repository, reference: digest ?? tag, feature: {} }
}

function hostOf(address: string): string {
  const url = URL.parse(address)
  if (url) return url.host
  throw invalid(
    'feature.address',
    `${JSON.stringify(address)} is not the address of a Feature`,
    'it is https://HOST/PATH/devcontainer-feature-ID.tgz',
  )
}

function damaged(ref: string): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'feature.damaged',
    message: `the archive of ${ref} was damaged on its way`,
    hint: 'try again',
  })
}
