/**
 * Blank shells: a sandbox is the same whether or not one was ready for it, and shells are never left behind.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Sandbox } from '../../src/client/sandbox.ts'
import type { Resources } from '../../src/core/resources.ts'
import type { Optional } from '../../src/util/optional.ts'
import { poddPid, podhostOf, readyShells } from '../support/host-view.ts'
import { shell } from '../support/probe.ts'
import { isAlive, until, World } from '../support/world.ts'

const ASK = { timeoutMs: 20_000 }
const skip = process.getuid?.() !== 0 && 'an ordinary user’s are in test/findings/ordinary-user.test.ts'
const warm = new World({ env: { AGENTPOD_SHELLS: '2' } })
const cold = new World({ env: { AGENTPOD_SHELLS: '0' } })

before(async () => {
  if (!skip) for (const world of [warm, cold]) await world.ok(['ls'])
})
after(async () => {
  for (const world of [warm, cold]) await world[Symbol.asyncDispose]()
})

async function pidOf(world: World, id: string): Promise<number> {
  const podhost = podhostOf(world)
  const pid = await poddPid(podhost, id)
  await podhost.close()
  return pid
}

/** A sandbox that took a shell; the first create of all is what makes podhost keep some. */
async function fromShell(resources: Optional<Resources>): Promise<Sandbox> {
  const pod = warm.client()
  await using _first = await pod.create({})
  const shells = await readyShells(warm, 2)
  const sandbox = await pod.create({ resources })
  assert.ok(shells.includes(await pidOf(warm, sandbox.id)), 'the control: it took a shell')
  return sandbox
}

async function withoutShell(resources: Optional<Resources>): Promise<Sandbox> {
  const sandbox = await cold.client().create({ resources })
  assert.deepEqual(await readyShells(cold, 0), [], 'the control: there is none')
  return sandbox
}

const LOOK = `
cat /proc/self/limits | grep -E 'open files|processes|core'; id; umask; pwd; env | sort; ls -la / | awk '{print $1, $3, $4, $9}'
grep -E 'Cap|NoNewPrivs|Seccomp' /proc/self/status; mount | sed -E 's#/proc/self/fd/[0-9]+#FD#g; s#lower/[0-9]+#LOWER#g; s#([ug]id)=[0-9]+#\\1=ITS#g' | sort
df -k /tmp /dev/shm | awk '{print $2, $6}'; ps -e -o pid,args --no-headers | head -1; readlink /proc/self/cwd; ls /dev /sys /run
cat /proc/self/cgroup | sort; cat /etc/hosts | wc -l; stat -c '%a %U' /tmp /dev/shm /run /proc /home/user`

for (const [what, resources] of Object.entries({
  'the default limits': {},
  'limits of its own': { memoryMib: 128, cpus: 0.5, pids: 40, files: 512, tmpMib: 16, shmMib: 8 },
})) {
  test(`STATE-13 with ${what}, a sandbox from a shell is like any other`, { skip }, async () => {
    await using one = await fromShell(resources)
    await using other = await withoutShell(resources)
    const facts = async (sandbox: Sandbox, user: string): Promise<string> =>
      (await shell(sandbox, LOOK, { user })).replaceAll(sandbox.id, 'ID')
    for (const user of ['user', 'root']) assert.equal(await facts(one, user), await facts(other, user))
    assert.equal((await shell(one, 'hostname')).trim(), one.id)
    assert.deepEqual(one.info.limits, other.info.limits)
    const { memLimitBytes, pidsLimit, uptimeMs } = await one.stats()
    const plain = await other.stats()
    assert.deepEqual([memLimitBytes, pidsLimit], [plain.memLimitBytes, plain.pidsLimit])
    assert.ok(uptimeMs < 60_000, 'its life began when it became one')
  })
}

test('STATE-13 a shell that has died costs time and nothing else', { skip }, async () => {
  const pod = warm.client()
  await using _first = await pod.create({})
  const shells = await readyShells(warm, 2)
  for (const pid of shells) process.kill(pid, 'SIGKILL')
  await using sandbox = await pod.create({})
  assert.ok(!shells.includes(await pidOf(warm, sandbox.id)))
  assert.equal(await shell(sandbox, 'echo fine'), 'fine\n')
})

test('STATE-13 kill -9 of podhost ends its shells, and sandboxes made from shells keep running', {
  skip,
}, async () => {
  await using sandbox = await fromShell({})
  const pids = await readyShells(warm, 2)
  const podhost = podhostOf(warm)
  const { pid } = (await podhost.call('hello', {}, ASK)) as { pid: number }
  process.kill(pid, 'SIGKILL')
  await until('podhost and the shells are gone', () => ![pid, ...pids].some(isAlive))
  await podhost.call('hello', {}, ASK)
  await podhost.close()
  assert.equal(await shell(sandbox, 'echo lives'), 'lives\n')
})
