/** Virtual machines through the command line and the SDK, and the memory of their processes. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { LEVELS } from '../support/contract-table.ts'
import { NOT_LONG } from '../support/long.ts'
import {
  machineOf,
  machinePosture,
  podhostPids,
  sharedMachineFiles,
  supervisorPids,
} from '../support/machine-view.ts'
import { makeImage } from '../support/made-image.ts'
import { NO_QEMU, SMALL_MACHINE, USER_FILES } from '../support/qemu.ts'
import { busyboxFiles, NO_BUSYBOX } from '../support/tiny-images.ts'
import { ToyRegistry } from '../support/toy-registry.ts'
import { isAlive, ROOT, until, World } from '../support/world.ts'

const COUNTER = 'n=0; while :; do n=$((n+1)); echo $n > /tmp/new; mv /tmp/new /tmp/count; sleep 1; done'
const START = `setsid sh -c '${COUNTER}' >/dev/null 2>&1 & for n in 1 2 3 4 5 6 7 8 9; do test -s /tmp/count || sleep 0.5; done`
const GOLDEN = join(ROOT, 'test/attack/golden/posture-qemu.json')

const run = async (sandbox: Sandbox, script: string): Promise<string> =>
  (await sandbox.exec('sh', { args: ['-c', script] }).wait()).stdout.trim()

const count = async (sandbox: Sandbox): Promise<number> => Number(await run(sandbox, 'cat /tmp/count'))

async function counts(sandbox: Sandbox): Promise<number> {
  const first = await count(sandbox)
  await until('the counter to continue', async () => (await count(sandbox)) > first)
  return first
}

const identity = (sandbox: Sandbox): Promise<string> =>
  run(
    sandbox,
    'hostname; cat /etc/machine-id /proc/sys/kernel/random/boot_id; head -c 8 /dev/urandom | od -An -tx1',
  )

describe('virtual machines', { skip: NO_QEMU ?? NO_BUSYBOX }, () => {
  const world = new World()
  const pod = world.client()
  let registry: ToyRegistry
  let image = ''

  before(async () => {
    registry = await ToyRegistry.start()
    const files = [busyboxFiles(), USER_FILES]
    image = registry.put(
      'team/box',
      '1',
      makeImage({ layers: files, config: { Env: ['PATH=/bin'], User: 'user' } }),
    )
    writeFileSync(join(world.home, 'config.toml'), `[registries."${registry.host}"]\ninsecure = true\n`)
  })
  after(async () => {
    pod.close()
    await registry?.[Symbol.asyncDispose]()
    await world[Symbol.asyncDispose]()
  })

  test('PROV-11 a virtual machine has a kernel of its own, the same commands, files and closed network', async () => {
    const create = ['create', '--isolation', 'vm', '--image', image, '--memory', '256m', '--cpus', '1']
    const id = (await world.ok([...create, '--name', 'box'])).trim()
    const kernel = (await world.ok(['exec', 'box', '--', 'uname', '-r'])).trim()
    assert.match(kernel, /^\d+\.\d+/)
    // The control: the kernel of the host is another one.
    assert.notEqual(execFileSync('uname', ['-r'], { encoding: 'utf8' }).trim(), kernel)
    const [listed] = JSON.parse(await world.ok(['ls', '--json'])) as { id: string; isolation: string }[]
    assert.deepEqual([listed?.id, listed?.isolation], [id, 'vm'])
    const provider = (await pod.providers()).find(({ name }) => name === 'qemu')
    const { notes: _, ...levels } = provider?.capabilities ?? { notes: [] }
    assert.deepEqual(levels, LEVELS.qemu, 'docs/reference/providers.md has its capabilities')
    const box = await pod.get('box')
    assert.match(
      await run(
        box,
        'unset http_proxy; wget -q -O- http://example.com/ 2>&1; wget -S -O- http://example.com/ 2>&1',
      ),
      /403 Forbidden/,
    )
    assert.equal(
      await run(box, 'id -un; echo kept > ~/file; cat ~/file; ls /sys/class/net'),
      'user\nkept\nlo',
    )
    await world.ok(['stop', 'box'])
    await world.ok(['start', 'box'])
    assert.equal(await world.ok(['exec', 'box', '--', 'sh', '-c', 'cat ~/file']), 'kept\n')
    const no = await world.cli(['create', '--isolation', 'vm', '--base', 'host'])
    assert.notEqual(no.code, 0)
    assert.match(no.stderr, /use the base debian/)
  })

  test('PROV-11 QEMU has a user, namespaces and a filter of its own, and nothing of the host but its program', async () => {
    const { qemu, base } = await machineOf(world, (await pod.get('box')).id)
    const found = machinePosture(qemu, base)
    if (process.env['AGENTPOD_UPDATE_GOLDEN'] === '1')
      writeFileSync(GOLDEN, `${JSON.stringify(found, null, 2)}\n`)
    assert.deepEqual(found, JSON.parse(readFileSync(GOLDEN, 'utf8')))
    // The control: the same probe of this process shows rights that QEMU does not have.
    assert.notEqual(machinePosture(process.pid).status['CapEff'], found.status['CapEff'])
  })

  test('PROV-11 BOX-4 STATE-15 a virtual machine outlives the server and podhost, which are killed, also paused to disk', async () => {
    const box = await pod.get('box')
    await run(box, START)
    const podhost = podhostPids(world)
    for (const pid of [world.serverPid, ...podhost]) process.kill(pid, 'SIGKILL')
    await until('both gone', () => podhost.every((pid) => !isAlive(pid)))
    const last = await counts(box)
    const kept = (await identity(box)).split('\n').slice(0, 3)
    assert.equal((await box.pause({ toDisk: true })).info.pausedIn, 'disk')
    for (const pid of [world.serverPid, ...podhostPids(world)]) process.kill(pid, 'SIGKILL')
    assert.ok((await counts(box)) >= last)
    assert.deepEqual((await identity(box)).split('\n').slice(0, 3), kept)
  })

  const podhostLog = (): string => readFileSync(join(world.home, 'logs', 'podhost.log'), 'utf8')
  const waited = (): number => podhostLog().match(/machine \S+ waits/g)?.length ?? 0

  test('PROV-12 a machine that waited becomes a sandbox of its own, and ends with podhost', async () => {
    const create = (): Promise<Sandbox> =>
      pod.create({ isolation: 'vm', environment: { image }, resources: SMALL_MACHINE })
    const before = waited()
    const former = await create()
    await until('a machine waits', () => waited() > before)
    const box = await create()
    assert.match(podhostLog(), new RegExp(`${box.id}: create: .*waiting machine`))
    const identities = (await Promise.all([former, box].map(identity))).map((text) => text.split('\n'))
    for (const n of [0, 1, 2, 3]) assert.notEqual(identities[0]?.[n], identities[1]?.[n], `line ${n}`)
    const clock = Number(await run(box, 'date +%s'))
    assert.ok(Math.abs(clock - Date.now() / 1000) < 5, `its clock says ${clock}`)
    const commands = (await box.processes()).map(({ command }) => command.join(' '))
    assert.ok(!commands.some((command) => / -c echo$/.test(command)), commands.join('\n'))
    for (const one of [former, box]) await one.destroy()
    await until('the next one waits', () => supervisorPids(world).length === 2)
    for (const pid of podhostPids(world)) process.kill(pid, 'SIGKILL')
    await until('it ends with podhost', () => supervisorPids(world).length === 1)
    // The sandbox of the other tests is still there, and the next podhost makes more.
    assert.equal(await world.ok(['exec', 'box', '--', 'sh', '-c', 'cat ~/file']), 'kept\n')
    await (await create()).destroy()
  })

  test('STATE-14 PROV-12 the programs of a snapshot stand still in a machine that waits, which ends with the snapshot', async () => {
    const box = await pod.create({ isolation: 'vm', environment: { image }, resources: SMALL_MACHINE })
    await run(box, START)
    await box.snapshot({ name: 'again', memory: true })
    const saved = await count(box)
    const first = await pod.create({ snapshot: 'again' })
    const before = waited()
    await until('a machine waits', () => waited() > before)
    const since = Date.now()
    await until('the original counts on', async () => (await count(box)) > saved + 4)
    const second = await pod.create({ snapshot: 'again' })
    assert.match(podhostLog(), new RegExp(`${second.id}: create: .*waiting machine`))
    const elapsed = (Date.now() - since) / 1000
    assert.ok((await counts(second)) < saved + elapsed, 'its programs ran while the machine waited')
    const identities = (await Promise.all([first, second].map(identity))).map((text) => text.split('\n'))
    for (const n of [0, 1, 2, 3]) assert.notEqual(identities[0]?.[n], identities[1]?.[n], `line ${n}`)
    const clock = Number(await run(second, 'date +%s'))
    assert.ok(Math.abs(clock - Date.now() / 1000) < 5, `its clock says ${clock}`)
    for (const one of [first, second, box]) await one.destroy()
    // The other one is the sandbox of the other tests.
    await until('the next one waits', () => supervisorPids(world).length === 2)
    await world.ok(['snapshot', 'rm', 'again'])
    await until('it ends with the snapshot', () => supervisorPids(world).length === 1)
  })

  test('STATE-14 PROV-12 machines with memory continue in copies, and none changes what others start from', {
    skip: NOT_LONG,
  }, async () => {
    const box = await pod.create({
      isolation: 'vm',
      environment: { image },
      name: 'counter',
      resources: SMALL_MACHINE,
    })
    const before = sharedMachineFiles(world)
    await run(box, START)
    const shot = await box.snapshot({ name: 'moment', memory: true })
    assert.deepEqual([shot.fidelity, shot.memoryBytes > 1_000_000], ['memory', true])
    await counts(box)
    const [fork] = await box.fork({ count: 1, name: 'copy', memory: true })
    const restored = await pod.create({ snapshot: 'moment', name: 'restored' })
    assert.ok(fork)
    const copies = [box, fork, restored]
    for (const copy of copies) await counts(copy)
    const identities = (await Promise.all(copies.map(identity))).map((text) => text.split('\n'))
    for (const n of [0, 1, 2, 3])
      assert.equal(new Set(identities.map((lines) => lines[n])).size, copies.length, `line ${n}`)
    assert.deepEqual(sharedMachineFiles(world), before)
    assert.ok(Object.keys(before).some((file) => /template.*memory/.test(file)))
    for (const one of copies) await one.destroy()
    await world.ok(['snapshot', 'rm', 'moment'])
  })

  test('PROV-12 a machine whose QEMU is killed has ended, and starts again on its files', async () => {
    const box = await pod.get('box')
    const { qemu, supervisor } = await machineOf(world, box.id)
    process.kill(qemu, 'SIGKILL')
    await until('its supervisor to end', () => !isAlive(supervisor))
    await until('the record to say so', async () => /ended unexpectedly/.test(await world.ok(['ls'])))
    // Its files are on its disk, and the next call starts it again.
    assert.equal(await world.ok(['exec', 'box', '--', 'sh', '-c', 'cat ~/file']), 'kept\n')
    await world.ok(['destroy', 'box'])
    assert.equal(await world.ok(['ls', '--json']), '[]\n')
  })
})
