import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { connect } from 'node:tls'
import { homeAt } from '../core/home.ts'
import { SeededRandom } from '../testing/seeded-random.ts'
import { makeAuthority, makeCertificate } from '../util/x509/certificate.ts'
import { ownCertificate } from './own-certificate.ts'

const parts = { now: Date.now(), random: new SeededRandom(5) }
const authority = makeAuthority(parts)
const DOMAIN = 'e2b.localhost'

test('the server’s authority signs itself and the server’s certificate', () => {
  const root = new X509Certificate(authority.cert)
  const leaf = new X509Certificate(
    makeCertificate(authority, [DOMAIN, `*.${DOMAIN}`, '127.0.0.1', '::1'], parts).cert,
  )
  assert.ok(root.ca && root.verify(root.publicKey) && root.checkIssued(root))
  assert.ok(!leaf.ca && leaf.verify(root.publicKey) && leaf.checkIssued(root))
  assert.equal(leaf.checkHost(`49983-abcd.${DOMAIN}`), `*.${DOMAIN}`)
  assert.equal(leaf.checkHost('example.org'), undefined)
  assert.equal(leaf.checkIP('127.0.0.1'), '127.0.0.1')
  assert.equal(leaf.checkIP('::1'), '::1')
  assert.deepEqual(leaf.keyUsage, ['1.3.6.1.5.5.7.3.1'])
  const days = (Date.parse(leaf.validTo) - Date.parse(leaf.validFrom)) / 86_400_000
  assert.equal(days, 397)
  assert.ok(Date.parse(leaf.validFrom) < Date.now() && Date.parse(leaf.validTo) > Date.now())
})

test('a certificate of a year with four digits can be read', () => {
  const far = makeAuthority({ ...parts, now: Date.UTC(2051, 0, 2) })
  assert.match(new X509Certificate(far.cert).validFrom, /2051/)
})

describe('a client that trusts the authority', () => {
  const ask = async (names: readonly string[], servername: string): Promise<string> => {
    const server = createServer(makeCertificate(authority, names, parts), (_, response) =>
      response.end('hello'),
    )
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    try {
      return await new Promise((resolve) => {
        const socket = connect({ port, host: '127.0.0.1', servername, ca: authority.cert })
        socket.once('secureConnect', () => {
          resolve('trusted')
          socket.destroy()
        })
        socket.once('error', (error) => resolve(error.message))
      })
    } finally {
      server.close()
    }
  }
  test('the server’s certificate is valid for a name below localhost', async () =>
    assert.equal(await ask([DOMAIN, `*.${DOMAIN}`], `3000-abcd.${DOMAIN}`), 'trusted'))
  test('the server’s certificate is not valid for another name below localhost', async () =>
    assert.match(await ask([DOMAIN], 'other.localhost'), /does not match certificate/))
  test('the server’s certificate is not valid for a public name', async () =>
    assert.match(await ask(['example.org'], 'example.org'), /permitted subtree violation/))
})

describe('the files', () => {
  const root = mkdtempSync(join(tmpdir(), 'agentpod-tls-'))
  const home = homeAt(root)
  after(() => rmSync(root, { recursive: true }))
  test('the certificate files are made once, readable by their owner alone', () => {
    const first = ownCertificate(home, DOMAIN)
    const second = ownCertificate(home, 'other.localhost')
    assert.equal(chain(first.cert)[1], chain(second.cert)[1])
    assert.equal(statSync(join(home.tls, 'ca.key')).mode & 0o777, 0o600)
    assert.equal(statSync(home.tls).mode & 0o777, 0o700)
    assert.equal(new X509Certificate(second.cert).checkHost('1-abcd.other.localhost'), '*.other.localhost')
  })
})

function chain(pem: string): string[] {
  return pem.match(/-----BEGIN[\s\S]*?-----END CERTIFICATE-----/g) ?? []
}
