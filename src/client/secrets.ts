/** Secrets: values that stay outside of sandboxes. They can be set but never read. */
import type { z } from 'zod'
import type { SecretView, setSecret } from '../api/schema/secret.ts'
import type { Transport } from './transport.ts'

export type Secret = SecretView
export type SecretOptions = z.input<typeof setSecret>

const SECRETS = '/v1/secrets'

export class Secrets {
  readonly #transport: Transport

  /** Use `AgentPod.secrets`. */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  async list(): Promise<Secret[]> {
    return (await this.#transport.json('GET', SECRETS)) as Secret[]
  }

  /** Creates a secret, or replaces it completely. */
  async set(o: SecretOptions): Promise<Secret> {
    return (await this.#transport.json('POST', SECRETS, o)) as Secret
  }

  /** Sets a new value; sandboxes with a placeholder use it from now on. */
  async rotate(name: string, value: string): Promise<Secret> {
    return (await this.#transport.json('POST', `${pathOf(name)}/rotate`, { value })) as Secret
  }

  /** Removes a secret; its placeholders stop working. */
  async remove(name: string): Promise<void> {
    await this.#transport.json('DELETE', pathOf(name))
  }
}

function pathOf(name: string): string {
  return `${SECRETS}/${encodeURIComponent(name)}`
}
