/** Finding, making and ending the containers of sandboxes. */
import type { CallOptions } from '../../core/call.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import type { SandboxId } from '../../core/id.ts'
import type { CreatePlan } from '../../core/provider.ts'
import { type Clock, sleep, systemClock } from '../../util/clock.ts'
import { CONTAINER, CONTAINERS, type Container, MADE } from './answers.ts'
import { type Daemon, parseAnswer } from './daemon.ts'
import { containerName, SANDBOX } from './names.ts'

const POLL_MS = 50
/** Undoing has a time of its own: the caller's may be over. */
const UNDO: CallOptions = { timeoutMs: 20_000 }

export class Containers {
  readonly #daemon: Daemon
  /** The daemon's ids of sandboxes; looked up by label where one is missing. */
  readonly #ids = new Map<SandboxId, string>()
  /** Made here and of no snapshot: nothing but the container itself goes with them. */
  readonly #plain = new Set<string>()
  /** Those that we are ending: their end is no news. */
  readonly #ending = new Set<string>()
  readonly #clock: Clock = systemClock

  constructor(daemon: Daemon) {
    this.#daemon = daemon
  }

  /** Undefined where there is none. */
  async find(id: SandboxId, o: CallOptions): Promise<Container | undefined> {
    const known = this.#ids.get(id)
    const found = known === undefined ? undefined : await this.look(known, o)
    if (found) return found
    this.#ids.delete(id)
    const filters = JSON.stringify({ label: [`${SANDBOX}=${id}`] })
    const ask = { method: 'GET', path: '/containers/json', query: { all: '1', filters } } as const
    for (const row of parseAnswer(CONTAINERS, await this.#daemon.json(ask, o))) {
      const container = await this.look(row.Id, o)
      if (!container) continue
      this.#ids.set(id, container.Id)
      return container
    }
    return undefined
  }

  async need(id: SandboxId, o: CallOptions): Promise<Container> {
    const found = await this.find(id, o)
    if (found) return found
    throw new AgentPodError({
      code: 'not_found',
      reason: 'sandbox.absent',
      message: `there is no container of the sandbox ${id}`,
    })
  }

  /** The daemon's id of one that can be removed without a look at it. */
  plain(id: SandboxId): string | undefined {
    const known = this.#ids.get(id)
    return known !== undefined && this.#plain.has(known) ? known : undefined
  }

  /** By the daemon's id or by name. */
  async look(ref: string, o: CallOptions, size = false): Promise<Container | undefined> {
    try {
      const query: Record<string, string> = size ? { size: '1' } : {}
      return parseAnswer(
        CONTAINER,
        await this.#daemon.json({ method: 'GET', path: `/containers/${ref}/json`, query }, o),
      )
    } catch (error) {
      if (isAgentPodError(error, 'not_found')) return undefined
      throw error
    }
  }

  /** `conflict` where there is one of that name. */
  async make(plan: CreatePlan, body: object, o: CallOptions): Promise<string> {
    const query = { name: containerName(plan.owner, plan.sandboxId) }
    const made = await this.#daemon.json({ method: 'POST', path: '/containers/create', query, body }, o)
    const { Id } = parseAnswer(MADE, made)
    this.#ids.set(plan.sandboxId, Id)
    if (plan.snapshot === undefined) this.#plain.add(Id)
    return Id
  }

  async putArchive(id: string, archive: Buffer, o: CallOptions): Promise<void> {
    const query = { path: '/', noOverwriteDirNonDir: '1' }
    await this.#daemon.json({ method: 'PUT', path: `/containers/${id}/archive`, query, archive }, o)
  }

  async post(
    id: string,
    verb: string,
    query: Readonly<Record<string, string>>,
    o: CallOptions,
  ): Promise<void> {
    await this.#daemon.json({ method: 'POST', path: `/containers/${id}/${verb}`, query }, o)
  }

  /** Ends its processes and waits for it. Idempotent. */
  async kill(id: string, o: CallOptions): Promise<void> {
    this.#ending.add(id)
    try {
      await this.post(id, 'kill', { signal: 'SIGKILL' }, o)
    } catch (error) {
      // It does not run.
      if (!isAgentPodError(error, 'conflict')) throw error
    }
    await this.post(id, 'wait', { condition: 'not-running' }, o)
  }

  /** Everything of it, whatever it does just now; resolves when it is gone. Idempotent. */
  async remove(id: string, o: CallOptions): Promise<void> {
    this.#ending.add(id)
    const deadline = this.#clock.now() + o.timeoutMs
    for (;;) {
      try {
        const query = { force: '1', v: '1' }
        return void (await this.#daemon.json({ method: 'DELETE', path: `/containers/${id}`, query }, o))
      } catch (error) {
        if (isAgentPodError(error, 'not_found')) return
        // Somebody else removes it already.
        if (!isAgentPodError(error, 'conflict')) throw error
      }
      if (!(await this.look(id, o))) return
      if (this.#clock.now() > deadline) throw stillThere(id)
      await sleep(this.#clock, POLL_MS, o.signal)
    }
  }

  /** After a create that failed: nothing is left, where the daemon can be asked at all. */
  async undo(plan: CreatePlan): Promise<void> {
    const name = containerName(plan.owner, plan.sandboxId)
    try {
      const found = await this.look(name, UNDO)
      if (found) await this.remove(found.Id, UNDO)
    } catch {
      // The next create of this id, or a destroy, finds it.
    }
    this.forget(plan.sandboxId)
  }

  /** Whether we are ending it, or have. */
  isEnding(id: string): boolean {
    return this.#ending.has(id)
  }

  /** It runs again. */
  begin(id: string): void {
    this.#ending.delete(id)
  }

  forget(id: SandboxId): void {
    const known = this.#ids.get(id)
    if (known !== undefined) {
      this.#ending.delete(known)
      this.#plain.delete(known)
    }
    this.#ids.delete(id)
  }
}

function stillThere(id: string): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'docker.removal',
    message: `the Docker daemon has not removed the container ${id.slice(0, 12)} yet`,
    hint: 'try again; `docker ps -a` shows it',
  })
}
