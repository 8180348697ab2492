/** The cases of test/findings that take longer than the ordinary test run allows. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
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

test('U2: an ordinary user has the debian base, and apt on this machine stays as it is', {
  skip: noOrdinaryUser(),
}, async () => {
  using user = makeOrdinaryUser()
  await using world = new World({ home: join(user.home, 'state'), as: user })
  const lists = (): string =>
    execFileSync('ls', ['-l', '--time-style=full-iso', '/var/lib/apt/lists'], { encoding: 'utf8' })
  const before = lists()
  const script = 'grep ^ID= /etc/os-release; ls -A /tmp /var/lib/apt/lists'
  const args = ['run', '--no-project', '--base', 'debian', '--', 'sh', '-c', script]
  const { code, stdout, stderr } = await world.cli(args, { timeoutMs: 300_000 })
  assert.equal(code, 0, stderr)
  assert.match(stdout, /^ID=debian\n\/tmp:\n/)
  assert.doesNotMatch(stdout, /InRelease/, 'the layer holds no package lists')
  assert.equal(lists(), before)
})
