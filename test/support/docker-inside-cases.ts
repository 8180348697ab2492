/** What a Docker engine inside a sandbox promises, at every level of isolation that has one. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { SLOW } from './docker-inside.ts'
import { Internet, noInternet, OTHER_SITE, SITE } from './internet.ts'
import type { World } from './world.ts'

export interface EngineStage {
  /** In the title of the tests. */
  readonly where: string
  readonly skip: string | false
  /** A server on this internet, and the options of a sandbox that has an engine. */
  open(internet: Internet): Promise<{ readonly world: World; readonly options: readonly string[] }>
  /** Whether the processes of containers continue in copies. */
  readonly savesMemory: boolean
  /** How many connections between containers are made; none of them may fail. */
  readonly connections: number
}

/** An image of one program, because no registry is at hand. */
const IMAGE = `mkdir -p ~/image/bin && cp /bin/busybox ~/image/bin/ && ln -sf busybox ~/image/bin/sh
echo a file > ~/image/file
tar -C ~/image -c . | docker import - tools >/dev/null`

const WEB = `mkdir -p ~/www && echo hello from web > ~/www/index.html
docker network create apart >/dev/null
docker run -d --network apart --name web -p 8081:80 -v ~/www:/www tools /bin/busybox httpd -f -p 80 -h /www >/dev/null
until docker exec web /bin/busybox wget -qO- http://127.0.0.1/ >/dev/null 2>&1; do sleep 0.2; done`

/** In one container, because starting one takes longer than many connections. */
const askOften = (times: number): string =>
  `n=0; while [ $n -lt ${times} ]; do n=$((n+1)); /bin/busybox wget -qO- http://web/ || echo failed; done`

/** Answers and refusals, each on a line. */
const askEach = (urls: readonly string[]): string =>
  urls.map((url) => `echo $(/bin/busybox wget -qO- ${url} 2>&1)`).join('; ')

const COUNTER = 'n=0; while :; do n=$((n+1)); echo $n > /count; sleep 1; done'

export function testEngineInside({ where, skip, open, savesMemory, connections }: EngineStage): void {
  describe(`a Docker engine inside, ${where}`, { skip: skip || noInternet() }, () => {
    let internet: Internet
    let world: World
    const inside = (script: string, name = 'engine'): Promise<string> =>
      world.ok(['exec', name, '--', 'sh', '-c', script], SLOW)

    before(async () => {
      internet = await Internet.open(['site.example', 'other.example'])
      internet.name('site.example', [SITE])
      internet.name('other.example', [OTHER_SITE])
      const opened = await open(internet)
      world = opened.world
      await world.ok(['create', '--name', 'engine', '--allow', 'site.example', ...opened.options], SLOW)
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
      const built =
        'cd ~/image && printf \'FROM tools\\nRUN ["/bin/busybox","touch","/made"]\\n\' > Dockerfile'
      await inside(`${built} && docker build -q -t built . && docker run --rm built /bin/busybox ls /made`)
    })

    test('DOCKER-1 containers may rename and remove files of their image', async () => {
      const change =
        'busybox mv /file /renamed && busybox rm /bin/sh && busybox cat /renamed && busybox ls /bin'
      const run = `docker run --rm -e PATH=/bin tools /bin/sh -c '${change}'`
      // Twice: the image itself is as it was.
      for (let n = 0; n < 2; n++) assert.equal(await inside(run), 'a file\nbusybox\n')
    })

    test('DOCKER-2 containers reach each other by name, and their published ports are the sandbox’s', async () => {
      await inside(WEB)
      const often = `docker run --rm --network apart tools /bin/sh -c '${askOften(connections)}' 2>&1`
      assert.equal(await inside(often), 'hello from web\n'.repeat(connections), 'no connection is reset')
      assert.equal(await inside("curl -sS -m 10 --noproxy '*' http://127.0.0.1:8081/"), 'hello from web\n')
      // From another network by an address of the sandbox, as host.docker.internal is.
      const other = 'docker run --rm tools /bin/busybox wget -qO- http://172.17.0.1:8081/'
      assert.equal(await inside(other), 'hello from web\n')
    })

    test('DOCKER-3 containers reach what the sandbox may reach, by every network of the engine, and nothing else', async () => {
      await inside('docker network inspect apart >/dev/null 2>&1 || docker network create apart >/dev/null')
      const urls = ['http://site.example/', 'http://other.example/', `http://${OTHER_SITE}/`]
      for (const network of ['bridge', 'apart', 'host']) {
        const asked = `docker run --rm --network ${network} tools /bin/sh -c '${askEach(urls)}'`
        const [control = '', name = '', address = ''] = (await inside(asked)).split('\n')
        assert.match(control, /^hello from /, `${network}: the control`)
        assert.match(name, /403 Forbidden/, network)
        assert.match(address, /403 Forbidden/, `${network}: an address`)
      }
      assert.match(await world.ok(['net', 'log', 'engine']), /denied {3}other\.example:80/)
    })

    test('DOCKER-4 containers continue in copies with memory, where the level can save it', async () => {
      if (!savesMemory) {
        const { stderr, code } = await world.cli(['snapshot', 'create', 'engine', '--memory'], SLOW)
        assert.equal(code, 6)
        assert.match(stderr, /may run a Docker engine, whose networks gVisor cannot restore\nhint: leave out/)
        return
      }
      await inside(`docker run -d --name counter tools /bin/sh -c '${COUNTER}' >/dev/null`)
      const count = async (name: string): Promise<number> =>
        Number(await inside('docker exec counter /bin/busybox cat /count', name))
      const started = "docker inspect --format '{{.State.StartedAt}} {{.State.Running}}' counter"
      const before = await count('engine')
      await world.ok(['fork', 'engine', '--name', 'twin', '--memory'], SLOW)
      assert.equal(await inside(started, 'twin'), await inside(started))
      for (const name of ['engine', 'twin']) assert.ok((await count(name)) > before, name)
      await world.ok(['destroy', 'twin'], SLOW)
    })

    test('DOCKER-4 images survive a stop and are part of copies', async () => {
      await world.ok(['stop', 'engine'], SLOW)
      await world.ok(['start', 'engine'], SLOW)
      await world.ok(['fork', 'engine', '--name', 'copy'], SLOW)
      for (const name of ['engine', 'copy'])
        assert.equal(await inside('docker run --rm tools /bin/busybox echo again', name), 'again\n')
      await world.ok(['destroy', 'copy'], SLOW)
    })

    test('DOCKER-6 an engine that ended says so in its log, and starts again with the sandbox', async () => {
      const end =
        'kill -KILL $(cat /run/docker.pid) && while docker version >/dev/null 2>&1; do sleep 0.1; done'
      await world.ok(['exec', '--user', 'root', 'engine', '--', 'sh', '-c', end], SLOW)
      const { stderr, code } = await world.cli(['exec', 'engine', '--', 'docker', 'ps'], SLOW)
      assert.equal(code, 1)
      assert.match(stderr, /Is the docker daemon running\?/)
      const log = await world.cli(['logs', '--service', 'docker-engine', 'engine'], SLOW)
      assert.match(log.stderr, /API listen on/)
      await world.ok(['stop', 'engine'], SLOW)
      await world.ok(['start', 'engine'], SLOW)
      assert.equal(await inside('docker run --rm tools /bin/busybox echo again'), 'again\n')
    })
  })
}
