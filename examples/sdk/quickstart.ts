// Runs on Node, Bun and Deno. Uses the server in AGENTPOD_URL and AGENTPOD_API_KEY, or else the local one.
import { Sandbox } from 'agentpod'

const sandbox = await Sandbox.create({ lifetime: { ttlMs: 5 * 60_000 } })

const { stdout } = await sandbox.exec('python3', { args: ['-c', 'print(6 * 7)'] }).wait()
console.log('the answer is', stdout.trim())

await sandbox.writeFile('notes/a.txt', Buffer.from('written from outside\n'))
for await (const { data } of sandbox.exec('cat', { args: ['notes/a.txt'] }).output()) console.log(data.toString().trim())

const shell = sandbox.exec('sh', { args: ['-c', 'read line; echo "got $line"'], stdin: true })
const result = shell.wait()
await shell.write(Buffer.from('a line\n'))
console.log((await result).stdout.trim())

await sandbox.destroy()
