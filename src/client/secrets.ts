/** Values that stay outside of sandboxes. They go in and never come out. */
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

  /** Makes it, or replaces it as a whole. */
  async set(o: SecretOptions): Promise<Secret> {
    return (await this.#transport.json('POST', SECRETS, o)) as Secret
  }

  /** A new value; sandboxes that hold a placeholder go on with it. */
  async rotate(name: string, value: string): Promise<Secret> {
    return (await this.#transport.json('POST', `${pathOf(name)}/rotate`, { value })) as Secret
  }

  /** Its placeholders are worth nothing from then on. */
  async remove(name: string): Promise<void> {
    await this.#transport.json('DELETE', pathOf(name))
  }
}

function pathOf(name: string): string {
  return `${SECRETS}/${encodeURIComponent(name)}`
}
