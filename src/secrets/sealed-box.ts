/** Encrypts stored values (AES-256-GCM) with a key in a file that only its owner can read. */
import { createCipheriv, createDecipheriv } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { AgentPodError } from '../core/error.ts'
import { writeDurably } from '../util/file/write-durably.ts'
import type { Random } from '../util/random.ts'

const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
const VERSION = 1

export class SealedBox {
  readonly #key: Buffer
  readonly #random: Random

  constructor(key: Buffer, random: Random) {
    this.#key = key
    this.#random = random
  }

  /** `purpose` is bound to the sealed text: it cannot be opened for another purpose. */
  seal(text: string, purpose: string): string {
    const nonce = this.#random.bytes(NONCE_BYTES)
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce)
    cipher.setAAD(Buffer.from(purpose))
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
    return Buffer.concat([Buffer.from([VERSION]), nonce, cipher.getAuthTag(), sealed]).toString('base64')
  }

  /** Throws `data_loss` if the text was changed, or sealed with another key or for another purpose. */
  open(sealed: string, purpose: string): string {
    const bytes = Buffer.from(sealed, 'base64')
    try {
      if (bytes[0] !== VERSION) throw new Error('unknown version')
      const nonce = bytes.subarray(1, 1 + NONCE_BYTES)
      const tag = bytes.subarray(1 + NONCE_BYTES, 1 + NONCE_BYTES + TAG_BYTES)
      const decipher = createDecipheriv('aes-256-gcm', this.#key, nonce, { authTagLength: TAG_BYTES })
      decipher.setAAD(Buffer.from(purpose))
      decipher.setAuthTag(tag)
      const text = decipher.update(bytes.subarray(1 + NONCE_BYTES + TAG_BYTES))
      return Buffer.concat([text, decipher.final()]).toString('utf8')
    } catch (error) {
      throw new AgentPodError({
        code: 'data_loss',
        reason: 'secret.unreadable',
        message: 'a stored secret cannot be decrypted with the key in this state directory',
        hint: 'restore the key file from a backup, or set the secret again',
        cause: error,
      })
    }
  }
}

/**
 * Reads the key file, or creates it the first time. A file that is not a key is refused and not changed. A
 * missing file is refused if secrets are sealed already: a new key could not open them.
 */
export function openSealedBox(
  file: string,
  random: Random,
  hasSealed: () => boolean = () => false,
): SealedBox {
  const key = readKey(file)
  if (key) return new SealedBox(key, random)
  if (hasSealed()) {
    throw new AgentPodError({
      code: 'data_loss',
      reason: 'secret.key_missing',
      message: `${file} is missing, and stored secrets are encrypted with it`,
      hint: 'restore it from a backup; without one, `agentpod reset` starts over',
    })
  }
  return new SealedBox(makeKey(file, random), random)
}

function readKey(file: string): Buffer | undefined {
  let key: Buffer
  try {
    key = readFileSync(file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  if (key.length === KEY_BYTES) return key
  throw new AgentPodError({
    code: 'data_loss',
    reason: 'secret.key_damaged',
    message: `${file} is not an AgentPod key`,
    hint: 'restore it from a backup; without one, remove it and set your secrets again',
  })
}

function makeKey(file: string, random: Random): Buffer {
  const key = Buffer.from(random.bytes(KEY_BYTES))
  writeDurably(file, key)
  return key
}
