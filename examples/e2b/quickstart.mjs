// npm install e2b
// eval "$(agentpod e2b env)"
// node quickstart.mjs

import { Sandbox } from 'e2b'

const sandbox = await Sandbox.create()
console.log('sandbox is running:', await sandbox.isRunning())

const hello = await sandbox.commands.run('echo "Hello from $(whoami) in $(pwd)"')
console.log(hello.stdout)

await sandbox.files.write('notes.txt', 'Remember the milk.\n')
console.log(await sandbox.files.read('notes.txt'))

for (const file of await sandbox.files.list('/home/user')) console.log(file.type, file.name)

await sandbox.kill()
console.log('sandbox is running:', await sandbox.isRunning())
