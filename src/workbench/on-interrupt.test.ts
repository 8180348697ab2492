import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'

const MODULE = join(import.meta.dirname, 'on-interrupt.ts')

/** Runs a program in a process of its own, which interrupts itself. */
function run(text: string): { readonly signal: string | null; readonly said: string } {
  const program = `import { interruptibly, makeInterruptibly } from ${JSON.stringify(MODULE)}
const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const clean = async () => { await later(50); console.log('clean') }
${text}`
  const { signal, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
    timeout: 20_000,
  })
  return { signal, said: stdout.trim() }
}

test('CMP-12 an interrupt cleans up before the work goes on or the process ends', () => {
  const interrupted = "setTimeout(() => process.kill(process.pid, 'SIGINT'), 20)\n"
  // The work ends at once, and its caller would end the process.
  assert.deepEqual(
    run(`${interrupted}await interruptibly(clean, () => later(30)).catch(() => process.exit(1))`),
    { signal: 'SIGINT', said: 'clean' },
  )
  assert.deepEqual(
    run(`${interrupted}await makeInterruptibly(async () => { await later(60); return { destroy: clean } })
console.log('went on')`),
    { signal: 'SIGINT', said: 'clean' },
  )
  // If someone else listens, the process goes on, and the work was canceled.
  assert.deepEqual(
    run(`process.on('SIGINT', () => console.log('heard'))
${interrupted}await interruptibly(clean, () => later(30)).catch((error) => console.log(error.code))`),
    { signal: null, said: 'heard\nclean\ncanceled' },
  )
  assert.deepEqual(run("console.log(await interruptibly(clean, async () => 'done'))"), {
    signal: null,
    said: 'done',
  })
})
