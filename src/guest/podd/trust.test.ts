import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { test } from 'node:test'
import type { GuestInit, GuestTrust } from '../../core/guest.ts'
import { poddGuest } from './client.ts'
import { socketStreams } from './streams.ts'

interface Sent {
  readonly trust?: { readonly ca?: string; readonly roots?: string; readonly name?: string }
}

const INIT: Omit<GuestInit, 'trust'> = {
  env: {},
  defaultUser: 'user',
  defaultWorkdir: '',
  sudo: false,
  lease: { remainingMs: 0, idleMs: 0 },
}

/** What arrives at a podd that gives these answers, one after the other. */
async function sent(trust: GuestTrust | undefined, statuses: readonly number[]): Promise<Sent['trust'][]> {
  const arrived: Sent['trust'][] = []
  const directory = mkdtempSync(join(tmpdir(), 'trust-'))
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      arrived.push((body as Sent).trust)
      response.writeHead(statuses[arrived.length - 1] ?? 500).end('{}')
    })
  })
  const api = join(directory, 'api')
  const streams = socketStreams({ api })
  const guest = poddGuest(streams)
  try {
    await once(server.listen(api), 'listening')
    await guest.configure({ ...INIT, ...(trust && { trust }) }, { timeoutMs: 5000 })
    return arrived
  } finally {
    guest.close()
    server.close()
    rmSync(directory, { recursive: true })
  }
}

const TRUST = { ca: 'an authority', roots: 'roots' }

test('a sandbox that starts gets its certificates with their name', async () => {
  assert.deepEqual(await sent(undefined, [200]), [undefined])
  const [first, more] = await sent(TRUST, [200])
  assert.deepEqual([first?.ca, first?.roots, more], ['an authority', 'roots', undefined])
  const [other] = await sent({ ca: 'an authority', roots: 'other roots' }, [200])
  assert.ok(first?.name !== undefined && first.name !== other?.name, 'other certificates have another name')
})

test('a sandbox that continues gets only the name of its certificates', async () => {
  const [{ name } = {}] = await sent(TRUST, [200])
  assert.deepEqual(await sent({ ...TRUST, isContinued: true }, [200]), [{ name }])
})

test('a sandbox that continues with others gets its certificates, with their name', async () => {
  const [{ name } = {}] = await sent(TRUST, [200])
  assert.deepEqual(await sent({ ...TRUST, isContinued: true }, [400, 200]), [{ name }, { ...TRUST, name }])
})

test('a podd of an earlier version gets certificates without a name', async () => {
  const [{ name } = {}] = await sent(TRUST, [200])
  assert.deepEqual(await sent(TRUST, [400, 200]), [{ ...TRUST, name }, TRUST])
  const continued = await sent({ ...TRUST, isContinued: true }, [400, 400, 200])
  assert.deepEqual(continued, [{ name }, { ...TRUST, name }, TRUST])
  await assert.rejects(sent(TRUST, [400, 400]), /podd refused/)
})
