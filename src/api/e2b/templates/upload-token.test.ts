import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { test } from 'node:test'
import { sandboxTokens } from '../../door/sandbox-tokens.ts'
import { uploadOwner, uploadPath } from './upload-token.ts'

const { sign } = sandboxTokens('secret')
const at = (now: number): { sign: typeof sign; now: () => number } => ({ sign, now: () => now })
const path = uploadPath(at(0), { templateId: `tpl${'a'.repeat(20)}`, hash: 'b'.repeat(64), owner: 'key one' })
const owner = (url: string, method = 'PUT', now = 1000): string | undefined =>
  uploadOwner(at(now), { url, method } as IncomingMessage)

test('CP-24 a signed address uploads for its owner', () => assert.equal(owner(path), 'key one'))

test('CP-24 a signed address is good for its own files, until it expires', () => {
  assert.equal(owner(path, 'GET'), undefined)
  assert.equal(owner(path.replace('bbbb', 'cccc')), undefined)
  assert.equal(owner(path.replace('tpla', 'tplb')), undefined)
  assert.equal(
    owner(path.replace(/\/[^/]+\/(\d+)\//, `/${Buffer.from('other').toString('base64url')}/$1/`)),
    undefined,
  )
  assert.equal(owner(path.replace(/\/(\d+)\//, '/9999999999999/')), undefined)
  assert.equal(owner(path, 'PUT', 3_600_001), undefined)
  assert.equal(owner(`/templates/tpl${'a'.repeat(20)}`), undefined)
})
