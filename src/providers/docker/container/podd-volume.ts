/**
 * The volume that contains podd. All containers of one owner share it read-only: no program inside can
 * replace podd, no snapshot contains it, and the machine has it in memory once. It is filled through a
 * container that never runs.
 */

import { readFile } from 'node:fs/promises'
import type { CallOptions } from '../../../core/call.ts'
import { isAgentPodError } from '../../../core/error.ts'
import type { OwnerLabel } from '../../../core/id.ts'
import { packTar } from '../../../util/file/tar-writer.ts'
import { sha256Hex } from '../../../util/sha256.ts'
import type { Daemon } from '../daemon/daemon.ts'
import { OWNER_LABEL, PODD_LABEL, volumeName } from '../names.ts'
import { PODD_PATH, PROGRAMS_PATH } from './initial-files.ts'

/** Written last: a volume without it is incomplete. */
const COMPLETE = 'complete'
/** Filling and cleaning up have their own time limits, since the first caller does it for all. */
const FILL: CallOptions = { timeoutMs: 120_000 }
const UNDO: CallOptions = { timeoutMs: 20_000 }

export interface PoddVolumeOptions {
  readonly daemon: Daemon
  readonly owner: OwnerLabel
  readonly poddFile: string
}

export class PoddVolume {
  readonly #options: PoddVolumeOptions
  #filled: Promise<string> | undefined

  constructor(options: PoddVolumeOptions) {
    this.#options = options
  }

  /** The volume's name. `image` is any image of the daemon. */
  ensure(image: string): Promise<string> {
    if (this.#filled) return this.#filled
    const filled = this.#fill(image, FILL)
    this.#filled = filled
    filled.catch(() => this.forget())
    return filled
  }

  /** The volume was removed by somebody else. */
  forget(): void {
    this.#filled = undefined
  }

  async #fill(image: string, o: CallOptions): Promise<string> {
    const { daemon, owner, poddFile } = this.#options
    const podd = await readFile(poddFile)
    const digest = sha256Hex(podd)
    const name = volumeName(owner, digest)
    const labels = { [OWNER_LABEL]: owner, [PODD_LABEL]: digest }
    await daemon.json({ method: 'POST', path: '/volumes/create', body: { Name: name, Labels: labels } }, o)
    // Always the same name, so that a container left by a lost answer is found again.
    const filler = `${name}-filler`
    await removeContainer(daemon, filler, o)
    try {
      const body = fillerBody(image, name, labels)
      await daemon.json({ method: 'POST', path: '/containers/create', query: { name: filler }, body }, o)
      if (!(await hasFile(daemon, filler, `${PROGRAMS_PATH}/${COMPLETE}`, o))) {
        await putFile(daemon, filler, { path: 'podd', mode: 0o555, content: podd }, o)
        await putFile(daemon, filler, { path: COMPLETE, mode: 0o444, content: Buffer.from(digest) }, o)
      }
    } finally {
      await removeContainer(daemon, filler, UNDO)
    }
    return name
  }
}

function fillerBody(image: string, volume: string, labels: Readonly<Record<string, string>>): object {
  return {
    Image: image,
    Entrypoint: [PODD_PATH],
    Cmd: [],
    Labels: labels,
    NetworkDisabled: true,
    HostConfig: {
      NetworkMode: 'none',
      Mounts: [{ Type: 'volume', Source: volume, Target: PROGRAMS_PATH, VolumeOptions: { NoCopy: true } }],
    },
  }
}

async function removeContainer(daemon: Daemon, name: string, o: CallOptions): Promise<void> {
  try {
    await daemon.json({ method: 'DELETE', path: `/containers/${name}`, query: { force: '1' } }, o)
  } catch (error) {
    if (!isAgentPodError(error, 'not_found')) throw error
  }
}

async function hasFile(daemon: Daemon, container: string, path: string, o: CallOptions): Promise<boolean> {
  try {
    await daemon.json({ method: 'HEAD', path: `/containers/${container}/archive`, query: { path } }, o)
    return true
  } catch (error) {
    if (isAgentPodError(error, 'not_found')) return false
    throw error
  }
}

async function putFile(
  daemon: Daemon,
  container: string,
  file: { readonly path: string; readonly mode: number; readonly content: Buffer },
  o: CallOptions,
): Promise<void> {
  const query = { path: PROGRAMS_PATH }
  const archive = packTar([file])
  await daemon.json({ method: 'PUT', path: `/containers/${container}/archive`, query, archive }, o)
}
