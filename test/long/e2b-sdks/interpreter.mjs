// E2B's code interpreter for JavaScript, over every kernel.
import assert from 'node:assert/strict'
import { pathToFileURL } from 'node:url'

const { Sandbox } = await import(
  pathToFileURL(`${process.argv[2]}/node_modules/@e2b/code-interpreter/dist/index.mjs`).href
)
const sandbox = await Sandbox.create({ timeoutMs: 300_000 })
const run = (code, options = {}) => sandbox.runCode(code, { timeoutMs: 30_000, ...options })
const refused = async (work, words) => assert.rejects(work, (error) => words.test(String(error)))

// Python: text, streams, state, errors, variables.
const seen = []
const first = await run('x = 41\nprint("hi")\nx + 1', { onStdout: ({ line }) => seen.push(line) })
assert.deepEqual([first.text, first.logs.stdout, seen], ['42', ['hi\n'], ['hi\n']])
assert.equal((await run('x')).executionCount, 2)
assert.deepEqual((await run('import sys; print("bad", file=sys.stderr)')).logs.stderr, ['bad\n'])
const { error } = await run('1 / 0')
assert.deepEqual([error.name, error.value], ['ZeroDivisionError', 'division by zero'])
assert.match(error.traceback, /ZeroDivisionError/)
assert.equal((await run('import os; os.environ.get("SHADE")', { envs: { SHADE: 'green' } })).text, 'green')
assert.equal((await run('os.environ.get("SHADE")')).text, undefined)

// Rich results, and charts as data.
const [html, json] = (
  await run('from IPython.display import HTML, JSON, display\ndisplay(HTML("<b>x</b>"))\nJSON({"a": 1})')
).results
assert.deepEqual(
  [html.html, html.isMainResult, json.json, json.isMainResult],
  ['<b>x</b>', false, { a: 1 }, true],
)
const CHARTS = [
  ['line', 'plt.plot([1, 2], [3, 4], label="l"); plt.xlabel("t (s)")'],
  ['scatter', 'plt.scatter([1, 2], [3, 4])'],
  ['bar', 'plt.bar(["a", "b"], [4, 5])'],
  ['pie', 'plt.pie([1, 3], labels=["a", "b"])'],
  ['box_and_whisker', 'plt.boxplot([[1, 2, 3, 10]])'],
  ['superchart', 'f, (a, b) = plt.subplots(1, 2); a.plot([1, 2]); b.bar(["q"], [1])'],
]
for (const [type, code] of CHARTS) {
  const { results } = await run(`import matplotlib.pyplot as plt\n${code}\nplt.show()`)
  assert.match(results[0].png, /^iVBOR/, type)
  assert.equal(results[0].chart.type, type)
  assert.ok(results[0].chart.elements.length > 0)
}

// JavaScript: state, top-level await, imports, errors.
const script = await run('const y = 5; console.log("out"); console.error("err"); y * 2', { language: 'js' })
assert.deepEqual([script.text, script.logs.stdout, script.logs.stderr], ['10', ['out\n'], ['err\n']])
assert.deepEqual((await run('({ v: await Promise.resolve(y) })', { language: 'js' })).results[0].json, {
  v: 5,
})
assert.equal((await run('import { join } from "node:path"\njoin("a", "b")', { language: 'js' })).text, 'a/b')
assert.equal((await run('null.x', { language: 'javascript' })).error.name, 'TypeError')

// Bash.
assert.deepEqual((await run('n=42; echo $n', { language: 'bash' })).logs.stdout, ['42\n'])
assert.equal((await run('exit_code() { return 3; }; exit_code', { language: 'bash' })).error.value, '3')
await refused(run('1', { language: 'cobol' }), /400/)

// A timeout interrupts the cell; the state stays.
for (const [language, loop, check, value] of [
  ['python', 'while True: pass', 'x', '41'],
  ['javascript', 'while (true) {}', 'y', '5'],
  ['javascript', 'await new Promise((done) => setTimeout(done, 60000))', 'y', '5'],
]) {
  await refused(run(loop, { language, timeoutMs: 1500 }), /timed out/)
  assert.equal((await run(check, { language })).text, value)
}

// Contexts have their own state.
const context = await sandbox.createCodeContext({ language: 'python', cwd: '/tmp' })
assert.equal((await run('import os; z = 1; os.getcwd()', { context })).text, '/tmp')
assert.equal((await run('"x" in globals()', { context })).text, 'False')
await sandbox.restartCodeContext(context)
assert.equal((await run('"z" in globals()', { context })).text, 'False')
assert.ok((await sandbox.listCodeContexts()).some(({ id }) => id === context.id))
await sandbox.removeCodeContext(context)
await refused(run('1', { context }), /not found/i)

// A kernel that dies is replaced.
assert.equal((await run('import os; os._exit(1)')).error.name, 'KernelDied')
assert.equal((await run('1 + 1')).text, '2')
await sandbox.kill()
console.log('interpreter: done')
process.exit(0)
