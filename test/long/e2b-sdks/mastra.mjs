// Mastra's E2B sandbox in its basic flow: start, commands with output, files, info, stop.
import assert from 'node:assert/strict'
import { pathToFileURL } from 'node:url'

const directory = process.argv[2]
const { E2BSandbox } = await import(pathToFileURL(`${directory}/node_modules/@mastra/e2b/dist/index.js`).href)

const sandbox = new E2BSandbox({ timeout: 120_000, env: { SHADE: 'green' } })
await sandbox.start()
const hello = await sandbox.executeCommand('echo', ['hello', 'from', 'mastra'])
assert.equal(hello.exitCode, 0)
assert.match(hello.stdout, /hello from mastra/)
const shade = await sandbox.executeCommand('sh', ['-c', 'echo $SHADE; echo oops >&2; exit 3'])
assert.equal(shade.exitCode, 3)
assert.match(shade.stdout, /green/)
assert.match(shade.stderr, /oops/)
const files = await sandbox.executeCommand('sh', ['-c', 'echo kept > note.txt && cat note.txt'])
assert.match(files.stdout, /kept/)
assert.equal((await sandbox.getInfo()).status, 'running')
await sandbox.destroy()
console.log('mastra: done')
process.exit(0)
