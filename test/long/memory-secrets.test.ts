/** Copies with memory: their programs go on with the placeholders and the certificates that they hold. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { AgentPod } from '../../src/client/client.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { bootstrapDebian } from '../support/bootstrapped.ts'
import { newToken } from '../support/canary.ts'
import { NO_GVISOR } from '../support/gvisor.ts'
import { Internet, noInternet, SITE } from '../support/internet.ts'
import { NO_QEMU, SMALL_MACHINE } from '../support/qemu.ts'
import { sharedBootstrap } from '../support/shared-bootstrap.ts'
import { until, type World } from '../support/world.ts'

const HOST = 'api.example'
/** An emulated processor takes seconds to load Python's TLS, and one for each handshake. */
const ARRIVES_MS = 60_000

/**
 * Reads its placeholder and its certificates once. Then it asks the site again and again with them, and says
 * which machine it is on.
 */
const ASKER = `
import os, ssl, time, urllib.request
key, trusted = os.environ.pop('API_KEY'), ssl.create_default_context()
open('/tmp/key', 'w').write(key)
while True:
    try:
        ask = urllib.request.Request('https://${HOST}/' + os.uname().nodename, headers={'Authorization': 'Bearer ' + key})
        said = str(urllib.request.urlopen(ask, context=trusted, timeout=20).status)
    except Exception as error:
        said = repr(error)
    open('/tmp/said.new', 'w').write(said); os.replace('/tmp/said.new', '/tmp/said')
    time.sleep(0.2)
`

const run = async (sandbox: Sandbox, script: string): Promise<string> =>
  (await sandbox.exec('sh', { args: ['-c', script] }).wait()).stdout.trim()

const LEVELS = [
  { isolation: 'gvisor', skip: NO_GVISOR, environment: {}, resources: {} },
  { isolation: 'vm', skip: NO_QEMU, environment: { base: 'debian' }, resources: SMALL_MACHINE },
] as const

for (const { isolation, skip, environment, resources } of LEVELS)
  describe(`secrets and memory at the level ${isolation}`, { skip: skip || noInternet() }, () => {
    const key = newToken()
    let internet: Internet
    let world: World
    let pod: AgentPod

    before(async () => {
      if (isolation === 'vm') await bootstrapDebian()
      internet = await Internet.open([HOST])
      internet.name(HOST, [SITE])
      world = internet.world(sharedBootstrap())
      pod = world.client()
      if (isolation === 'vm') await pod.prepare('debian', () => undefined)
      const { code, stderr } = await world.cli(['secret', 'set', 'API_KEY', '--host', HOST], { input: key })
      assert.equal(code, 0, stderr)
    })

    after(async () => {
      try {
        await world[Symbol.asyncDispose]()
      } finally {
        await internet[Symbol.asyncDispose]()
      }
    })

    const create = (name: string, secrets: readonly string[]): Promise<Sandbox> =>
      pod.create({
        isolation,
        environment,
        resources,
        name,
        network: { secrets: [...secrets], allow: [HOST] },
      })

    /** What the site was sent by the program on a machine of this name. */
    const sentFrom = (name: string): (string | undefined)[] =>
      internet.network
        .of('request')
        .filter(({ url }) => url === `/${name}`)
        .map(
          ({ headers }) => headers[headers.findIndex((word) => word.toLowerCase() === 'authorization') + 1],
        )

    async function arrivesFrom(name: string): Promise<void> {
      await internet.forget()
      await until(`the value to arrive from ${name}`, () => sentFrom(name).length > 1, ARRIVES_MS)
      assert.deepEqual([...new Set(sentFrom(name))], [`Bearer ${key}`])
    }

    test('STATE-14 STATE-15 the programs of a copy use their placeholders, and another sandbox cannot', async () => {
      const box = await create('asker', ['API_KEY'])
      await box.writeFile('/home/user/ask.py', Buffer.from(ASKER))
      await run(box, 'nohup python3 ~/ask.py >/tmp/errors 2>&1 &')
      await arrivesFrom('asker')

      await box.snapshot({ name: 'asking', memory: true })
      await arrivesFrom('asker')
      const copies: Sandbox[] = []
      for (const name of ['first', 'second']) {
        copies.push(await pod.create({ snapshot: 'asking', name }))
        await arrivesFrom(name)
      }
      if (isolation === 'vm') {
        const log = readFileSync(join(world.home, 'logs/podhost.log'), 'utf8')
        assert.match(log, new RegExp(`${copies[1]?.id}: create: .*waiting machine`), 'the second one waited')
      }
      await box.pause({ toDisk: true })
      await arrivesFrom('second')
      await box.resume()
      await arrivesFrom('asker')
      await box.destroy()
      await arrivesFrom('first')

      const placeholder = await run(copies[0] ?? box, 'cat /tmp/key')
      assert.match(placeholder, /^agentpod[a-z0-9]{40}$/)
      const other = await create('other', [])
      await internet.forget()
      await run(other, `curl -sS -m 20 -H 'Authorization: Bearer ${placeholder}' https://${HOST}/other`)
      await internet.settled()
      assert.deepEqual(
        sentFrom('other'),
        [`Bearer ${placeholder}`],
        'another sandbox sends the placeholder itself',
      )
      for (const one of [...copies, other]) await one.destroy()
    })
  })
