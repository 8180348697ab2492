// The code interpreter with cells and clients that misbehave. An argument chooses cases by a part of their name.
import assert from 'node:assert/strict'
import { setTimeout as wait } from 'node:timers/promises'

const api = process.env.E2B_API_URL
const headers = { 'x-api-key': process.env.E2B_API_KEY, 'content-type': 'application/json' }
const only = process.argv[2]

async function create(body = {}) {
  const answer = await fetch(`${api}/v2/sandboxes`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ templateID: 'code-interpreter-v1', timeout: 600, ...body }),
  })
  assert.equal(answer.status, 201, await answer.clone().text())
  return (await answer.json()).sandboxID
}

const id = await create({ envVars: { SHADE: 'green' } })
const inside = (path, o = {}) =>
  fetch(`${api}${path}`, {
    ...o,
    headers: { 'content-type': 'application/json', 'e2b-sandbox-id': id, 'e2b-sandbox-port': '49999' },
  })
const post = (path, body, o = {}) => inside(path, { ...o, method: 'POST', body: JSON.stringify(body) })

/** All events of an execution, but at most a minute of them. */
async function run(code, body = {}) {
  const answer = await post('/execute', { code, ...body }, { signal: AbortSignal.timeout(60_000) })
  const text = await answer.text()
  if (answer.status !== 200) return { status: answer.status, message: JSON.parse(text).message }
  const events = text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
  const texts = (type) => events.flatMap((one) => (one.type === type ? [one.text] : [])).join('')
  return {
    status: 200,
    events,
    stdout: texts('stdout'),
    stderr: texts('stderr'),
    result: events.find(({ type }) => type === 'result')?.text,
    error: events.find(({ type }) => type === 'error'),
    isWhole: events.at(-1)?.type === 'end_of_execution',
  }
}

const IGNORES = 'import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass'

const CASES = {
  async 'variables of the sandbox reach every kernel'() {
    assert.equal((await run('import os; os.environ.get("SHADE")')).result, 'green')
    assert.equal((await run('process.env.SHADE', { language: 'js' })).result, 'green')
    assert.equal((await run('echo $SHADE', { language: 'bash' })).stdout, 'green\n')
  },

  async 'malformed requests are refused'() {
    for (const body of [
      {},
      { code: 1 },
      { code: '1', env_vars: [1] },
      { code: '1', env_vars: { A: 1 } },
      { code: '1', env_vars: { 'A B': '1' } },
      { code: '1', env_vars: { A: 'x\0y' } },
      { code: '1', language: 'x'.repeat(100_000) },
    ])
      assert.equal((await post('/execute', body)).status, 400, JSON.stringify(body).slice(0, 80))
    assert.equal((await post('/execute', { code: '1', context_id: { a: 1 } })).status, 404)
    assert.equal((await post('/contexts', { cwd: '/none\0' })).status, 400)
    assert.equal((await post('/contexts', { cwd: '/none' })).status, 400)
    assert.equal((await inside('/contexts/none', { method: 'DELETE' })).status, 404)
    const missing = await run('1', { language: 'java' })
    assert.deepEqual([missing.status, /no kernel for java .*template/.test(missing.message)], [400, true])
  },

  async 'variables of one cell are set back, also those that were set before'() {
    const cells = [
      ['python', 'import os; print(os.environ.get("SHADE"), os.environ.get("ONCE"))', 'green None'],
      ['javascript', 'console.log(process.env.SHADE, process.env.ONCE)', 'green undefined'],
      ['bash', 'echo $SHADE $([ -n "$ONCE" ] && echo "$ONCE" || echo None)', 'green None'],
    ]
    for (const [language, code, before] of cells) {
      const env_vars = { SHADE: `it's "red" $x 🐟`, ONCE: 'a\nb' }
      const once = (await run(code, { language, env_vars })).stdout
      assert.match(once, /it's "red" \$x 🐟 a\s+b/, language)
      assert.equal((await run(code, { language })).stdout.trim(), before, language)
    }
  },

  async 'unicode of every kind arrives whole'() {
    const text = `🐟 zwölf \u0301 ${'漢'.repeat(50_000)}`
    assert.equal((await run(`print(${JSON.stringify(text)})`)).stdout, `${text}\n`)
    assert.equal((await run(`console.log(${JSON.stringify(text)})`, { language: 'js' })).stdout, `${text}\n`)
    assert.equal((await run(`echo '${text}'`, { language: 'bash' })).stdout, `${text}\n`)
    const lone = await run('print("a\\ud800b"); 1')
    assert.ok(lone.isWhole)
    assert.equal((await run('1 + 1')).result, '2')
  },

  async 'thousands of small writes arrive, and the execution ends'() {
    const { stdout, isWhole } = await run('for i in range(20_000): print(i, flush=True)')
    assert.ok(isWhole)
    assert.equal(stdout.trim().split('\n').length, 20_000)
  },

  async 'output of JavaScript before the end of its cell is part of it'() {
    for (let at = 0; at < 20; at++) {
      const code = 'process.stdout.write("x".repeat(500_000)); console.error("e"); 7'
      const { stdout, stderr, result } = await run(code, { language: 'js' })
      assert.deepEqual([stdout.length, stderr, result], [500_000, 'e\n', '7'])
    }
  },

  async 'gigabytes of output for a client that does not read them leave the interpreter alive'() {
    const code =
      'import sys\nfor _ in range(1500): sys.stdout.write("x" * 1_000_000); sys.stdout.flush()\nprint("done")'
    const answer = await post('/execute', { code })
    const reader = answer.body.getReader()
    await reader.read()
    await wait(8000)
    await reader.cancel()
    const { result } = await run('6 * 7')
    assert.equal(result, '42')
  },

  async 'executions at once in one context run one after the other'() {
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, at) => run(`import time; time.sleep(0.02); print(${at})`)),
    )
    assert.deepEqual(
      all.map(({ stdout }) => stdout.trim()),
      Array.from({ length: 20 }, (_, at) => String(at)),
    )
  },

  async 'a cell whose client leaves is interrupted; one that ignores it ends with its kernel'() {
    const context = await (await post('/contexts', {})).json()
    const leave = async (code) => {
      const stop = new AbortController()
      const answer = await post('/execute', { code, context_id: context.id }, { signal: stop.signal })
      const reading = answer.text().catch(() => undefined)
      await wait(1000)
      stop.abort()
      await reading
    }
    await run('kept = 1', { context_id: context.id })
    await leave('import time; time.sleep(300)')
    assert.equal((await run('kept', { context_id: context.id })).result, '1')
    await leave(IGNORES)
    assert.equal((await run('2 + 2', { context_id: context.id })).result, '4')
    assert.equal((await inside(`/contexts/${context.id}`, { method: 'DELETE' })).status, 204)
  },

  async 'a context is restarted and removed while a cell in it runs'() {
    for (const how of ['restart', 'remove']) {
      const context = await (await post('/contexts', {})).json()
      const stuck = run(IGNORES, {
        context_id: context.id,
      })
      await wait(1000)
      const answer =
        how === 'restart'
          ? await post(`/contexts/${context.id}/restart`, {})
          : await inside(`/contexts/${context.id}`, { method: 'DELETE' })
      assert.ok(answer.ok, how)
      const { error, isWhole } = await stuck
      assert.deepEqual([error?.name, isWhole], ['KernelDied', true], how)
      const next = await run('1', { context_id: context.id })
      assert.equal(next.status, how === 'restart' ? 200 : 404)
      if (how === 'restart') await inside(`/contexts/${context.id}`, { method: 'DELETE' })
    }
  },

  async 'JavaScript: an interrupted wait does not answer a later cell, and a Node that ends is replaced'() {
    const language = 'js'
    const stop = new AbortController()
    const answer = await post(
      '/execute',
      { code: 'await new Promise((done) => setTimeout(done, 3000)); "late"', language },
      { signal: stop.signal },
    )
    const reading = answer.text().catch(() => undefined)
    await wait(500)
    stop.abort()
    await reading
    const later = await run('await new Promise((done) => setTimeout(done, 4000)); "own"', { language })
    assert.equal(later.result, 'own')
    for (let at = 0; at < 5; at++) {
      assert.ok((await run('process.exit(3)', { language })).error, 'an error')
      assert.equal((await run('40 + 2', { language })).result, '42')
    }
  },

  async 'bash: a shell that ends is replaced'() {
    const ended = await run('exit 3', { language: 'bash' })
    assert.ok(ended.isWhole)
    assert.equal((await run('echo again', { language: 'bash' })).stdout, 'again\n')
  },

  async 'tables that are odd or large are still shown'() {
    const odd = await run('import pandas as pd\npd.DataFrame([[1, 2]], columns=["a", "a"])')
    assert.equal(odd.stderr, '')
    assert.equal(odd.events.find(({ type }) => type === 'result').html.includes('<table'), true)
    const large = await run('pd.DataFrame({"a": range(3_000_000)})')
    assert.ok(large.isWhole)
    assert.ok(JSON.stringify(large.events).length < 20_000_000)
    const nan = await run('pd.DataFrame({"a": [1.0, float("nan")]})')
    assert.deepEqual(nan.events.find(({ type }) => type === 'result').data, { a: [1, null] })
  },

  async 'a server that is killed comes back'() {
    await run('import os, signal; os.kill(os.getppid(), signal.SIGKILL)').catch(() => undefined)
    for (let at = 0; ; at++) {
      await wait(500)
      const health = await inside('/health').catch(() => undefined)
      if (health?.status === 200) break
      assert.ok(at < 60, 'it did not come back')
    }
    assert.equal((await run('1 + 2')).result, '3')
  },
}

const failed = []
for (const [name, work] of Object.entries(CASES)) {
  if (only && !name.includes(only)) continue
  const started = performance.now()
  try {
    await work()
    console.log(`ok ${name} ${Math.round(performance.now() - started)}ms`)
  } catch (error) {
    failed.push(name)
    console.log(`FAILED ${name} ${Math.round(performance.now() - started)}ms\n${error.stack}`)
  }
}
await fetch(`${api}/sandboxes/${id}`, { method: 'DELETE', headers })
console.log(failed.length === 0 ? 'hostile: done' : `hostile: ${failed.length} failed`)
process.exit(failed.length === 0 ? 0 : 1)
