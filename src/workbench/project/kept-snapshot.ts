/**
 * A snapshot with a copy of a project on its environment, kept between commands. An unchanged project is not
 * copied again; a changed one continues the newest snapshot of the same environment.
 */
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentPod } from '../../client/client.ts'
import type { CreateOptions, Sandbox } from '../../client/sandbox.ts'
import type { Snapshot } from '../../client/snapshots.ts'
import { isAgentPodError } from '../../core/error.ts'
import { PREPARED_LABEL } from '../../core/snapshot.ts'
import { canonicalJson } from '../../util/canonical-json.ts'
import { dropUndefined } from '../../util/drop-undefined.ts'
import { makeDirectory } from '../../util/file/make-directory.ts'
import { writeDurably } from '../../util/file/write-durably.ts'
import { sha256Hex } from '../../util/sha256.ts'
import type { Prebuild } from '../devcontainer/lifecycle-scripts.ts'
import { interruptibly, makeInterruptibly } from '../on-interrupt.ts'
import type { Workbench } from '../workbench.ts'
import { projectDirectory } from './project-state.ts'

const STATE_LABEL = 'agentpod/state'
const ENVIRONMENT_LABEL = 'agentpod/environment'
/** How many states of one project are kept. */
const KEPT_SNAPSHOTS = 8
const PREPARE_TTL_MS = 30 * 60_000
const PREBUILD_TTL_MS = 90 * 60_000

/** Commands of a devcontainer that prepare the copy, and what they run with. */
export interface CopyPrebuild {
  readonly scripts: Prebuild
  readonly environment: Pick<
    NonNullable<CreateOptions['environment']>,
    'variables' | 'unset' | 'path' | 'sudo'
  >
  readonly network: CreateOptions['network'] | undefined
  /** Settings of package managers, below the user's home. */
  readonly files: readonly { readonly path: string; readonly text: string }[]
}

/** What the copy is on. Another environment needs another copy. */
export interface CopyEnvironment {
  /** The options of the sandboxes that start from the snapshot. */
  readonly options: CreateOptions
  readonly user: string
  readonly generated: readonly string[]
  /** The directory of the copy. */
  readonly workspace: string
  readonly prebuild?: CopyPrebuild | undefined
}

/** What the copy holds. */
export interface CopyState {
  /** The key of the project. */
  readonly key: string
  /** Two copies with equal digests hold the same files. */
  readonly digest: string
  /** Kept with the snapshot, for the copy that continues it. */
  readonly record: string
  /** Brings the files in. `last` is the record of the snapshot that the sandbox was made from. */
  send(sandbox: Sandbox, last: string | undefined): Promise<void>
}

interface Place {
  readonly bench: Workbench
  readonly pod: AgentPod
  readonly on: CopyEnvironment
  readonly state: CopyState
  /** Where the records are. */
  readonly directory: string
}

/** The id of the snapshot. */
export async function keptSnapshot(
  bench: Workbench,
  pod: AgentPod,
  on: CopyEnvironment,
  state: CopyState,
): Promise<string> {
  const place = { bench, pod, on, state, directory: projectDirectory(bench.home, state.key) }
  const labels = {
    [PREPARED_LABEL]: state.key.slice(0, 40),
    [ENVIRONMENT_LABEL]: environmentKey(place),
    [STATE_LABEL]: state.digest,
  }
  const found = await pod.snapshots.list({ labels: { [PREPARED_LABEL]: labels[PREPARED_LABEL] } })
  // SECURITY: anyone may set labels, and an admin sees every owner's snapshots. A snapshot with our labels
  // could decide what runs with our key. So a snapshot counts as ours only if this machine recorded that it
  // took it.
  const ours = found.filter((one) => existsSync(recordFile(place, one.id)))
  const usable = ours.filter(
    (one) => one.state === 'ready' && one.labels[ENVIRONMENT_LABEL] === labels[ENVIRONMENT_LABEL],
  )
  const same = usable.find((one) => one.labels[STATE_LABEL] === labels[STATE_LABEL])
  if (same) return same.id
  const [last] = usable
  using progress = bench.person.progress({})
  progress.status(last ? 'updating the copy of the project' : 'copying the project')
  const sandbox = await makeInterruptibly(() => preparing(place, last))
  const fill = async (): Promise<string> => {
    await state.send(sandbox, last && readRecord(place, last.id))
    const { prebuild, user } = on
    if (prebuild) {
      const { runPrebuild } = await import('../devcontainer/run-prebuild.ts')
      for (const { path, text } of prebuild.files) await sandbox.writeFile(path, Buffer.from(text), { user })
      await runPrebuild(bench, sandbox, { prebuild: prebuild.scripts, user, isNew: last === undefined })
    }
    // The snapshot of a stopped sandbox needs no pause.
    await sandbox.stop()
    const taken = await sandbox.snapshot({ labels })
    makeDirectory(place.directory, 0o700)
    writeDurably(recordFile(place, taken.id), Buffer.from(state.record))
    await forgetOlder(place, ours.slice(KEPT_SNAPSHOTS - 1))
    return taken.id
  }
  try {
    return await interruptibly(() => sandbox.destroy(), fill)
  } finally {
    await sandbox.destroy()
  }
}

/**
 * SECURITY: only the copy, and commands of the project's devcontainer, have run in this sandbox when its
 * snapshot is taken: no services, no agent, and without such commands no network. It is created with nothing
 * but the options in `environmentKey`: later runs inherit what they do not set, so a sandbox with sudo must
 * not lead to others with sudo.
 */
function preparing({ pod, on }: Place, last: Snapshot | undefined): Promise<Sandbox> {
  const { base, image, digest, user } = on.options.environment ?? {}
  const { diskMib } = on.options.resources ?? {}
  const environment = { base, image, digest, user, ...on.prebuild?.environment }
  return pod.create({
    ...(on.options.provider !== undefined && !last && { provider: on.options.provider }),
    ...(on.options.isolation !== undefined && { isolation: on.options.isolation }),
    labels: { 'agentpod/preparing': 'project' },
    resources: { diskMib },
    // Runs inherit them from the snapshot.
    ...(on.options.ephemeral && { ephemeral: on.options.ephemeral }),
    network: on.prebuild
      ? { mode: 'allowlist', allow: [], ...dropUndefined(on.prebuild.network ?? {}) }
      : { mode: 'off' },
    lifetime: { ttlMs: on.prebuild ? PREBUILD_TTL_MS : PREPARE_TTL_MS, whenOver: 'destroy' },
    ...(last ? { snapshot: last.id } : { environment }),
  })
}

function environmentKey({ state: { key }, on }: Place): string {
  const { base, image, digest, user } = on.options.environment ?? {}
  const { diskMib } = on.options.resources ?? {}
  const { provider, isolation } = on.options
  const known = {
    key,
    base,
    ...(image !== undefined && { image }),
    ...(provider !== undefined && { provider }),
    ...(isolation !== undefined && { isolation }),
    digest,
    user: user ?? on.user,
    workspace: on.workspace,
    aside: on.generated,
    diskMib,
    ...(on.prebuild && { prebuild: on.prebuild }),
    ...(on.options.ephemeral && { ephemeral: on.options.ephemeral }),
  }
  return sha256Hex(canonicalJson({ ...known, form: 2 })).slice(0, 40)
}

function recordFile({ directory }: Place, snapshot: string): string {
  return join(directory, `sent-${snapshot}.json`)
}

/** An empty record means that everything is sent. */
function readRecord(place: Place, snapshot: string): string {
  try {
    return readFileSync(recordFile(place, snapshot), 'utf8')
  } catch {
    return ''
  }
}

/** A snapshot that a sandbox is being created from cannot be removed now; a later call removes it. */
async function forgetOlder(place: Place, old: readonly Snapshot[]): Promise<void> {
  for (const { id } of old) {
    try {
      await place.pod.snapshots.remove(id)
      rmSync(recordFile(place, id), { force: true })
    } catch (error) {
      if (!isAgentPodError(error)) throw error
    }
  }
}
