/**
 * Features that devcontainers name, from registries, tarballs and folders of the project. What was fetched is
 * kept under its digest, so an unchanged devcontainer needs no registry.
 */
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import * as z from 'zod'
import type { FeatureFiles } from '../../client/images.ts'
import type {
  FeatureDocument,
  FeatureResolver,
  ResolvedFeature,
} from '../../config/devcontainer/features/feature-resolver.ts'
import { AgentPodError, invalid, isAgentPodError } from '../../core/error.ts'
import { packContents } from '../../sync/tar.ts'
import { systemClock } from '../../util/clock.ts'
import { makeDirectory } from '../../util/file/make-directory.ts'
import { readListed } from '../../util/file/read-inside.ts'
import { writeDurably } from '../../util/file/write-durably.ts'
import { sha256Hex } from '../../util/sha256.ts'
import type { ProjectFiles } from '../environment/detect-project.ts'
import type { Workbench } from '../workbench.ts'

/** What a tag stands for is asked again after this time. */
const TAG_MS = 24 * 3_600_000
const LARGEST_FILE = 8 * 1024 * 1024
const MOST_FOLDER_BYTES = 32 * 1024 * 1024
const METADATA = 'devcontainer-feature.json'
const SCRIPT = 'install.sh'

const digest = z.string().regex(/^sha256:[0-9a-f]{64}$/)
const known = z.strictObject({ digest, at: z.number() })
const kept = z.strictObject({ metadata: z.string(), archive: z.string().regex(/^[0-9a-f]{64}$/) })

export interface FeatureStore extends FeatureResolver {
  /** The clean archive of a Feature that was resolved. */
  archiveOf(feature: Pick<ResolvedFeature, 'reference' | 'digest'>): Buffer
}

export function featureStore(bench: Workbench, project: ProjectFiles): FeatureStore {
  const directory = join(bench.home.root, 'cache', 'features')
  const fetched = new Map<string, FeatureFiles>()

  const getFeature = async (ref: string, pinned: string | undefined): Promise<FeatureDocument> => {
    const there = stored(directory, pinned ?? knownTag(directory, ref))
    if (there) return remember(there)
    try {
      const pod = await bench.client()
      using progress = bench.person.progress({})
      progress.status(`getting the Feature ${ref}`)
      const found = await pod.images.feature(ref)
      if (pinned !== undefined && found.digest !== pinned) throw otherDigest(ref, found.digest, pinned)
      keep(directory, ref, found)
      return remember(found)
    } catch (error) {
      const last = stored(directory, knownTag(directory, ref, Number.POSITIVE_INFINITY))
      if (pinned !== undefined || !last || !isAgentPodError(error, 'unavailable')) throw named(error, ref)
      const text = `the Feature ${ref} is used as it was last fetched: ${error.message}`
      bench.person.notice({ kind: 'note', text })
      return remember(last)
    }
  }
  const remember = (found: FeatureFiles): FeatureDocument => {
    fetched.set(found.digest, found)
    return found
  }

  return {
    artifact: ({ registry, namespace, id, tag, digest: own }, pinned) => {
      const name = `${registry}/${namespace}/${id}`
      const wanted = own ?? pinned
      return getFeature(wanted === undefined ? `${name}:${tag}` : `${name}@${wanted}`, wanted)
    },
    tarball: ({ url }, pinned) => getFeature(url, pinned),
    folder: async ({ path }) =>
      readListed(realpathSync(project.directory), `${path}/${METADATA}`, {
        isListed: (file) => project.files.includes(file),
        mostBytes: LARGEST_FILE,
      })?.data.toString('utf8'),
    archiveOf({ reference, digest: of }) {
      if (reference.kind === 'folder') return folderArchive(project, reference.path)
      const found = of === undefined ? undefined : fetched.get(of)
      if (!found) throw new TypeError(`the Feature ${reference.written} was not fetched`)
      return found.archive
    },
  }
}

/** SECURITY: CF-02, CF-05. Only regular files that are really among those of the project. */
function folderArchive(project: ProjectFiles, path: string): Buffer {
  const root = realpathSync(project.directory)
  const listed = new Set(project.files)
  const isListed = (file: string): boolean => listed.has(file)
  let bytes = 0
  const contents = project.files
    .filter((file) => file.startsWith(`${path}/`))
    .flatMap((file) => {
      const read = readListed(root, file, { isListed, mostBytes: LARGEST_FILE })
      if (!read) return []
      bytes += read.data.length
      if (bytes > MOST_FOLDER_BYTES)
        throw invalid('feature.too_large', `the Feature in ${path} is larger than ${MOST_FOLDER_BYTES} bytes`)
      return [{ path: file.slice(path.length + 1), ...read }]
    })
  if (!contents.some((one) => one.path === SCRIPT))
    throw invalid('feature.script', `the Feature in ${path} has no ${SCRIPT}`, 'add the file to the project')
  return packContents(contents)
}

function knownTag(directory: string, ref: string, mostMs = TAG_MS): string | undefined {
  const found = known.safeParse(readJson(join(directory, `${sha256Hex(Buffer.from(ref))}.tag`)))
  if (!found.success || systemClock.now() - found.data.at > mostMs) return undefined
  return found.data.digest
}

function stored(directory: string, of: string | undefined): FeatureFiles | undefined {
  if (of === undefined) return undefined
  const path = join(directory, of.replace('sha256:', ''))
  const found = kept.safeParse(readJson(`${path}.json`))
  if (!found.success || !existsSync(`${path}.tar`)) return undefined
  const archive = readFileSync(`${path}.tar`)
  if (sha256Hex(archive) !== found.data.archive) return undefined
  return { digest: of, metadata: found.data.metadata, archive }
}

function keep(directory: string, ref: string, found: FeatureFiles): void {
  makeDirectory(directory, 0o700)
  const path = join(directory, found.digest.replace('sha256:', ''))
  writeDurably(`${path}.tar`, found.archive)
  const about = { metadata: found.metadata, archive: sha256Hex(found.archive) }
  writeDurably(`${path}.json`, Buffer.from(JSON.stringify(about)))
  const tag = { digest: found.digest, at: systemClock.now() }
  writeDurably(join(directory, `${sha256Hex(Buffer.from(ref))}.tag`), Buffer.from(JSON.stringify(tag)))
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return undefined
  }
}

function otherDigest(ref: string, found: string, pinned: string): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'feature.locked',
    message: `the Feature ${ref} is ${found}, and the lockfile pins ${pinned}`,
    hint: 'update the lockfile, or use the version that it names',
  })
}

/** Errors of registries speak of images. */
function named(error: unknown, ref: string): unknown {
  if (!isAgentPodError(error) || error.message.includes('Feature')) return error
  const { code, reason, message, hint, details } = error
  return new AgentPodError({
    code,
    reason,
    message: `the Feature ${ref} could not be fetched: ${message}`,
    // The registry's hints are about images.
    hint: hint?.includes('agentpod image')
      ? 'check the name of the Feature, its registry and the network'
      : hint,
    details,
    cause: error,
  })
}
