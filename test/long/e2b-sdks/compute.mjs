// computesdk with its E2B provider.

import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const require = createRequire(join(process.argv[2], 'package.json'))
const load = (name) => import(pathToFileURL(require.resolve(name)).href)
const { compute } = await load('computesdk')
const { e2b } = await load('@computesdk/e2b')

compute.setConfig({ provider: e2b({ apiKey: process.env.E2B_API_KEY }) })
const sandbox = await compute.sandbox.create()
const hello = await sandbox.runCommand('python -c "print(6 * 7)"')
assert.deepEqual([hello.stdout.trim(), hello.exitCode], ['42', 0])
assert.equal((await sandbox.runCommand('exit 3')).exitCode, 3)

const { filesystem } = sandbox
await filesystem.mkdir('/data/deep')
await filesystem.writeFile('/data/deep/a.txt', 'one')
assert.equal(await filesystem.readFile('/data/deep/a.txt'), 'one')
assert.equal(await filesystem.exists('/data/deep/a.txt'), true)
assert.deepEqual(
  (await filesystem.readdir('/data/deep')).map(({ name }) => name),
  ['a.txt'],
)
await filesystem.remove('/data/deep/a.txt')
assert.equal(await filesystem.exists('/data/deep/a.txt'), false)

assert.match(await sandbox.getUrl({ port: 3000 }), /3000-/)
const info = await sandbox.getInfo()
assert.equal(info.status, 'running')
const found = await compute.sandbox.getById(sandbox.sandboxId)
assert.equal(found?.sandboxId, sandbox.sandboxId)
assert.ok((await compute.sandbox.list()).some(({ sandboxId }) => sandboxId === sandbox.sandboxId))
await sandbox.destroy()
process.stdout.write('compute: done\n')
process.exit(0)
