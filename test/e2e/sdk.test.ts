/** The SDK as a program uses it, over the unix socket and over TCP with a key: the same cases twice. */
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { isAgentPodError, type PlaceOptions, Sandbox } from '../../src/exports/client.ts'
import { World } from '../support/world.ts'

const world = new World()
const places: Record<string, PlaceOptions> = {
  'unix socket': { socket: join(world.home, 'run', 'api.sock') },
}
before(async () => {
  await world.ok(['ls'])
  const { port } = await world.client().listen()
  const { secret } = await world.client().createKey({ name: 'sdk test' })
  places['TCP and key'] = { url: `http://127.0.0.1:${port}`, key: secret }
})
after(() => world[Symbol.asyncDispose]())

for (const name of ['unix socket', 'TCP and key']) {
  describe(`over ${name}`, () => {
    let sandbox: Sandbox
    before(async () => {
      sandbox = await Sandbox.create({ ...places[name], name: 'box', labels: { suite: 'sdk' } })
    })
    after(() => sandbox.destroy())

    test(`API-1 over ${name}, a sandbox is found again by name, by id and in the list`, async () => {
      assert.equal((await Sandbox.connect('box', places[name])).id, sandbox.id)
      assert.equal((await Sandbox.connect(sandbox.id, places[name])).id, sandbox.id)
      const listed = await Sandbox.list({ ...places[name], labels: { suite: 'sdk' } })
      assert.deepEqual(
        listed.map(({ id }) => id),
        [sandbox.id],
      )
    })

    test(`API-1 over ${name}, exec gives output, exit code and signal`, async () => {
      const heard: string[] = []
      const result = await sandbox
        .exec('sh', { args: ['-c', 'echo out; echo err >&2; exit 3'] })
        .wait({ onStdout: (data) => heard.push(`o:${data}`), onStderr: (data) => heard.push(`e:${data}`) })
      assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['out\n', 'err\n', 3])
      assert.deepEqual(heard.sort(), ['e:err\n', 'o:out\n'])
    })

    test(`API-1 over ${name}, output can be iterated as it comes`, async () => {
      const seen: string[] = []
      for await (const { stream, data } of sandbox
        .exec('sh', { args: ['-c', 'echo a; sleep 0.2; echo b'] })
        .output()) {
        seen.push(`${stream} ${data.toString().trim()}`)
      }
      assert.deepEqual(seen, ['stdout a', 'stdout b'])
    })

    test(`API-1 over ${name}, stdin is written and closed`, async () => {
      const child = sandbox.exec('cat', { stdin: true })
      const done = child.wait()
      await child.write(Buffer.from('hello '))
      await child.write(Buffer.from('world'))
      await child.closeStdin()
      assert.equal((await done).stdout, 'hello world')
    })

    test(`API-1 over ${name}, a process outlives its client, and is followed again from the start`, async () => {
      const child = sandbox.exec('sh', { args: ['-c', 'echo first; sleep 0.5; echo second'] })
      const output = child.output()
      await output.next()
      const pid = await child.pid
      await output.return(undefined)
      const again = await sandbox.attach(pid).wait()
      assert.deepEqual([again.stdout, again.exitCode], ['first\nsecond\n', 0])
    })

    test(`API-1 over ${name}, signals end a process and everything it started`, async () => {
      const child = sandbox.exec('sh', { args: ['-c', 'sleep 555.25 & sleep 555.25'] })
      const done = child.wait()
      await child.pid
      await child.signal('SIGKILL')
      assert.equal((await done).signal, 'SIGKILL')
      const { stdout } = await sandbox.exec('sh', { args: ['-c', 'cat /proc/[0-9]*/cmdline'] }).wait()
      assert.ok(!stdout.replaceAll('\0', ' ').includes('sleep 555.25 '))
    })

    test(`API-1 over ${name}, a terminal has a size and takes keys`, async () => {
      const child = sandbox.exec('sh', { terminal: { cols: 77, rows: 22 } })
      let screen = ''
      const reading = (async () => {
        for await (const { data } of child.output()) screen += data
      })()
      await child.write(Buffer.from('stty size; exit 4\n'))
      await reading
      assert.match(screen, /22 77/)
      assert.equal(child.exit.exitCode, 4)
    })

    test(`API-1 over ${name}, files are uploaded, downloaded, listed, moved and removed`, async () => {
      await sandbox.writeFile('dir/a.txt', Buffer.from('grüße'))
      assert.equal(await sandbox.readText('dir/a.txt'), 'grüße')
      assert.equal((await sandbox.stat('dir/a.txt')).sizeBytes, 7)
      await sandbox.move('dir/a.txt', 'dir/b.txt')
      assert.deepEqual(
        (await sandbox.list('dir')).map((entry) => entry.name),
        ['b.txt'],
      )
      await sandbox.remove('dir')
      await assert.rejects(sandbox.readText('dir/b.txt'), (error) => isAgentPodError(error, 'not_found'))
    })

    test(`API-1 over ${name}, directories are uploaded and downloaded`, async () => {
      const local = world.directory()
      mkdirSync(join(local, 'sub'))
      writeFileSync(join(local, 'sub', 'x'), 'content')
      await sandbox.upload(local, '/home/user/up')
      const back = join(world.directory(), 'down')
      const { files, skipped } = await sandbox.download('/home/user/up', back)
      assert.deepEqual([files, skipped], [1, []])
      assert.equal(readFileSync(join(back, 'sub', 'x'), 'utf8'), 'content')
    })

    test(`API-1 over ${name}, changes in a directory are reported`, async () => {
      await sandbox.makeDirectory('/home/user/watched')
      const stop = new AbortController()
      const ready = Promise.withResolvers<void>()
      const changes = sandbox.watch('/home/user/watched', {
        signal: stop.signal,
        onReady: () => ready.resolve(),
      })
      const first = changes.next()
      await ready.promise
      await sandbox.writeFile('/home/user/watched/new', Buffer.from('x'))
      const { value } = await first
      assert.deepEqual([value?.kind, value?.name], ['created', 'new'])
      stop.abort()
      await assert.rejects(
        async () => {
          for await (const _ of changes);
        },
        (error) => isAgentPodError(error, 'canceled'),
      )
    })

    test(`API-1 over ${name}, a port inside is a byte stream outside`, async () => {
      const program =
        'import socket;s=socket.create_server(("127.0.0.1",7777));print("up",flush=True);c=s.accept()[0];c.sendall(c.recv(100).upper());c.close()'
      const server = sandbox.exec('python3', { args: ['-c', program] })
      const output = server.output()
      await output.next()
      const stream = await sandbox.dial(7777)
      stream.write('hello')
      let answer = ''
      for await (const chunk of stream) answer += chunk
      assert.equal(answer, 'HELLO')
      for await (const _ of output);
      await assert.rejects(
        sandbox.dial(7778),
        (error) => isAgentPodError(error) && error.reason === 'port.closed',
      )
    })

    test(`API-1 over ${name}, an abort signal ends the wait at once`, async () => {
      const started = performance.now()
      await assert.rejects(
        sandbox.exec('sleep', { args: ['30'], signal: AbortSignal.timeout(200) }).wait(),
        (error) => isAgentPodError(error, 'canceled'),
      )
      assert.ok(performance.now() - started < 10_000)
    })

    test(`API-1 over ${name}, extend moves the deadline, and await using destroys`, async () => {
      let id = ''
      {
        await using short = await Sandbox.create({ ...places[name], lifetime: { ttlMs: 60_000 } })
        id = short.id
        const longer = await short.extend(600_000)
        assert.ok(Date.parse(longer.info.deadlineAt) - Date.parse(short.info.deadlineAt) > 500_000)
      }
      const gone = await Sandbox.connect(id, places[name])
      assert.equal(gone.info.state, 'destroyed')
      await assert.rejects(gone.exec('true').wait(), (error) => isAgentPodError(error, 'not_found'))
    })
  })
}

test('a key does not see the sandboxes of others', async () => {
  await using local = await world.client().create({ name: 'mine' })
  for (const ref of [local.id, 'mine']) {
    await assert.rejects(Sandbox.connect(ref, places['TCP and key']), (error) =>
      isAgentPodError(error, 'not_found'),
    )
  }
})

test('a wrong key and no key give other errors than an outage', async () => {
  const { url } = places['TCP and key'] ?? {}
  await assert.rejects(Sandbox.list({ url, key: 'e2b_wrong' }), (error) =>
    isAgentPodError(error, 'unauthenticated'),
  )
  await assert.rejects(Sandbox.list({ url: 'http://127.0.0.1:1', key: 'x' }), (error) =>
    isAgentPodError(error, 'unavailable'),
  )
})
