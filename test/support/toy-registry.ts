/**
 * A registry in this process that holds what a test gives it, and can be told to misbehave. It speaks plain
 * HTTP on loopback.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Blob, type MadeImage, sha256 } from './made-image.ts'

/** Answers a request in place of the registry; false lets the registry answer. */
export type Misbehavior = (request: IncomingMessage, response: ServerResponse) => boolean

export class ToyRegistry implements AsyncDisposable {
  readonly #server: Server
  readonly #blobs = new Map<string, Blob>()
  readonly #manifests = new Map<string, Blob>()
  readonly #uploads = new Map<string, Buffer[]>()
  /** Each request: method, path and some headers. */
  readonly log: { method: string; path: string; range?: string; authorization?: string }[] = []
  misbehave: Misbehavior = () => false

  private constructor() {
    this.#server = createServer((request, response) => {
      const { authorization, range } = request.headers
      this.log.push({
        method: request.method ?? '',
        path: request.url ?? '',
        ...(range && { range }),
        ...(authorization && { authorization }),
      })
      if (!this.misbehave(request, response)) this.#answer(request, response)
    })
  }

  static async start(): Promise<ToyRegistry> {
    const registry = new ToyRegistry()
    await new Promise<void>((resolve) => registry.#server.listen(0, '127.0.0.1', resolve))
    return registry
  }

  /** HOST:PORT, as in a reference. */
  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  put(name: string, tag: string, image: MadeImage): string {
    for (const blob of image.blobs) this.#blobs.set(blob.digest, blob)
    this.putManifest(name, tag, image.manifest)
    return `${this.host}/${name}:${tag}`
  }

  putManifest(name: string, reference: string, manifest: Blob): void {
    this.#manifests.set(`${name}/${reference}`, manifest)
    this.#manifests.set(`${name}/${manifest.digest}`, manifest)
  }

  putBlob(blob: Blob): void {
    this.#blobs.set(blob.digest, blob)
  }

  manifest(name: string, tag: string): Blob | undefined {
    return this.#manifests.get(`${name}/${tag}`)
  }

  blob(digest: string): Blob | undefined {
    return this.#blobs.get(digest)
  }

  /** How often blobs were asked for. */
  get blobRequests(): number {
    return this.log.filter(({ method, path }) => method === 'GET' && path.includes('/blobs/')).length
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', 'http://registry')
    if (url.pathname === '/v2/') return void response.end('{}')
    const [, name = '', kind = '', ref = ''] =
      /^\/v2\/(.+)\/(manifests|blobs)\/(?!uploads)(.+)$/.exec(url.pathname) ?? []
    if (request.method === 'GET' || request.method === 'HEAD') {
      const found = kind === 'manifests' ? this.#manifests.get(`${name}/${ref}`) : this.#blobs.get(ref)
      if (!found) return void response.writeHead(404).end('{"errors":[{"code":"MANIFEST_UNKNOWN"}]}')
      sendBlob(request, response, found)
      return
    }
    void this.#write(request, response, url)
  }

  async #write(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const data = Buffer.concat(parts)
    const [, name = '', tag = ''] = /^\/v2\/(.+)\/manifests\/(.+)$/.exec(url.pathname) ?? []
    if (request.method === 'PUT' && tag !== '') {
      this.putManifest(name, tag, {
        digest: sha256(data),
        data,
        mediaType: request.headers['content-type'] ?? '',
      })
      return void response.writeHead(201).end()
    }
    if (request.method === 'POST') {
      const id = String(this.#uploads.size)
      this.#uploads.set(id, [])
      return void response.writeHead(202, { location: `${url.pathname}${id}` }).end()
    }
    const upload = this.#uploads.get(url.pathname.split('/').at(-1) ?? '') ?? []
    upload.push(data)
    const digest = url.searchParams.get('digest')
    if (request.method === 'PATCH' || digest === null)
      return void response.writeHead(202, { location: url.pathname }).end()
    const whole = Buffer.concat(upload)
    if (sha256(whole) !== digest) return void response.writeHead(400).end()
    this.#blobs.set(digest, { digest, data: whole, mediaType: '' })
    response.writeHead(201).end()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

export function sendBlob(request: IncomingMessage, response: ServerResponse, blob: Blob): void {
  const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0)
  const data = blob.data.subarray(from)
  response.writeHead(from > 0 ? 206 : 200, {
    'content-type': blob.mediaType || 'application/octet-stream',
    'content-length': data.length,
    ...(from > 0 && { 'content-range': `bytes ${from}-${blob.data.length - 1}/${blob.data.length}` }),
  })
  response.end(request.method === 'HEAD' ? undefined : data)
}
