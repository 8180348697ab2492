/** A Docker engine inside a sandbox: its containers, their networks, and the rules of the sandbox. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { NO_ENGINE_INSIDE } from '../support/docker-inside.ts'
import { Internet, noInternet, OTHER_SITE, SITE } from '../support/internet.ts'
import type { World } from '../support/world.ts'

const skip = NO_ENGINE_INSIDE || noInternet()

/** An image of one program, because no registry is at hand. */
const IMAGE = `mkdir -p ~/image/bin && cp /bin/busybox ~/image/bin/ && ln -sf busybox ~/image/bin/sh
tar -C ~/image -c . | docker import - tools >/dev/null`

const WEB = `mkdir -p ~/www && echo hello from web > ~/www/index.html
docker network create apart >/dev/null
docker run -d --network apart --name web -p 8081:80 -v ~/www:/www tools /bin/busybox httpd -f -p 80 -h /www >/dev/null
until docker exec web /bin/busybox wget -qO- http://127.0.0.1/ >/dev/null 2>&1; do sleep 0.2; done`

describe('a Docker engine inside', { skip }, () => {
  let internet: Internet
  let world: World
  const inside = (script: string, name = 'engine'): Promise<string> =>
    world.ok(['exec', name, '--', 'sh', '-c', script])

  before(async () => {
    internet = await Internet.open(['site.example', 'other.example'])
    internet.name('site.example', [SITE])
    internet.name('other.example', [OTHER_SITE])
    world = internet.world()
    const options = ['--docker', '--isolation', 'gvisor', '--allow', 'site.example']
    await world.ok(['create', '--name', 'engine', ...options])
    await inside(IMAGE)
  })
  after(async () => {
    await world?.[Symbol.asyncDispose]()
    await internet?.[Symbol.asyncDispose]()
  })

  test('DOCKER-1 the engine is ready before the first command, and an ordinary user inside may use it', async () => {
    assert.match(
      await inside('id -un; docker run --rm tools /bin/busybox echo in a container'),
      /^user\nin a/,
    )
    const built = 'cd ~/image && printf \'FROM tools\\nRUN ["/bin/busybox","touch","/made"]\\n\' > Dockerfile'
    await inside(`${built} && docker build -q -t built . && docker run --rm built /bin/busybox ls /made`)
  })

  test('DOCKER-2 containers reach each other by name, and their published ports are the sandbox’s', async () => {
    await inside(WEB)
    // gVisor resets about one in a hundred connections over a bridge while its table nat has rules, and none
    // without. An answer has to come nevertheless.
    const ask = 'docker run --rm --network apart tools /bin/busybox wget -qO- http://web/'
    const asked = `for n in 1 2 3 4 5; do ${ask} && break; done`
    assert.equal(await inside(asked), 'hello from web\n')
    assert.equal(await inside("curl -sS -m 10 --noproxy '*' http://127.0.0.1:8081/"), 'hello from web\n')
  })

  test('DOCKER-3 containers reach what the sandbox may reach, by every network of the engine, and nothing else', async () => {
    await inside('docker network inspect apart >/dev/null 2>&1 || docker network create apart >/dev/null')
    for (const network of ['bridge', 'apart', 'host']) {
      const get = (url: string): string =>
        `docker run --rm --network ${network} tools /bin/busybox wget -qO- ${url} 2>&1 || true`
      assert.match(await inside(get('http://site.example/')), /^hello from /, `${network}: the control`)
      assert.match(await inside(get('http://other.example/')), /403 Forbidden/, network)
      assert.match(await inside(get(`http://${OTHER_SITE}/`)), /403 Forbidden/, `${network}: an address`)
    }
    assert.match(await world.ok(['net', 'log', 'engine']), /denied {3}other\.example:80/)
  })

  test('DOCKER-4 images survive a stop and are part of copies; memory cannot be saved', async () => {
    const { stderr, code } = await world.cli(['snapshot', 'create', 'engine', '--memory'])
    assert.equal(code, 6)
    assert.match(stderr, /may run a Docker engine, whose networks gVisor cannot restore\nhint: leave out/)
    await world.ok(['stop', 'engine'])
    await world.ok(['start', 'engine'])
    await world.ok(['fork', 'engine', '--name', 'copy'])
    for (const name of ['engine', 'copy'])
      assert.equal(await inside('docker run --rm tools /bin/busybox echo again', name), 'again\n')
    await world.ok(['destroy', 'copy'])
  })

  test('DOCKER-5 an engine is refused where the kernel is shared, with the level to ask for', async () => {
    const { stderr, code } = await world.cli(['create', '--docker'])
    assert.equal(code, 6)
    assert.match(
      stderr,
      /cannot run a Docker engine\nhint: use the level `gvisor` or `vm`: `--isolation gvisor`/,
    )
  })
})
