/** Snapshots, as the API asks for them: access is checked, calls are audited. */
import type { Readable } from 'node:stream'
import { isSnapshotId } from '../../core/id.ts'
import { LOCAL, type Principal } from '../../core/principal.ts'
import type { ChangesSince } from '../../core/provider.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import { CALL } from '../call.ts'
import type { Context } from '../context.ts'
import { getSandbox } from '../find-sandbox.ts'
import { requireSandbox } from '../lifecycle/require-sandbox.ts'
import { recordAudit } from '../record-audit.ts'
import { exportSnapshot, type ImportRequest, importSnapshot } from './archive.ts'
import { removeSnapshot, type SnapshotRequest, takeSnapshot } from './snapshot.ts'

export class SnapshotOperations {
  readonly #ctx: Context

  constructor(ctx: Context) {
    this.#ctx = ctx
  }

  /** Takes a snapshot of a sandbox's files as they are now. */
  async create(
    ref: string,
    o: Pick<SnapshotRequest, 'name' | 'labels' | 'hasMemory'>,
    who: Principal,
  ): Promise<Snapshot> {
    const { id } = getSandbox(this.#ctx, ref, who)
    const snapshot = await takeSnapshot(this.#ctx, id, { owner: who.owner, ...o })
    recordAudit(this.#ctx, who, 'snapshot.create', { subject: snapshot.id, data: { sandbox: id } })
    return snapshot
  }

  /**
   * What may have changed in a directory since the sandbox was created from a snapshot. Undefined if the
   * provider cannot tell.
   */
  async changes(ref: string, directory: string, who: Principal): Promise<ChangesSince | undefined> {
    const { id, provider } = getSandbox(this.#ctx, ref, who)
    return this.#ctx.lock.run(id, async () => {
      requireSandbox(this.#ctx, id)
      return this.#ctx.providers.of({ provider }).snapshots?.changes?.(id, directory, CALL)
    })
  }

  /** Oldest first. */
  list(who: Principal): Snapshot[] {
    return this.#ctx.snapshotRegistry.list(who)
  }

  /** By id or name; `not_found` otherwise. */
  get(ref: string, who: Principal): Snapshot {
    return this.#ctx.snapshotRegistry.get(ref, who)
  }

  /** Protects a snapshot from removal until the returned function is called. Does nothing if it is gone. */
  hold(id: string): () => void {
    const { snapshotRegistry } = this.#ctx
    return isSnapshotId(id) && snapshotRegistry.has(id, LOCAL) ? snapshotRegistry.hold(id) : () => undefined
  }

  async remove(ref: string, who: Principal): Promise<void> {
    const snapshot = this.get(ref, who)
    await removeSnapshot(this.#ctx, snapshot)
    recordAudit(this.#ctx, who, 'snapshot.destroy', { subject: snapshot.id })
  }

  /** A snapshot as one archive. */
  export(ref: string, who: Principal): Promise<Readable> {
    return exportSnapshot(this.#ctx, this.get(ref, who))
  }

  /** `data_loss` if the archive is damaged or cut short, before any of it can be used. */
  async import(archive: Readable, request: Omit<ImportRequest, 'owner'>, who: Principal): Promise<Snapshot> {
    const snapshot = await importSnapshot(this.#ctx, archive, { ...request, owner: who.owner })
    recordAudit(this.#ctx, who, 'snapshot.import', { subject: snapshot.id })
    return snapshot
  }
}
