/** Group FS: what a volume carries from one sandbox to the next, and what its files can lead to. */
import assert from 'node:assert/strict'
import { request } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { Canary } from '../support/canary.ts'
import { shell } from '../support/probe.ts'
import { World } from '../support/world.ts'

const world = new World()
const pod = world.client()
let canary: Canary
let first: Sandbox
let second: Sandbox

before(async () => {
  canary = await Canary.plant()
  await pod.volumes.create({ name: 'shared' })
  const volumes = [{ volume: 'shared', path: '/shared' }]
  first = await pod.create({ volumes, environment: { sudo: true } })
  second = await pod.create({ volumes, environment: { sudo: true } })
})
after(async () => {
  await canary[Symbol.asyncDispose]()
  pod.close()
  await world[Symbol.asyncDispose]()
})

/** A file of the volume as E2B's clients read it. */
async function readFile(path: string): Promise<{ status: number; body: string }> {
  const { id } = await pod.volumes.get('shared')
  return new Promise((resolve, reject) => {
    const asked = request(
      {
        socketPath: join(world.home, 'run', 'api.sock'),
        path: `/volumecontent/${id}/file?${new URLSearchParams({ path })}`,
      },
      (answer) => {
        text(answer).then((body) => resolve({ status: answer.statusCode ?? 0, body }), reject)
      },
    )
    asked.once('error', reject)
    asked.end()
  })
}

test('FS-35 a setuid program that one sandbox leaves in a volume gives another one no rights', async () => {
  const make = (path: string): string => `cp "$(readlink -f /usr/bin/id)" ${path} && chmod 4755 ${path}`
  await shell(first, make('/shared/id'), { user: 'root' })
  await shell(second, make('/usr/local/bin/setuid-id'), { user: 'root' })
  assert.equal((await shell(second, '/usr/local/bin/setuid-id -u')).trim(), '0', 'the control')
  assert.equal((await shell(second, '/shared/id -u')).trim(), '1000')
  assert.equal((await shell(first, '/shared/id -u')).trim(), '1000')
})

test('FS-35 a device in a volume cannot be made, and would not open', async () => {
  const said = await shell(first, 'mknod /shared/null c 1 3 2>&1; echo x 2>&1 > /shared/null; true', {
    user: 'root',
  })
  assert.match(said, /not permitted/)
  const options = await shell(first, 'grep " /shared " /proc/self/mountinfo')
  assert.match(options, /nosuid,nodev/)
})

test('FS-34 a link in a volume leads callers from outside neither to the host nor out of the volume', async () => {
  await shell(
    first,
    `cd /shared && echo plain > plain && ln -s plain inner && ln -s ${canary.file} host && ln -s / all &&
     ln -s ../../../../../../..${canary.file} up && ln -s /etc/passwd passwd && ln -s /proc/self/environ environ`,
  )
  assert.deepEqual(await readFile('/plain'), { status: 200, body: 'plain\n' })
  assert.deepEqual(await readFile('/inner'), { status: 200, body: 'plain\n' }, 'the control')
  for (const path of ['/host', '/up', `/all${canary.file}`, '/passwd', '/all/etc/passwd', '/environ']) {
    const { status, body } = await readFile(path)
    assert.equal(status, 404, `${path}: ${body}`)
    assert.ok(!body.includes(canary.token))
  }
})

test('FS-36 a file in a volume keeps its owner and mode in every sandbox that mounts it', async () => {
  await shell(first, 'echo x > /shared/by-root; chmod 600 /shared/by-root', { user: 'root' })
  assert.equal((await shell(second, 'stat -c %u /shared/by-root')).trim(), '0')
  // Each sandbox has its own ids, and sees the other's root as its own.
  assert.equal((await shell(second, 'cat /shared/by-root', { user: 'root' })).trim(), 'x')
  assert.match(await shell(second, 'cat /shared/by-root 2>&1; true'), /Permission denied/)
})
