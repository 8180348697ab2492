// The OpenAI Agents SDK's E2B backend, driven without a model: what an agent's tools would call.

import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const require = createRequire(join(process.argv[2], 'package.json'))
const load = (name) => import(pathToFileURL(require.resolve(name)).href)
const { E2BSandboxClient } = await load('@openai/agents-extensions/sandbox/e2b')
const { Manifest } = await load('@openai/agents/sandbox')

const client = new E2BSandboxClient({
  sandboxType: 'e2b',
  timeout: 300,
  exposedPorts: [8000],
  workspacePersistence: 'tar',
  env: { COLOUR: 'green' },
})
const manifest = new Manifest({
  entries: { 'notes/first.txt': { type: 'file', content: 'from the manifest\n' } },
})
const session = await client.create({ manifest })
const run = async (cmd) => session.execCommand({ cmd })

const seen = await run('pwd; cat notes/first.txt; echo $COLOUR; echo made > made.txt')
assert.match(seen, /\/workspace\nfrom the manifest\ngreen/, seen)
assert.match(await run('echo oops >&2; exit 3'), /oops/)
assert.equal(new TextDecoder().decode(await session.readFile({ path: 'made.txt' })), 'made\n')
assert.equal(await session.pathExists('made.txt'), true)
assert.equal(await session.pathExists('not-there.txt'), false)
await session.createEditor().createFile({
  type: 'create_file',
  path: 'edited.txt',
  diff: '+by the editor\n',
})
assert.match(await run('cat edited.txt'), /by the editor/)

await run('nohup python3 -m http.server 8000 > /dev/null 2>&1 & sleep 1')
const { host, port } = await session.resolveExposedPort(8000)
assert.match(`${host}:${port}`, /^8000-/)

const archive = await session.persistWorkspace()
await run('rm -rf notes made.txt')
await session.hydrateWorkspace(archive)
assert.match(await run('cat made.txt notes/first.txt'), /made\nfrom the manifest/)

const state = await client.deserializeSessionState(await client.serializeSessionState(session.state))
const again = await client.resume(state)
assert.match(await again.execCommand({ cmd: 'cat made.txt' }), /made/)
await again.delete?.()
process.stdout.write('agents: done\n')
process.exit(0)
