import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

test('the install phase has made the routes', () => {
  assert.deepEqual(JSON.parse(readFileSync('routes.json', 'utf8')), { '/health': { timeout: 5000 } })
})

test('the variables are those of development', () => {
  assert.equal(process.env.SHOP, 'bookshop')
  assert.notEqual(process.env.NODE_ENV, 'production')
})
