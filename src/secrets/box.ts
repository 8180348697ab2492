/** Values at rest: sealed with a key that lies in a file only its owner reads. */
import { createCipheriv, createDecipheriv } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { AgentPodError } from '../core/error.ts'
import type { Random } from '../util/random.ts'
import { writeDurably } from '../util/write-durably.ts'

const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
const VERSION = 1

export class Box {
  readonly #key: Buffer
  readonly #random: Random

  constructor(key: Buffer, random: Random) {
    this.#key = key
    this.#random = random
  }

  /** `purpose` says what is sealed: opened under another one, it is refused. */
  seal(text: string, purpose: string): string {
    const nonce = this.#random.bytes(NONCE_BYTES)
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce)
    cipher.setAAD(Buffer.from(purpose))
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
    return Buffer.concat([Buffer.from([VERSION]), nonce, cipher.getAuthTag(), sealed]).toString('base64')
  }

  /** `data_loss` when it was changed, or sealed with another key or for another purpose. */
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
        message: 'a stored secret cannot be opened with the key of this state directory',
        hint: 'bring back the key file that belongs to it, or set the secret again',
        cause: error,
      })
    }
  }
}

/**
 * The key in the file, made the first time. A file with anything else in it is refused and left alone, and so is a missing one where something is
 * sealed already: a new key would open none of it.
 */
export function openBox(file: string, random: Random, hasSealed: () => boolean = () => false): Box {
  const key = readKey(file)
  if (key) return new Box(key, random)
  if (hasSealed()) {
    throw new AgentPodError({
      code: 'data_loss',
      reason: 'secret.key_missing',
      message: `${file} is gone, and there are secrets that were sealed with it`,
      hint: 'bring it back from a backup; without it, `agentpod reset` begins anew',
    })
  }
  return new Box(makeKey(file, random), random)
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
    message: `${file} is not a key of AgentPod`,
    hint: 'bring it back from a backup; without it, remove it and set your secrets again',
  })
}

function makeKey(file: string, random: Random): Buffer {
  const key = Buffer.from(random.bytes(KEY_BYTES))
  writeDurably(file, key)
  return key
}
