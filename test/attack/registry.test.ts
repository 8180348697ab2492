/**
 * Group IM: registries that lie, images that harm, and credentials that others want. Each attack has its
 * control: the same image from an honest registry runs.
 */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { AgentPod } from '../../src/client/client.ts'
import {
  blobOf,
  imageOfTars,
  indexOf,
  jsonBlob,
  type MadeImage,
  makeImage,
  manifestOf,
  sha256,
} from '../support/made-image.ts'
import { type TarEntry, tarOf } from '../support/tar-bytes.ts'
import { busyboxFiles, NO_BUSYBOX } from '../support/tiny-images.ts'
import { sendBlob, ToyRegistry } from '../support/toy-registry.ts'
import { World } from '../support/world.ts'

const USER = 'robot'
const PASSWORD = 'sesame-4711'
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
const LAYER = 'application/vnd.oci.image.layer.v1.tar+gzip'

describe('a registry', { skip: NO_BUSYBOX }, () => {
  const world = new World()
  let registry: ToyRegistry
  let serial = 0
  const image = (): MadeImage =>
    makeImage({ layers: [busyboxFiles(), [{ name: 'hello', content: `hello ${serial}\n` }]] })
  const name = (): string => `team/image${serial++}`
  const kept = (): string[] =>
    ['layers', 'tmp'].flatMap((directory) => {
      const at = join(world.home, directory)
      return existsSync(at) ? readdirSync(at).map((one) => `${directory}/${one}`) : []
    })
  const pull = (ref: string): ReturnType<World['cli']> => world.cli(['image', 'pull', ref])
  const works = (ref: string): Promise<string> =>
    world.ok(['run', '--no-project', '--image', ref, '--', '/bin/cat', '/hello'])

  before(async () => {
    registry = await ToyRegistry.start()
    configure()
    const docker = join(world.home, 'docker')
    mkdirSync(docker)
    const auth = Buffer.from(`${USER}:${PASSWORD}`).toString('base64')
    writeFileSync(join(docker, 'config.json'), JSON.stringify({ auths: { [registry.host]: { auth } } }))
    await world.ok(['ls'], { env: { DOCKER_CONFIG: docker } })
    // podhost starts, and the layer with git is made.
    await works(registry.put('team/first', '1', image()))
  })

  beforeEach(() => {
    registry.misbehave = () => false
    registry.log.length = 0
  })

  after(async () => {
    await registry?.[Symbol.asyncDispose]()
    await world[Symbol.asyncDispose]()
  })

  function configure(...more: string[]): void {
    const lines = [`[registries."${registry.host}"]`, 'insecure = true', ...more, '']
    writeFileSync(join(world.home, 'config.toml'), lines.join('\n'))
  }

  /** It is refused with one clear error, and leaves nothing. */
  async function refused(ref: string, says: RegExp, code = 9): Promise<void> {
    const before = kept()
    const { code: exit, stderr } = await pull(ref)
    assert.match(stderr, says)
    assert.match(stderr, /^error: .*\nhint: /m)
    assert.equal(exit, code, stderr)
    assert.deepEqual(kept(), before)
    assert.ok(!(await world.ok(['image', 'ls'])).includes(ref))
  }

  test('IM-03 a manifest with another digest is refused', async () => {
    const [good, bad, at] = [image(), image(), name()]
    registry.put(at, '1', good)
    const ref = `${registry.host}/${at}@${good.manifest.digest}`
    registry.misbehave = (request, response) => {
      if (!request.url?.includes('/manifests/')) return false
      sendBlob(request, response, {
        ...bad.manifest,
        data: Buffer.concat([bad.manifest.data, Buffer.from(' ')]),
      })
      return true
    }
    await refused(ref, /a manifest with the digest sha256:/)
    registry.misbehave = () => false
    await works(ref)
  })

  test('IM-03 a layer with other bytes of the same length is refused', async () => {
    const [good, at] = [image(), name()]
    const ref = registry.put(at, '1', good)
    const layer = good.blobs.at(-1)
    assert.ok(layer)
    registry.misbehave = (request, response) => {
      if (!request.url?.endsWith(layer.digest)) return false
      const data = Buffer.from(layer.data)
      data[20] = (data[20] ?? 0) ^ 1
      sendBlob(request, response, { ...layer, data })
      return true
    }
    await refused(ref, /a layer with the digest sha256:/)
    registry.misbehave = () => false
    await works(ref)
  })

  test('IM-03 a layer that is longer or shorter than announced is refused', async () => {
    const [good, at] = [image(), name()]
    const ref = registry.put(at, '1', good)
    const layer = good.blobs.at(-1)
    assert.ok(layer)
    for (const data of [Buffer.concat([layer.data, Buffer.alloc(9)]), layer.data.subarray(9)]) {
      registry.misbehave = (request, response) => {
        if (!request.url?.endsWith(layer.digest)) return false
        sendBlob(request, response, { ...layer, data })
        return true
      }
      await refused(ref, /a layer of \d+ bytes and announced \d+/)
    }
    registry.misbehave = () => false
    await works(ref)
  })

  test('IM-03 a layer that unpacks to something else is refused', async () => {
    const tar = tarOf([...busyboxFiles(), { name: 'hello', content: 'x' }])
    const { manifest, blobs } = imageOfTars([tar], {})
    const [config] = blobs
    const other = blobOf(gzipSync(tarOf([{ name: 'evil', content: 'x' }])), LAYER)
    assert.ok(config && manifest)
    const ref = registry.put(name(), '1', { manifest: manifestOf(config, [other]), blobs: [config, other] })
    await refused(ref, /unpacks to the digest/)
  })

  test('IM-03 documents that can be read in two ways, and false media types, are refused', async () => {
    const good = image()
    const [config, ...layers] = good.blobs
    assert.ok(config)
    const whole = JSON.parse(good.manifest.data.toString('utf8')) as Record<string, unknown>
    const index = JSON.parse(
      indexOf([{ image: good, platform: { os: 'linux', architecture: 'amd64' } }]).data.toString(),
    )
    const both = name()
    registry.put(both, '1', good)
    registry.putManifest(both, '1', jsonBlob({ ...whole, manifests: index.manifests }, MANIFEST))
    await refused(`${registry.host}/${both}:1`, /neither a manifest nor an index/)
    const typed = name()
    registry.put(typed, '1', good)
    registry.putManifest(typed, '1', {
      ...good.manifest,
      mediaType: 'application/vnd.oci.image.index.v1+json',
    })
    await refused(`${registry.host}/${typed}:1`, /a manifest of the type/)
    const zipped = name()
    const lies = layers.map((layer) => ({ ...layer, mediaType: 'application/vnd.oci.image.layer.v1.tar' }))
    registry.put(zipped, '1', { manifest: manifestOf(config, lies), blobs: good.blobs })
    await refused(`${registry.host}/${zipped}:1`, /a layer of the type .* contains gzip/)
    const unknown = name()
    const odd = layers.map((layer) => ({ ...layer, mediaType: 'application/x-encrypted' }))
    registry.put(unknown, '1', { manifest: manifestOf(config, odd), blobs: good.blobs })
    await refused(`${registry.host}/${unknown}:1`, /application\/x-encrypted, which cannot be unpacked/, 6)
  })

  test('IM-04 a small layer that would fill the disk is refused', async () => {
    const zeros = tarOf([{ name: 'zeros', content: Buffer.alloc(400 * 1024 * 1024) }])
    for (const [compression, blob] of [
      ['gzip', gzipSync(zeros)],
      ['zstd', zstdCompressSync(zeros)],
    ] as const) {
      const type = `application/vnd.oci.image.layer.v1.tar+${compression}`
      const { blobs } = imageOfTars([zeros], { compression: 'none' })
      const [config] = blobs
      assert.ok(config)
      const layer = blobOf(blob, type)
      const ref = registry.put(name(), '1', { manifest: manifestOf(config, [layer]), blobs: [config, layer] })
      await refused(ref, /a layer of \d+ bytes unpacks to more than/, 7)
    }
  })

  test('IM-04 a thousand layers are refused before anything is downloaded', async () => {
    const layers = Array.from({ length: 1000 }, (_, n): TarEntry[] => [{ name: `f${n}`, content: String(n) }])
    const ref = registry.put(name(), '1', makeImage({ layers }))
    await refused(ref, /has 1000 layers; at most \d+ are supported/, 6)
    assert.equal(registry.blobRequests, 1)
    const many = layers.slice(0, 110)
    const fits = registry.put(
      name(),
      '1',
      makeImage({ layers: [busyboxFiles(), ...many, [{ name: 'hello', content: 'x' }]] }),
    )
    assert.equal(await works(fits), 'x')
  })

  test('FS-06 FS-07 layers that lead out of their tree are refused', async () => {
    const cases: TarEntry[][] = [
      [{ name: '../escape', content: 'x' }],
      [
        { name: 'a', type: 'symlink', target: '/tmp' },
        { name: 'a/escape', content: 'x' },
      ],
      [{ name: 'a', type: 'hardlink', target: '../../host.json' }],
      [{ name: 'a', type: 'char', device: [1, 1] }],
    ]
    for (const entries of cases) {
      const first = [...busyboxFiles(), { name: `first${serial}`, content: 'x' }]
      const ref = registry.put(name(), '1', makeImage({ layers: [first, entries] }))
      await refused(ref, /a layer of the image cannot be used: tar: /)
    }
    assert.equal(existsSync('/tmp/escape'), false)
  })

  test('IM-02 a redirect gets no credential, and plain HTTP needs the user’s word', async () => {
    await using other = await ToyRegistry.start()
    const good = image()
    const ref = registry.put(name(), '1', good)
    other.put('cdn', '1', good)
    const challenge = (request: IncomingMessage, response: ServerResponse): boolean => {
      if (request.headers.authorization === undefined) {
        response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
        return true
      }
      const [, digest] = /\/blobs\/(.+)$/.exec(request.url ?? '') ?? []
      if (digest === undefined) return false
      response.writeHead(307, { location: `http://${other.host}/v2/cdn/blobs/${digest}` }).end()
      return true
    }
    registry.misbehave = challenge
    assert.equal((await pull(ref)).code, 0)
    assert.ok(registry.log.some(({ authorization }) => authorization?.startsWith('Basic ')))
    assert.ok(other.log.length > 0)
    assert.ok(other.log.every(({ authorization }) => authorization === undefined))
    const { stderr } = await pull(other.put('plain', '1', image()))
    assert.match(stderr, /does not speak TLS/)
  })

  test('IM-05 the credential is in no output, log, record or sandbox', async () => {
    const at = name()
    const ref = registry.put(at, '1', image())
    registry.misbehave = (request, response) => {
      if (request.headers.authorization) {
        response
          .writeHead(403)
          .end(`{"errors":[{"code":"DENIED","message":"${request.headers.authorization}"}]}`)
        return true
      }
      response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
      return true
    }
    const { stderr } = await pull(ref)
    registry.misbehave = () => false
    await pull(ref)
    const inside = await world.ok(['run', '--no-project', '--image', ref, '--', '/bin/env'])
    const texts = [
      stderr,
      inside,
      readFileSync(join(world.home, 'logs', 'server.log'), 'utf8'),
      readFileSync(join(world.home, 'images.json'), 'utf8'),
    ]
    const encoded = Buffer.from(`${USER}:${PASSWORD}`).toString('base64')
    for (const text of texts) assert.ok(!text.includes(PASSWORD) && !text.includes(encoded))
  })

  test('IM-06 a key that is not an admin pulls without the credential, and cannot push', async () => {
    const pod = world.client()
    const { secret: key } = await pod.createKey({ name: 'user', scope: 'sandboxes' })
    const { port } = await pod.listen()
    const guest = new AgentPod({ url: `http://127.0.0.1:${port}`, key })
    const ref = registry.put(name(), '1', image())
    let sawCredential = false
    registry.misbehave = (request, response) => {
      if (request.headers.authorization !== undefined) {
        sawCredential = true
        return false
      }
      response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
      return true
    }
    await assert.rejects(guest.images.pull(ref), /refuses access/)
    assert.equal(sawCredential, false)
    await assert.rejects(guest.images.push('x', ref), /admin/)
    await pod.images.pull(ref)
    assert.equal(sawCredential, true)
    guest.close()
  })

  test('IMG-10 a download that breaks continues where it stopped', async () => {
    const big = makeImage({
      layers: [busyboxFiles(), [{ name: 'big', content: randomBytes(3 << 20) }]],
      compression: 'none',
    })
    const ref = registry.put(name(), '1', big)
    const layer = big.blobs.at(-1)
    assert.ok(layer)
    let cuts = 2
    registry.misbehave = (request, response) => {
      if (!request.url?.endsWith(layer.digest) || cuts === 0) return false
      cuts -= 1
      const from = Number(/^bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0)
      response.writeHead(from > 0 ? 206 : 200, {
        'content-length': layer.data.length - from,
        ...(from > 0 && { 'content-range': `bytes ${from}-${layer.data.length - 1}/${layer.data.length}` }),
      })
      response.write(layer.data.subarray(from, from + (1 << 20)), () =>
        setTimeout(() => response.destroy(), 50),
      )
      return true
    }
    assert.equal((await pull(ref)).code, 0)
    const ranges = registry.log.filter(({ path }) => path.endsWith(layer.digest)).map(({ range }) => range)
    assert.equal(ranges.length, 3)
    assert.ok(ranges.slice(1).every((range) => range !== undefined))
  })

  test('IMG-10 a registry that is busy is asked again after the time that it names', async () => {
    const ref = registry.put(name(), '1', image())
    let busy = 2
    registry.misbehave = (_, response) => {
      if (busy === 0) return false
      busy -= 1
      response.writeHead(429, { 'retry-after': '1' }).end()
      return true
    }
    assert.equal((await pull(ref)).code, 0)
    registry.misbehave = (_, response) => {
      response.writeHead(429, { 'retry-after': '86400' }).end()
      return true
    }
    const { code, stderr } = await pull(registry.put(name(), '1', image()))
    assert.deepEqual([code, /refuses further requests/.test(stderr)], [7, true])
  })

  test('IMG-10 a server that is killed in the middle leaves a download that the next one continues', async () => {
    const big = makeImage({
      layers: [busyboxFiles(), [{ name: 'hello', content: randomBytes(4 << 20) }]],
      compression: 'none',
    })
    const ref = registry.put(name(), '1', big)
    const layer = big.blobs.at(-1)
    assert.ok(layer)
    registry.misbehave = (request, response) => {
      if (!request.url?.endsWith(layer.digest)) return false
      response.writeHead(200, { 'content-length': layer.data.length })
      response.write(layer.data.subarray(0, 2 << 20))
      return true
    }
    const pulling = pull(ref)
    const part = join(world.home, 'tmp', `image-${layer.digest.slice(7)}.part`)
    while (!existsSync(part) || readFileSync(part).length < 1 << 20) await sleep(20)
    process.kill(world.serverPid, 'SIGKILL')
    assert.notEqual((await pulling).code, 0)
    registry.misbehave = () => false
    registry.log.length = 0
    assert.equal((await pull(ref)).code, 0)
    const ranges = registry.log.filter(({ path }) => path.endsWith(layer.digest)).map(({ range }) => range)
    assert.equal(ranges.length, 1)
    assert.match(ranges[0] ?? '', /^bytes=\d{7}-$/)
    assert.deepEqual(
      readdirSync(join(world.home, 'tmp')).filter((one) => one.startsWith('image-')),
      [],
    )
  })

  test('IMG-7 two pulls at once, of images that share a layer, get each layer once', async () => {
    const shared: TarEntry[] = [...busyboxFiles(), { name: `shared${serial}`, content: randomBytes(1 << 20) }]
    const refs = [1, 2].map((n) =>
      registry.put(
        name(),
        String(n),
        makeImage({ layers: [shared, [{ name: `own${n}`, content: String(n) }]] }),
      ),
    )
    const slow = sha256(gzipSync(tarOf(shared)))
    registry.misbehave = (request, response) => {
      if (!request.url?.endsWith(slow)) return false
      setTimeout(() => {
        const blob = registry.blob(slow)
        if (blob) sendBlob(request, response, blob)
      }, 500)
      return true
    }
    const pod = world.client()
    await Promise.all([...refs, ...refs].map((ref) => pod.images.pull(ref)))
    assert.equal(registry.log.filter(({ path }) => path.endsWith(slow)).length, 1)
  })
})

function randomBytes(count: number): Buffer {
  const bytes = Buffer.alloc(count)
  let state = 12_345 + count
  for (let at = 0; at < count; at++) {
    state = (state * 1_103_515_245 + 12_345) & 0x7fffffff
    bytes[at] = state >> 16
  }
  return bytes
}
