// What the cases say: something is so, something fails in a certain way, something comes about.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const execute = promisify(execFile)

/** The error of a promise that must fail, of the class the SDK promises and with words a person can use. */
export async function fails(promise, errorClass, words) {
  const error = await promise.then(
    (value) => assert.fail(`it succeeded with ${JSON.stringify(value)}`),
    (thrown) => thrown,
  )
  assert.ok(
    error instanceof errorClass,
    `${errorClass.name} was promised, ${error.constructor.name} came: ${error.message}`,
  )
  if (words) assert.match(error.message, words)
  return error
}

export async function until(what, condition, limitMs = 10_000) {
  const end = performance.now() + limitMs
  while (!(await condition())) {
    if (performance.now() > end) assert.fail(`still waiting after ${limitMs} ms: ${what}`)
    await sleep(25)
  }
}

export function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** The status and the body of an address, asked by a program that resolves *.localhost by itself, as browsers do. */
export async function curl(url, ...options) {
  const { stdout } = await execute('curl', [
    '-sS',
    '--max-time',
    '10',
    '-w',
    '\n%{http_code}',
    ...options,
    url,
  ])
  const cut = stdout.lastIndexOf('\n')
  return { status: Number(stdout.slice(cut + 1)), body: stdout.slice(0, cut) }
}

/** The output of a command that must succeed: how a case looks at the effect from inside. */
export async function inside(sandbox, command, options) {
  const { exitCode, stdout } = await sandbox.commands.run(command, options)
  assert.equal(exitCode, 0)
  return stdout.trimEnd()
}
