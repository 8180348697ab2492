/** Package managers with nothing but their preset, and without it. The slowest ones are in test/long. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { describeManagers, hostsOf, isHere, sh } from '../support/package-managers.ts'
import { World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())

describeManagers(world, ['npm', 'pip', 'cargo', 'go'])

const skip = isHere('npm') ? false : 'npm is not on this machine'
test('NET-9 curl without proxy settings fetches a file of the registry', { skip }, async () => {
  await world.ok(['create', '--name', 'plain', '--preset', 'npm'])
  const { text: url } = await sh(
    world,
    'plain',
    'npm view --no-update-notifier is-number@7.0.0 dist.tarball',
    {},
  )
  const fetched = await sh(
    world,
    'plain',
    `env -i curl -sS -o ~/file -w '%{http_code}' '${url.trim()}'; tar tzf ~/file`,
    {},
  )
  assert.match(fetched.text, /^200package\//)
  const hosts = await hostsOf(world, 'npm')
  await world.ok(['allow', '--forget', 'plain', ...hosts])
  const refused = await sh(
    world,
    'plain',
    `env -i curl -sS -m 20 -o ~/file -w '%{http_code}' '${url.trim()}'`,
    {},
  )
  assert.doesNotMatch(refused.text, /^200/, 'without the rule it does not')
})
