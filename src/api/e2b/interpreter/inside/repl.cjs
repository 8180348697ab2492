// Runs cells of JavaScript in Node's REPL, which keeps variables and knows top-level await. Cells come as
// JSON lines on one descriptor, answers go to another.
const { writeSync } = require('node:fs')
const { Socket } = require('node:net')
const { createInterface } = require('node:readline')
const { PassThrough } = require('node:stream')
const { inspect } = require('node:util')
const repl = require('node:repl')
const path = require('node:path')
const { createRequire } = require('node:module')

const [cells, answers] = process.argv.slice(2).map(Number)

function answer(value) {
  let rest = Buffer.from(`${JSON.stringify(value)}\n`)
  while (rest.length > 0) rest = rest.subarray(writeSync(answers, rest))
}

const server = repl.start({
  input: new PassThrough(),
  output: new PassThrough().resume(),
  prompt: '',
  useGlobal: true,
  breakEvalOnSigint: true,
})
globalThis.require = createRequire(path.join(process.cwd(), 'cell.js'))
globalThis.display = (data) =>
  answer({ display: typeof data === 'object' ? data : { 'text/plain': String(data) } })

/** The REPL has no import statement; it is the same as an awaited import with names. */
function withImports(code) {
  return code.replaceAll(
    /^[ \t]*import\s+(?:(?:([\w$]+)\s*,?\s*)?(?:\*\s+as\s+([\w$]+)|(\{[^}]*\}))?\s*from\s+)?(['"][^'"\n]+['"])[ \t]*;?/gm,
    (_, main, all, some, from) => {
      const names = some?.replaceAll(/\s+as\s+/g, ': ')
      if (all) return `const ${all} = await import(${from});${main ? ` const ${main} = ${all}.default;` : ''}`
      if (main && names) return `const { default: ${main}, ${names.slice(1)} = await import(${from});`
      if (main) return `const { default: ${main} } = await import(${from});`
      if (names) return `const ${names} = await import(${from});`
      return `await import(${from});`
    },
  )
}

function resultOf(value) {
  if (value === undefined) return null
  const data = { 'text/plain': typeof value === 'string' ? value : inspect(value) }
  if (value && typeof value === 'object' && !(value instanceof Error)) {
    try {
      const json = JSON.stringify(value)
      if (json !== undefined && json.length < 1e6) data['application/json'] = JSON.parse(json)
    } catch {}
  }
  return data
}

function errorOf(error) {
  const isError = error !== null && typeof error === 'object' && 'message' in error
  return {
    name: isError ? String(error.name ?? 'Error') : 'Error',
    value: isError ? String(error.message) : inspect(error),
    stack: isError ? String(error.stack ?? error.message) : inspect(error),
  }
}

/** An error that ends the cell, or one that a callback throws later. */
let pending
function finish(message) {
  const done = pending
  pending = undefined
  done?.(message)
}
// While a cell computes, the REPL handles an interrupt, and no listener may be there. While it awaits, this
// does. Without a cell nothing happens, where Node itself would end.
function interrupt() {
  finish({ error: { name: 'Interrupted', value: 'interrupted', stack: '' } })
}
process.on('SIGINT', interrupt)

// The REPL sends errors of a cell to its domain, where its own listener would only print them.
server._domain?.removeAllListeners('error')
server._domain?.on('error', (error) => finish({ error: errorOf(error) }))
process.on('uncaughtException', (error) => finish({ error: errorOf(error) }))
process.on('unhandledRejection', (error) => finish({ error: errorOf(error) }))

function run(code) {
  return new Promise((resolve) => {
    pending = resolve
    // A cell that was interrupted may still get its value, when another one runs.
    const finishOwn = (message) => {
      if (pending === resolve) finish(message)
    }
    process.off('SIGINT', interrupt)
    server.eval(withImports(code), server.context, 'cell', async (error, value) => {
      if (error) return finishOwn({ error: errorOf(error.err ?? error) })
      try {
        finishOwn({ result: resultOf(await value) })
      } catch (thrown) {
        finishOwn({ error: errorOf(thrown) })
      }
    })
    process.on('SIGINT', interrupt)
  })
}

/** Output that the cell wrote goes before its answer. Node writes to pipes in the background. */
function written(stream) {
  return new Promise((resolve) => stream.write('', () => resolve()))
}

let last = Promise.resolve()
// A socket, because a read of a file would keep the process from ending.
createInterface({ input: new Socket({ fd: cells, readable: true, writable: false }) })
  .on('line', (line) => {
    last = last.then(async () => {
      const message = await run(JSON.parse(line).code)
      await Promise.all([written(process.stdout), written(process.stderr)])
      answer(message)
    })
  })
  .on('close', () => process.exit(0))
