import assert from 'node:assert/strict'
import { test } from 'node:test'
import { modelGrant, withGrant } from './model-host.ts'

test('a model of the user’s own is allowed where it is, on its port, also in a private network', () => {
  for (const [url, host, port] of [
    ['https://gateway.internal/v1', 'gateway.internal', 443],
    ['https://Gateway.example.com:8443', 'gateway.example.com', 8443],
    ['http://models.lan', 'models.lan', 80],
  ] as const)
    assert.deepEqual(modelGrant(url), { rule: { host, ports: [port], private: true, source: 'create' } }, url)
})

test('a model at a bare address is allowed as it is, on its port', () => {
  for (const [url, named] of [
    ['https://10.0.0.5:8443', '10.0.0.5:8443'],
    ['http://192.168.1.20/v1', '192.168.1.20:80'],
    ['https://[FD00:0::5]/v1', '[fd00::5]:443'],
    ['https://93.184.215.14', '93.184.215.14:443'],
  ] as const)
    assert.deepEqual(modelGrant(url), { named }, url)
})

test('this machine and what is no server of a network are refused before anything is made, with what to do', () => {
  for (const url of [
    'https://localhost:4000',
    'https://a.localhost',
    'http://127.0.0.1:4000',
    'http://2130706433',
    'https://[::1]',
    'http://0.0.0.0',
    'http://169.254.169.254',
  ])
    assert.throws(() => modelGrant(url), { reason: 'model.url', message: /this machine itself/ }, url)
})

test('the grant of the model comes to the others and takes none away', () => {
  const rule = { host: 'gateway.internal', ports: [443], private: true, source: 'create' } as const
  const grant = modelGrant('https://gateway.internal')
  assert.deepEqual(withGrant(undefined, grant), { allow: [rule] })
  assert.deepEqual(withGrant({ mode: 'open', allow: ['example.com'] }, grant), {
    mode: 'open',
    allow: ['example.com', rule],
  })
  assert.equal(withGrant(undefined, undefined), undefined)
  const named = modelGrant('https://10.0.0.5')
  assert.deepEqual(withGrant({ mode: 'open', allow: ['example.com'] }, named), {
    mode: 'open',
    allow: ['example.com'],
    addresses: { named: ['10.0.0.5:443'] },
  })
  assert.deepEqual(withGrant({ addresses: { denied: ['10.0.0.0/8'], named: ['10.0.0.6:80'] } }, named), {
    addresses: { denied: ['10.0.0.0/8'], named: ['10.0.0.6:80', '10.0.0.5:443'] },
  })
})
