// Two time limits: how long one command may take, and how long the sandbox lives.

import { Sandbox, TimeoutError } from 'e2b'

const sandbox = await Sandbox.create({ timeoutMs: 30_000 })
const left = async () => Math.round(((await sandbox.getInfo()).endAt - Date.now()) / 10_000) * 10
console.log(`the sandbox lives for about ${await left()} s`)

try {
  await sandbox.commands.run('sleep 60', { timeoutMs: 1_000 })
} catch (error) {
  if (!(error instanceof TimeoutError)) throw error
  console.log('the command took too long')
}

await sandbox.setTimeout(120_000)
console.log(`now for about ${await left()} s`)

// Another program can continue with the same sandbox.
const again = await Sandbox.connect(sandbox.sandboxId)
console.log(`connected again: ${again.sandboxId === sandbox.sandboxId}`)

await again.setTimeout(1_000)
while (await again.isRunning()) await new Promise((resolve) => setTimeout(resolve, 200))
console.log('the sandbox ended by itself')
