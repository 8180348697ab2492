// Shows output while a command runs, sends it input, and reads how it failed.

import { CommandExitError, Sandbox } from 'e2b'

const sandbox = await Sandbox.create()
try {
  await sandbox.commands.run('for i in 1 2 3; do echo "step $i"; sleep 0.2; done', {
    onStdout: (text) => console.log('out:', text.trim()),
    onStderr: (text) => console.log('err:', text.trim()),
  })

  const shout = await sandbox.commands.run('read name; echo "HELLO, ${name^^}!"', { background: true, stdin: true })
  await sandbox.commands.sendStdin(shout.pid, 'world\n')
  console.log((await shout.wait()).stdout.trim())

  try {
    await sandbox.commands.run('ls /no/such/directory')
  } catch (error) {
    if (!(error instanceof CommandExitError)) throw error
    console.log(`ls ended with ${error.exitCode}: ${error.stderr.trim()}`)
  }
} finally {
  await sandbox.kill()
}
