import assert from 'node:assert/strict'
import { test } from 'node:test'
import { modelRule, withRule } from './model-host.ts'

test('a model of the user’s own is allowed where it is, on its port, also in a private network', () => {
  for (const [url, host, port] of [
    ['https://gateway.internal/v1', 'gateway.internal', 443],
    ['https://Gateway.example.com:8443', 'gateway.example.com', 8443],
    ['http://models.lan', 'models.lan', 80],
  ] as const)
    assert.deepEqual(modelRule(url), { host, ports: [port], private: true, source: 'create' }, url)
})

test('a number and this machine are refused before anything is made, with what to do', () => {
  for (const url of ['https://10.0.0.5:8443', 'https://[fd00::5]/v1'])
    assert.throws(() => modelRule(url), {
      reason: 'model.url',
      hint: /a name in your DNS or in \/etc\/hosts/,
    })
  for (const url of ['https://localhost:4000', 'https://a.localhost'])
    assert.throws(() => modelRule(url), { reason: 'model.url', message: /this machine itself/ })
})

test('the rule of the model comes to the others and takes none away', () => {
  const rule = modelRule('https://gateway.internal')
  assert.deepEqual(withRule(undefined, rule), { allow: [rule] })
  assert.deepEqual(withRule({ mode: 'open', allow: ['example.com'] }, rule), {
    mode: 'open',
    allow: ['example.com', rule],
  })
  assert.equal(withRule(undefined, undefined), undefined)
})
