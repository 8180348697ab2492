// Drives one version of the SDK over every case and prints a line of JSON for each: node run.mjs <path of the SDK's module>

import { cases as commands } from './commands.mjs'
import { cases as errors } from './errors.mjs'
import { cases as files } from './files.mjs'
import { cases as git } from './git.mjs'
import { cases as network } from './network.mjs'
import { cases as pause } from './pause.mjs'
import { cases as pty } from './pty.mjs'
import { cases as sandbox } from './sandbox.mjs'
import { cases as volumes } from './volumes.mjs'

const LONGEST_CASE_MS = 30_000
/** How many cases run at a time. */
const AT_ONCE = 4

const sdk = await import(process.argv[2])
const only = process.argv[3]

// What works inside one sandbox shares one; cases that end or change a sandbox make their own.
const shared = await sdk.Sandbox.create({ timeoutMs: 300_000 })
const made = []
const world = {
  ...sdk,
  shared,
  made,
  otherKey: process.env.OTHER_API_KEY,
  async create(...options) {
    const sandbox = await sdk.Sandbox.create(...options)
    made.push(sandbox)
    return sandbox
  },
}

// A third part of a case says whether this version has what it is about.
const queue = [
  ...sandbox,
  ...pause,
  ...commands,
  ...pty,
  ...files,
  ...git,
  ...network,
  ...volumes,
  ...errors,
].filter(([name, , isThere]) => (only === undefined || name.includes(only)) && (isThere?.(world) ?? true))
await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    for (let next = queue.shift(); next; next = queue.shift()) await run(...next)
  }),
)
await Promise.all([shared, ...made].map((one) => one.kill().catch(() => undefined)))
process.exit(0)

async function run(name, work) {
  const startedAt = performance.now()
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${LONGEST_CASE_MS} ms`)), LONGEST_CASE_MS)
  })
  let detail
  try {
    await Promise.race([work(world), late])
  } catch (error) {
    detail =
      error instanceof Error ? `${error.constructor.name}: ${error.message}\n${error.stack}` : String(error)
  }
  clearTimeout(timer)
  const ms = Math.round(performance.now() - startedAt)
  process.stdout.write(`${JSON.stringify({ name, ok: detail === undefined, detail, ms })}\n`)
}
