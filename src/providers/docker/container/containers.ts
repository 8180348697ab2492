/** Finds, creates and removes the containers of sandboxes. */
import type { CallOptions } from '../../../core/call.ts'
import { AgentPodError, isAgentPodError } from '../../../core/error.ts'
import type { SandboxId } from '../../../core/id.ts'
import type { CreatePlan } from '../../../core/provider.ts'
import { type Clock, sleep, systemClock } from '../../../util/clock.ts'
import { type Daemon, parseAnswer } from '../daemon/daemon.ts'
import { CONTAINER, CONTAINERS, type Container, MADE } from '../daemon/responses.ts'
import { containerName, SANDBOX_LABEL } from '../names.ts'

const POLL_MS = 50
/** Cleaning up has its own time limit, since the caller's may be over. */
const UNDO: CallOptions = { timeoutMs: 20_000 }

export class Containers {
  readonly #daemon: Daemon
  /** Container ids by sandbox; a missing one is looked up by label. */
  readonly #ids = new Map<SandboxId, string>()
  /** Created here and not from a snapshot: only the container itself has to be removed. */
  readonly #plain = new Set<string>()
  /** Containers that we are stopping: their exit is expected. */
  readonly #ending = new Set<string>()
  readonly #clock: Clock = systemClock

  constructor(daemon: Daemon) {
    this.#daemon = daemon
  }

  /** Undefined if there is none. */
  async find(id: SandboxId, o: CallOptions): Promise<Container | undefined> {
    const known = this.#ids.get(id)
    const found = known === undefined ? undefined : await this.look(known, o)
    if (found) return found
    this.#ids.delete(id)
    const filters = JSON.stringify({ label: [`${SANDBOX_LABEL}=${id}`] })
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
      message: `the sandbox ${id} has no container`,
    })
  }

  /** The id of a container that can be removed without inspecting it first. */
  plain(id: SandboxId): string | undefined {
    const known = this.#ids.get(id)
    return known !== undefined && this.#plain.has(known) ? known : undefined
  }

  /** By the container's id or name. */
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

  /** `conflict` if the name is taken. */
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

  /** Stops the container and waits for it. Idempotent. */
  async kill(id: string, o: CallOptions): Promise<void> {
    this.#ending.add(id)
    try {
      await this.post(id, 'kill', { signal: 'SIGKILL' }, o)
    } catch (error) {
      // It is not running.
      if (!isAgentPodError(error, 'conflict')) throw error
    }
    await this.post(id, 'wait', { condition: 'not-running' }, o)
  }

  /** Removes the container in any state; resolves when it is gone. Idempotent. */
  async remove(id: string, o: CallOptions): Promise<void> {
    this.#ending.add(id)
    const deadline = this.#clock.now() + o.timeoutMs
    for (;;) {
      try {
        const query = { force: '1', v: '1' }
        return void (await this.#daemon.json({ method: 'DELETE', path: `/containers/${id}`, query }, o))
      } catch (error) {
        if (isAgentPodError(error, 'not_found')) return
        // Another call is already removing it.
        if (!isAgentPodError(error, 'conflict')) throw error
      }
      if (!(await this.look(id, o))) return
      if (this.#clock.now() > deadline) throw stillThere(id)
      await sleep(this.#clock, POLL_MS, o.signal)
    }
  }

  /** Cleans up after a failed create, if the daemon can be reached. */
  async undo(plan: CreatePlan): Promise<void> {
    const name = containerName(plan.owner, plan.sandboxId)
    try {
      const found = await this.look(name, UNDO)
      if (found) await this.remove(found.Id, UNDO)
    } catch {
      // The next create of this id, or a destroy, removes it.
    }
    this.forget(plan.sandboxId)
  }

  /** Whether we are stopping it or have stopped it. */
  isEnding(id: string): boolean {
    return this.#ending.has(id)
  }

  /** The container runs again. */
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
    message: `the Docker daemon is still removing the container ${id.slice(0, 12)}`,
    hint: 'try again; `docker ps -a` shows it',
  })
}
