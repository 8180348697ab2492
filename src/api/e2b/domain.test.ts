import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sandboxDomain } from './domain.ts'

const plain = { domains: [], tcp: { host: '127.0.0.1', port: 8080, isTls: false } }
const tls = { domains: ['e2b.localhost'], tcp: { host: '127.0.0.1', port: 8443, isTls: true } }

const CASES: readonly [
  host: string | undefined,
  o: Parameters<typeof sandboxDomain>[1],
  domain: string | null,
][] = [
  ['127.0.0.1:8080', plain, 'localhost:8080'],
  ['localhost:9000', plain, 'localhost:9000'],
  ['[::1]:8080', plain, 'localhost:8080'],
  ['localhost', plain, 'localhost'],
  ['agentpod', plain, 'localhost:8080'],
  [undefined, plain, 'localhost:8080'],
  [undefined, { domains: [], tcp: undefined }, null],
  ['api.e2b.localhost:8443', tls, 'e2b.localhost:8443'],
  ['API.E2B.LOCALHOST:8443', tls, 'e2b.localhost:8443'],
  ['localhost:8443', tls, 'e2b.localhost:8443'],
  ['agentpod', tls, 'e2b.localhost:8443'],
  ['pods.example.org', tls, 'e2b.localhost:8443'],
]

for (const [host, o, domain] of CASES) {
  test(`asked at ${host}${o.tcp?.isTls ? ' over TLS' : ''}, ports are below ${domain}`, () =>
    assert.equal(sandboxDomain(host, o), domain))
}
