/** The cases of test/findings that take longer than the ordinary test run allows. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeOrdinaryUser, noOrdinaryUser } from '../support/ordinary-user.ts'
import { World } from '../support/world.ts'

test('U2: an ordinary user has E2B’s door, with its template', { skip: noOrdinaryUser() }, async () => {
  using user = makeOrdinaryUser()
  await using world = new World({ home: join(user.home, 'state'), as: user })
  // The first call builds E2B's template, which has compilers and Node.
  assert.match(await world.ok(['e2b', 'env'], { timeoutMs: 300_000 }), /E2B_API_KEY=/)
})
