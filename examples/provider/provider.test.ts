/** The whole provider contract on the example, and that a later process finds its sandboxes. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseOwner, parseSandboxId, parseSnapshotId } from 'agentpod/provider'
import {
  ContractContext,
  type ContractWorld,
  PROVIDER_CONTRACT,
  runCommand,
  runContractCase,
} from 'agentpod/testing'
import { namespaces } from './provider.ts'

const CALL = { timeoutMs: 30_000 }
const podd = join(import.meta.dirname, '../../dist/bin/podd')
const directory = mkdtempSync(join(tmpdir(), 'agentpod-example-'))
after(() => rmSync(directory, { recursive: true }))

const provider = namespaces({ directory, podd })
after(() => provider.close())
const missing = (await provider.diagnose(CALL)).filter(({ ok }) => !ok)
const skip = missing.length > 0 ? missing.map(({ detail }) => detail).join(', ') : false

const word = (): string => randomBytes(8).toString('hex')
const world: ContractWorld = {
  provider,
  root: provider.host?.root() ?? {},
  owner: parseOwner('contract-one'),
  otherOwner: parseOwner('contract-two'),
  newId: () => parseSandboxId(word()),
  newSnapshotId: () => parseSnapshotId(`snap${word()}`),
  now: () => Date.now(),
  pass: (ms) => sleep(ms),
  graceMs: 3000,
}

describe('the provider contract on the example', { skip }, () => {
  for (const one of PROVIDER_CONTRACT) {
    test(one.name, { timeout: 60_000 }, async (t) => {
      const reason = await runContractCase(one, world)
      if (reason === undefined) return
      assert.match(reason, /^capability [A-Za-z]+: ./)
      t.skip(reason)
    })
  }

  test('the example provider leaves nothing in its directory', () =>
    assert.deepEqual(readdirSync(directory), []))
})

describe('the example', { skip }, () => {
  test('a later process of the example provider finds a sandbox by its owner, and destroys it completely', async () => {
    const sandboxId = world.newId()
    const made = spawnSync(
      process.execPath,
      ['--input-type=module', '-e', EARLIER_PROCESS, directory, podd, sandboxId, world.owner],
      { cwd: import.meta.dirname, encoding: 'utf8', timeout: 30_000 },
    )
    assert.equal(made.status, 0, made.stderr)
    const [listed] = await provider.list(world.owner, CALL)
    assert.deepEqual(listed?.handle.sandboxId, sandboxId)
    assert.deepEqual(listed?.observed, { state: 'running' })
    const guest = provider.open(listed.handle)
    assert.equal((await runCommand(guest, 'pgrep', ['-c', 'sleep'])).stdout, '1\n')
    guest.close()
    const inside = processesOf(poddOf(sandboxId))
    assert.ok(inside.length >= 2, 'podd and the program that it started')
    await provider.destroy(sandboxId, CALL)
    assert.deepEqual(
      inside.filter((pid) => existsSync(`/proc/${pid}`)),
      [],
    )
  })

  test('the limits that the example provider reports as enforced hold', async () => {
    const ctx = new ContractContext(world)
    const resources = { ...ctx.plan().resources, diskMib: 16, files: 128 }
    const { id, guest } = await ctx.started({ resources, required: ['disk', 'files'] })
    assert.equal((await runCommand(guest, 'sh', ['-c', 'ulimit -n'])).stdout, '128\n')
    assert.equal((await runCommand(guest, 'sh', ['-c', 'head -c 8M /dev/zero >/tmp/few'])).exitCode, 0)
    assert.match(
      (await runCommand(guest, 'sh', ['-c', 'head -c 16M /dev/zero >/tmp/many'])).stderr,
      /No space/,
    )
    await provider.destroy(id, CALL)
  })

  test('a sandbox of the example provider that does not start leaves nothing, and says why', async () => {
    const broken = namespaces({ directory, podd: '/bin/false' })
    const ctx = new ContractContext({ ...world, provider: broken })
    await assert.rejects(ctx.create(), { code: 'unavailable', reason: 'namespaces.start' })
    const missing = namespaces({ directory, podd: join(directory, 'none') })
    await assert.rejects(new ContractContext({ ...world, provider: missing }).create(), { code: 'ENOENT' })
    assert.deepEqual(await broken.list(world.owner, CALL), [])
    assert.deepEqual(readdirSync(directory), [])
  })

  test('a create of the example provider that times out at any moment leaves nothing', async () => {
    const outcomes = new Set<string>()
    for (let timeoutMs = 1; timeoutMs < 400; timeoutMs = Math.ceil(timeoutMs * 1.3)) {
      const plan = new ContractContext(world).plan()
      const outcome = await provider.create(plan, { timeoutMs }).then(
        () => 'created',
        () => 'over',
      )
      outcomes.add(outcome)
      if (outcome === 'created') await provider.destroy(plan.sandboxId, CALL)
      assert.deepEqual(await provider.list(world.owner, CALL), [])
      assert.deepEqual(readdirSync(directory), [])
    }
    assert.ok(outcomes.has('over'))
  })
})

const EARLIER_PROCESS = `
import { namespaces } from './provider.ts'
import { ContractContext } from 'agentpod/testing'
const [directory, podd, sandboxId, owner] = process.argv.slice(1)
const provider = namespaces({ directory, podd })
const world = { provider, root: provider.host.root(), owner, now: () => Date.now() }
const { guest } = await new ContractContext(world).started({ sandboxId })
const sleep = { command: 'sleep', args: ['600'], env: {}, stdin: false }
for await (const { kind } of guest.processes.start(sleep, new AbortController())) if (kind === 'start') break
guest.close()
provider.close()
`

function poddOf(id: string): number {
  return (JSON.parse(readFileSync(join(directory, `${id}.json`), 'utf8')) as { pid: number }).pid
}

/** Every process in the process namespace of this one. */
function processesOf(pid: number): string[] {
  const namespace = readlinkSync(`/proc/${pid}/ns/pid`)
  return readdirSync('/proc').filter((name) => {
    try {
      return /^\d+$/.test(name) && readlinkSync(`/proc/${name}/ns/pid`) === namespace
    } catch {
      return false
    }
  })
}
