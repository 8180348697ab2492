/** Container images of a server. */
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import type { ImageEventView, ImageView } from '../api/schema/image.ts'
import { AgentPodError } from '../core/error.ts'
import { connectError, type Transport } from './transport.ts'

export type StoredImageInfo = ImageView

export interface ImageTransferOptions {
  readonly signal?: AbortSignal | undefined
  onProgress?(line: string): void
}

export interface PullImageOptions extends ImageTransferOptions {
  /** The provider that keeps the image; the default one when left out. */
  readonly provider?: string | undefined
}

/** A Feature of development containers. */
export interface FeatureFiles {
  /** Of its manifest, or of the tarball. */
  readonly digest: string
  /** Its metadata as JSON, unchecked. */
  readonly metadata: string
  /** A tar file of its files. It is meant for a step of a build: nothing outside a sandbox unpacks it. */
  readonly archive: Buffer
}

const IMAGES = '/v1/images'
/** A Feature arrives in one line. */
const LONGEST_LINE = 64 * 1024 * 1024

export class ImageClient {
  readonly #transport: Transport

  /** Use `AgentPod.images`. */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Gets an image, or what its tag stands for now. */
  async pull(image: string, o: PullImageOptions = {}): Promise<StoredImageInfo> {
    const event = await this.#transfer('pull', { image, provider: o.provider }, o)
    if ('pulled' in event) return event.pulled
    throw cut()
  }

  async list(o: { readonly provider?: string | undefined } = {}): Promise<StoredImageInfo[]> {
    return (await this.#transport.json('GET', `${IMAGES}?${query(o)}`)) as StoredImageInfo[]
  }

  async get(ref: string, o: { readonly provider?: string | undefined } = {}): Promise<StoredImageInfo> {
    return (await this.#transport.json('GET', `${IMAGES}/image?${query({ ref, ...o })}`)) as StoredImageInfo
  }

  /** `conflict` while a sandbox or a snapshot uses it. */
  async remove(ref: string, o: { readonly provider?: string | undefined } = {}): Promise<StoredImageInfo> {
    return (await this.#transport.json(
      'DELETE',
      `${IMAGES}/image?${query({ ref, ...o })}`,
    )) as StoredImageInfo
  }

  /** A Feature of development containers, by the name of its artifact or the address of its tarball. */
  async feature(feature: string, o: Pick<ImageTransferOptions, 'signal'> = {}): Promise<FeatureFiles> {
    const event = await this.#transfer('feature', { feature }, o)
    if (!('feature' in event)) throw cut()
    const { archive, ...found } = event.feature
    return { ...found, archive: Buffer.from(archive, 'base64') }
  }

  /** Sends a sandbox, a snapshot or a built environment to a registry, as an image. */
  async push(
    source: string,
    image: string,
    o: ImageTransferOptions = {},
  ): Promise<{ readonly image: string; readonly digest: string }> {
    const event = await this.#transfer('push', { source, image }, o)
    if ('pushed' in event) return event.pushed
    throw cut()
  }

  /** The same as an OCI layout in a tar archive. A stream that ends with an error is incomplete. */
  layout(source: string, o: Pick<ImageTransferOptions, 'signal'> = {}): Promise<Readable> {
    return this.#open('layout', { source }, o)
  }

  #open(verb: string, body: object, o: Pick<ImageTransferOptions, 'signal'>): Promise<IncomingMessage> {
    return this.#transport.open({
      method: 'POST',
      path: `${IMAGES}/${verb}`,
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify(body)),
      signal: o.signal,
    })
  }

  async #transfer(verb: string, body: object, o: ImageTransferOptions): Promise<ImageEventView> {
    const response = await this.#open(verb, body, o)
    let rest = ''
    response.setEncoding('utf8')
    for await (const text of response as AsyncIterable<string>) {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      if (rest.length > LONGEST_LINE) throw cut()
      for (const line of lines) {
        const event = JSON.parse(line) as ImageEventView
        if ('error' in event) throw connectError(event.error, 'the transfer failed')
        if (!('progress' in event)) return event
        o.onProgress?.(event.progress)
      }
    }
    throw cut()
  }
}

function query(o: Readonly<Record<string, string | undefined>>): string {
  const found = new URLSearchParams()
  for (const [key, value] of Object.entries(o)) if (value !== undefined) found.set(key, value)
  return found.toString()
}

function cut(): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'stream.cut',
    message: 'the connection to the server was lost during the transfer',
    hint: 'try again: layers that arrived are kept',
  })
}
