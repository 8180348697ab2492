/** Groups of real sandboxes: names, ports, and what stays closed. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { isAgentPodError } from '../../src/exports/client.ts'
import { bareRun, saidIn } from '../support/acp-user.ts'
import { shell } from '../support/probe.ts'
import { until, World } from '../support/world.ts'

const world = new World()
const pod = world.client()
let web: Sandbox
let db: Sandbox
let outsider: Sandbox

/** Answers every connection on a port with a word, or with the content of /tmp/word. */
const server = (port: number, word: string): string =>
  [
    'python3 -c "',
    'import os, socketserver',
    'class H(socketserver.BaseRequestHandler):',
    `  def handle(self): self.request.sendall(open('/tmp/word', 'rb').read() if os.path.exists('/tmp/word') else b'${word}')`,
    'socketserver.TCPServer.allow_reuse_address = True',
    `socketserver.TCPServer(('127.0.0.1', ${port}), H).serve_forever()"`,
  ].join('\n')
const service = (port: number, word: string) => ({
  name: 'server',
  run: server(port, word),
  ready: { port, timeoutMs: 20_000 },
})
/** What a program reads from a host and port, or how its connection failed. */
const reads = (host: string, port: number): string =>
  `python3 -c "
import socket
try:
  s = socket.create_connection(('${host}', ${port}), 10)
  data = s.recv(100)
  print(data.decode() or 'closed')
except OSError as e: print('failed')"`
/** The same in one line, for agents. */
const ONE_LINE = `python3 -c "import socket; print(socket.create_connection(('db', 5432), 10).recv(100).decode())"`
const said = async (sandbox: Sandbox, host: string, port: number): Promise<string> =>
  (await shell(sandbox, reads(host, port))).trim()

before(async () => {
  const group = await pod.groups.create({
    name: 'shop',
    members: [
      { name: 'web', main: true, after: ['db'], sandbox: {} },
      {
        name: 'db',
        aliases: ['database'],
        sandbox: { environment: { services: [service(5432, 'from-db')] }, network: { mode: 'off' } },
      },
    ],
  })
  const ids = new Map(group.members.map(({ name, sandbox }) => [name, sandbox?.id ?? '']))
  web = await pod.get(ids.get('web') ?? '')
  db = await pod.get(ids.get('db') ?? '')
  outsider = await pod.create({ environment: { services: [service(7000, 'from-outsider')] } })
})
after(async () => {
  pod.close()
  await world[Symbol.asyncDispose]()
})

test('GRP-1 members of a group reach each other’s ports by name and alias', async () => {
  assert.equal(await said(web, 'db', 5432), 'from-db')
  assert.equal(await said(web, 'database', 5432), 'from-db')
  assert.equal(await said(db, 'db', 5432), 'from-db', 'a member whose own network is off')
  const log = await world.ok(['net', 'log', web.id])
  assert.match(log, /db:5432/)
})

test('GP-01 GRP-2 a sandbox outside of the group reaches no member, and members reach no outsider', async () => {
  assert.equal(await said(web, 'db', 5432), 'from-db', 'the control')
  for (const name of ['db', 'database', 'web', 'shop-db'])
    assert.notEqual(await said(outsider, name, 5432), 'from-db')
  const name = outsider.id
  assert.notEqual(await said(web, name, 7000), 'from-outsider')
  for (const address of ['198.18.0.1', '198.18.0.2', '198.18.0.3', '127.0.0.1'])
    assert.notEqual(await said(outsider, address, 5432), 'from-db')
  assert.notEqual(await said(web, 'example.com', 80), 'from-db', 'nothing else was opened')
})

test('GP-02 GRP-3 a member that was destroyed is not reachable, also under a link that is still open', async () => {
  const group = await pod.groups.create({
    name: 'replaced',
    members: [
      { name: 'web', sandbox: {} },
      { name: 'db', sandbox: { environment: { services: [service(5432, 'first')] } } },
    ],
  })
  const one = await pod.get(group.members[0]?.sandbox?.id ?? '')
  const other = await pod.get(group.members[1]?.sandbox?.id ?? '')
  assert.equal(await said(one, 'db', 5432), 'first', 'the control')
  await other.destroy()
  assert.equal(await said(one, 'db', 5432), 'closed')
  // A sandbox of the same name outside of the group is not the member.
  await using impostor = await pod.create({ environment: { services: [service(5432, 'impostor')] } })
  assert.equal(await said(one, 'db', 5432), 'closed')
  await using next = await pod.create({
    place: { group: 'replaced', member: 'db' },
    environment: { services: [service(5432, 'second')] },
  })
  assert.equal(await said(one, 'db', 5432), 'second')
  assert.ok(next.id !== impostor.id)
  await pod.groups.destroy('replaced')
  await assert.rejects(pod.groups.get('replaced'), (error) => isAgentPodError(error, 'not_found'))
})

test('GP-03 a paused member is woken by a connection, and a stopped group is started as one', async () => {
  await db.pause()
  assert.equal(await said(web, 'db', 5432), 'from-db')
  assert.equal((await pod.get(db.id)).info.state, 'running')
  assert.match(await world.ok(['group', 'pause', 'shop'], {}), /^$/)
  assert.deepEqual(await states('shop'), ['paused', 'paused'])
  await world.ok(['group', 'resume', 'shop'])
  assert.deepEqual(await states('shop'), ['running', 'running'])
  await world.ok(['group', 'stop', 'shop'])
  assert.deepEqual(await states('shop'), ['stopped', 'stopped'])
  await world.ok(['group', 'start', 'shop'])
  assert.equal(await said(web, 'db', 5432), 'from-db')
})

const states = async (name: string): Promise<(string | undefined)[]> =>
  (await pod.groups.get(name)).members.map(({ sandbox }) => sandbox?.state)

test('GRP-4 a fork of a group has the files of its members and its own connections', async () => {
  await shell(db, 'echo kept > ~/file')
  await world.ok(['group', 'fork', '--name', 'shop-2', 'shop'])
  const copy = await pod.groups.get('shop-2')
  const [copiedWeb, copiedDb] = await Promise.all(
    copy.members.map(({ sandbox }) => pod.get(sandbox?.id ?? '')),
  )
  assert.ok(copiedWeb && copiedDb)
  assert.equal(await shell(copiedDb, 'cat ~/file'), 'kept\n')
  await shell(copiedDb, 'printf from-copy > /tmp/word')
  assert.equal(await said(copiedWeb, 'db', 5432), 'from-copy', 'the copy reaches its own member')
  assert.equal(await said(web, 'db', 5432), 'from-db', 'the original reaches its own')
  await copiedWeb.destroy()
  await until('the group ends with its main sandbox', async () => (await pod.groups.list()).length === 1)
  await assert.rejects(pod.get(copiedDb.id).then((one) => shell(one, 'true')))
  const taken = await pod.groups.snapshot('shop', { name: 'shot' })
  assert.deepEqual(
    taken.map(({ snapshot }) => snapshot.name),
    ['shot-web', 'shot-db'],
  )
  for (const { snapshot } of taken) await pod.snapshots.remove(snapshot.id)
})

test('GRP-10 the sandbox of a run takes a place in a group and reaches its members', async () => {
  await pod.groups.create({
    name: 'worked',
    members: [
      { name: 'agent', main: true },
      { name: 'db', sandbox: { environment: { services: [service(5432, 'for-the-agent')] } } },
    ],
  })
  const place = { group: 'worked', member: 'agent' }
  const run = await pod.runs.start({ ...bareRun(`sh ${ONE_LINE}`), place })
  const { info } = await run.ended()
  const { members } = await pod.groups.get('worked')
  assert.equal(members[0]?.sandbox?.id, info.sandboxId)
  assert.match(saidIn(await run.events()), /for-the-agent/)
  await run.remove()
  await pod.groups.destroy('worked').catch(() => undefined)
})
