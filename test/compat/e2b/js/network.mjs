// What a sandbox may reach. There is no internet behind the server here: a host that may be reached has no address (502), one that may not is refused (403).

import assert from 'node:assert/strict'

/** What the way out says to a plain request from inside. */
async function ask(sandbox, host) {
  const { stdout } = await sandbox.commands.run(
    `curl -s -m 20 -o /dev/null -w '%{http_code}' http://${host}/`,
  )
  return Number(stdout)
}

const [ALLOWED, OTHER] = ['allowed.example.invalid-tld.example', 'other.example.org']
const CLOSED = ['0.0.0.0/0']

export const cases = [
  [
    'network: allowInternetAccess false',
    async ({ create }) => {
      const sandbox = await create({ allowInternetAccess: false })
      assert.equal((await sandbox.getInfo()).allowInternetAccess, false)
      assert.equal(await ask(sandbox, OTHER), 403)
    },
  ],
  [
    'network: allowOut and denyOut',
    async ({ create }) => {
      const sandbox = await create({ network: { allowOut: [ALLOWED], denyOut: CLOSED } })
      assert.equal(await ask(sandbox, ALLOWED), 502)
      assert.equal(await ask(sandbox, OTHER), 403)
      const { network } = await sandbox.getInfo()
      assert.deepEqual([network?.allowOut, network?.denyOut], [[ALLOWED], CLOSED])
    },
  ],
  [
    'network: live update',
    async ({ create }) => {
      const sandbox = await create({ network: { allowOut: [ALLOWED], denyOut: CLOSED } })
      await sandbox.updateNetwork({ allowOut: [OTHER], denyOut: CLOSED })
      assert.equal(await ask(sandbox, ALLOWED), 403)
      assert.equal(await ask(sandbox, OTHER), 502)
    },
    ({ Sandbox }) => Sandbox.prototype.updateNetwork !== undefined,
  ],
  [
    'network: header transforms',
    async ({ create }) => {
      const rules = { [ALLOWED]: [{ transform: { headers: { 'X-Team': 'web' } } }] }
      const sandbox = await create({ network: { allowOut: [ALLOWED], denyOut: CLOSED, rules } })
      const { network } = await sandbox.getInfo()
      // The value may be a key, and is not given back.
      assert.deepEqual(network?.rules?.[ALLOWED], [{ transform: { headers: { 'X-Team': '***' } } }])
    },
    ({ Sandbox }) => Sandbox.prototype.updateNetwork !== undefined,
  ],
]
