import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, test } from 'node:test'
import { isAlive, until, World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())

/** Prints numbered lines, some at once and some slowly, for about three seconds. */
const COUNT =
  'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "line $i of the count"; [ $((i % 100)) -eq 0 ] && sleep 0.1; done; exit 9'
const EXPECTED = Array.from({ length: 3000 }, (_, i) => `line ${i + 1} of the count\n`).join('')

async function countWhile(disturb: (seen: () => number) => Promise<void>): Promise<void> {
  const sandbox = await world.client().create({})
  const child = sandbox.exec('sh', { args: ['-c', COUNT] })
  const chunks: Buffer[] = []
  let bytes = 0
  const reading = (async () => {
    for await (const { data } of child.output()) {
      chunks.push(data)
      bytes += data.length
    }
  })()
  await Promise.all([reading, disturb(() => bytes)])
  assert.equal(Buffer.concat(chunks).toString('utf8'), EXPECTED)
  assert.equal(child.exit.exitCode, 9)
  await sandbox.destroy()
}

/** The process that holds this world's sandboxes on the host. */
function podhostPid(): number {
  const pids = execFileSync('ps', ['-eo', 'pid,args'], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => /podhost serve/.test(line) && line.includes(world.home))
    .map((line) => Number.parseInt(line, 10))
  const pid = pids.at(-1)
  assert.ok(pid, 'podhost runs')
  return pid
}

test('the control: without a kill, every byte of output arrives', () => countWhile(async () => undefined))

test('BOX-4 kill -9 of the server while a command prints loses no byte', () =>
  countWhile(async (seen) => {
    await until('output', () => seen() > 1000)
    const first = world.serverPid
    process.kill(first, 'SIGKILL')
    await until('another server', () => world.serverPid !== first && isAlive(world.serverPid))
    await until('more output', () => seen() > 20_000)
    process.kill(world.serverPid, 'SIGKILL')
  }))

test('BOX-4 kill -9 of podhost while a command prints loses no byte, and the next command works', async () => {
  await countWhile(async (seen) => {
    await until('output', () => seen() > 1000)
    process.kill(podhostPid(), 'SIGKILL')
  })
  const sandbox = await world.client().create({})
  assert.equal((await sandbox.exec('echo', { args: ['alive'] }).wait()).stdout, 'alive\n')
  await sandbox.destroy()
})

test('BOX-4 sandboxes outlive the server and podhost, and the next server finds them', async () => {
  const id = (await world.ok(['create', '--name', 'survivor'])).trim()
  await world.ok(['exec', 'survivor', '--', 'sh', '-c', 'echo kept > ~/file'])
  const podhost = podhostPid()
  process.kill(world.serverPid, 'SIGKILL')
  process.kill(podhost, 'SIGKILL')
  await until('both gone', () => !isAlive(podhost))
  assert.equal(await world.ok(['exec', 'survivor', '--', 'sh', '-c', 'cat ~/file']), 'kept\n')
  const listed = JSON.parse(await world.ok(['ls', '--json'])) as { id: string; state: string }[]
  assert.deepEqual(
    listed.map(({ id: found, state }) => [found, state]),
    [[id, 'running']],
  )
  await world.ok(['destroy', 'survivor'])
})
