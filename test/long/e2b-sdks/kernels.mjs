// R in a template that is built on the code interpreter, with Debian's packages.
import assert from 'node:assert/strict'
import { pathToFileURL } from 'node:url'

const load = (name) => import(pathToFileURL(`${process.argv[2]}/node_modules/${name}/dist/index.mjs`).href)
const { Template } = await load('e2b')
const { Sandbox } = await load('@e2b/code-interpreter')

const template = Template()
  .fromTemplate('code-interpreter-v1')
  .aptInstall(['r-base-core', 'r-cran-irkernel'], { noInstallRecommends: true })
const begun = performance.now()
await Template.build(template, 'with-r', {
  onBuildLogs: process.env.LOUD && ((one) => console.log(String(one))),
})
console.log(`built in ${Math.round((performance.now() - begun) / 1000)} s`)
const sandbox = await Sandbox.create('with-r', { timeoutMs: 300_000 })
try {
  const run = (code, o = {}) => sandbox.runCode(code, { language: 'r', timeoutMs: 60_000, ...o })
  const first = await run('x <- 41\ncat("hi\\n")\nx + 1')
  // R's kernel displays values, where others return them.
  assert.deepEqual([first.results[0].text, first.logs.stdout.join('')], ['[1] 42', 'hi\n'])
  assert.equal((await run('x')).results[0].text, '[1] 41')
  assert.match((await run('stop("no such thing")')).error.value, /no such thing/)
  const envs = { SHADE: 'gr"ün 🐟' }
  assert.equal((await run('cat(Sys.getenv("SHADE"))', { envs })).logs.stdout.join(''), 'gr"ün 🐟')
  assert.equal((await run('cat(Sys.getenv("SHADE"))')).logs.stdout.join(''), '')
  const { results } = await run('plot(1:3)')
  assert.match(results[0].png ?? '', /^iVBOR/)
  assert.equal((await sandbox.runCode('1 + 1')).text, '2')
  await assert.rejects(sandbox.runCode('1', { language: 'java' }), /400/)
} finally {
  await sandbox.kill()
}
console.log('kernels: done')
process.exit(0)
