import assert from 'node:assert/strict'
import { fails } from './expect.mjs'

const UNKNOWN = 'nosuchsandbox000'

export const cases = [
  [
    'error: a wrong key',
    async ({ Sandbox, AuthenticationError, shared }) => {
      const apiKey = `e2b_${'0'.repeat(40)}`
      await fails(Sandbox.create({ apiKey }), AuthenticationError, /key/)
      await fails(Sandbox.getInfo(shared.sandboxId, { apiKey }), AuthenticationError)
      await fails(Sandbox.kill(shared.sandboxId, { apiKey }), AuthenticationError)
      await fails(Sandbox.list({ apiKey }).nextItems(), AuthenticationError)
      assert.equal(await shared.isRunning(), true)
    },
  ],
  [
    'error: another key’s sandbox is not there',
    async ({ Sandbox, NotFoundError, shared, otherKey: apiKey }) => {
      const { sandboxId } = shared
      await fails(Sandbox.getInfo(sandboxId, { apiKey }), NotFoundError)
      await fails(Sandbox.connect(sandboxId, { apiKey }), NotFoundError)
      await fails(Sandbox.setTimeout(sandboxId, 1000, { apiKey }), NotFoundError)
      await fails(Sandbox.getMetrics(sandboxId, { apiKey }), NotFoundError)
      assert.equal(await Sandbox.kill(sandboxId, { apiKey }), false)
      const others = await Sandbox.list({ apiKey }).nextItems()
      assert.ok(others.every((one) => one.sandboxId !== sandboxId))
      assert.equal(await shared.isRunning(), true)
    },
  ],
  [
    'error: a sandbox that never was',
    async ({ Sandbox, NotFoundError }) => {
      for (const id of [UNKNOWN, 'Not/An Id', '%00']) {
        await fails(Sandbox.getInfo(id), NotFoundError)
        await fails(Sandbox.connect(id), NotFoundError)
        assert.equal(await Sandbox.kill(id), false)
      }
    },
  ],
  [
    'error: an unknown template',
    async ({ Sandbox, SandboxError }) => {
      const error = await fails(Sandbox.create('no-such-template'), SandboxError, /no-such-template/)
      assert.match(error.message, /^404/)
    },
  ],
  [
    'error: a wrong token of a sandbox',
    async ({ Sandbox, AuthenticationError, shared }) => {
      const stolen = new Sandbox({
        sandboxId: shared.sandboxId,
        sandboxDomain: shared.sandboxDomain,
        envdVersion: '0.6.13',
        envdAccessToken: 'f'.repeat(64),
      })
      await fails(stolen.commands.run('true'), AuthenticationError)
      await fails(stolen.files.read('/etc/passwd'), AuthenticationError)
      await fails(stolen.files.write('stolen.txt', 'x'), AuthenticationError)
      await fails(stolen.files.list('/'), AuthenticationError)
      assert.equal(await shared.files.exists('stolen.txt'), false)
    },
  ],
  [
    'error: files that are not there',
    async ({ shared, NotFoundError, InvalidArgumentError }) => {
      await fails(shared.files.read('/no/such/file'), NotFoundError)
      await fails(shared.files.list('/no/such/directory'), NotFoundError)
      await fails(shared.files.getInfo('/no/such/file'), NotFoundError)
      await fails(
        shared.files.watchDir('/no/such/directory', () => undefined),
        NotFoundError,
      )
      await fails(
        shared.files.watchDir('/etc/passwd', () => undefined),
        InvalidArgumentError,
      )
    },
  ],
  [
    'error: processes and users that are not there',
    async ({ shared, NotFoundError, AuthenticationError, SandboxError }) => {
      assert.equal(await shared.commands.kill(999_999), false)
      await fails(shared.commands.connect(999_999), NotFoundError)
      await fails(shared.commands.sendStdin(999_999, 'x'), NotFoundError)
      const error = await shared.commands.run('true', { user: 'nobody-here' }).catch((thrown) => thrown)
      assert.ok(error instanceof AuthenticationError || error instanceof SandboxError, error.message)
    },
  ],
  [
    'error: what comes later says so',
    async ({ Sandbox, shared, SandboxError }) => {
      await fails(Sandbox.create({ mcp: { time: {} } }), SandboxError, /mcp.*gateway/i)
      assert.equal(await shared.isRunning(), true)
    },
  ],
]
