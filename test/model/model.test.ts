// Requests to the scripted model in each of its protocols. The tests of agents show that agents understand
// it.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { connect } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { describe, test } from 'node:test'
import { newPlaceholder } from '../../src/secrets/placeholder.ts'
import { systemRandom } from '../../src/util/random.ts'
import { USAGE } from './conversation.ts'
import { at, listAt, textAt } from './json.ts'
import { type Model, startModel } from './model.ts'
import { MCP_TEXT } from './scenarios/mcp.ts'

const KEY = 'sk-right'

interface Said {
  readonly text: string
  readonly tool?: string
  readonly input?: unknown
}

/** Writes and reads one protocol, with the tools of an agent that speaks it. */
interface Hand {
  readonly path: string
  readonly header: (key: string) => Record<string, string>
  /** The first prompt, and then each call with its result. */
  readonly body: (prompts: readonly string[], results: readonly string[]) => unknown
  readonly read: (events: readonly unknown[]) => Said
  readonly usage: (events: readonly unknown[]) => { input: number; cached: number; output: number }
  readonly shell: string
  readonly badKeyStatus: number
}

const schema = (...names: string[]): unknown => ({
  type: 'object',
  properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])),
  required: names,
})
const FUNCTIONS: readonly (readonly [string, unknown])[] = [
  ['run_shell_command', schema('command', 'description')],
  ['read_file', schema('absolute_path')],
  ['write_file', schema('file_path', 'content')],
  ['replace', schema('file_path', 'old_string', 'new_string', 'instruction')],
]
const IN_PROJECT = 'Working directory: /project\n'

const HANDS: Readonly<Record<string, Hand>> = {
  anthropic: {
    path: '/v1/messages?beta=true',
    header: (key) => ({ 'x-api-key': key }),
    body: (prompts, results) => ({
      model: 'claude-test',
      stream: true,
      system: [{ type: 'text', text: IN_PROJECT }],
      tools: [
        { name: 'Bash', input_schema: schema('command', 'description') },
        { name: 'Read', input_schema: schema('file_path') },
        { name: 'Write', input_schema: schema('file_path', 'content') },
        { name: 'Edit', input_schema: schema('file_path', 'old_string', 'new_string') },
      ],
      messages: [
        ...prompts.map((content) => ({ role: 'user', content })),
        ...results.flatMap((content) => [
          { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'Bash', input: {} }] },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content }] },
        ]),
      ],
    }),
    read: (events) => {
      const deltas = events.map((one) => at(one, 'delta'))
      const block = events.map((one) => at(one, 'content_block')).find((one) => textAt(one, 'name') !== '')
      const text = deltas.map((one) => textAt(one, 'text')).join('')
      const json = deltas.map((one) => textAt(one, 'partial_json')).join('')
      return block ? { text, tool: textAt(block, 'name'), input: JSON.parse(json) } : { text }
    },
    usage: (events) => ({
      input: Number(at(events[0], 'message', 'usage', 'input_tokens')),
      cached: Number(at(events[0], 'message', 'usage', 'cache_read_input_tokens')),
      output: Number(at(events.at(-2), 'usage', 'output_tokens')),
    }),
    shell: 'Bash',
    badKeyStatus: 401,
  },
  responses: {
    path: '/v1/responses',
    header: (key) => ({ authorization: `Bearer ${key}` }),
    body: (prompts, results) => ({
      model: 'gpt-test',
      stream: true,
      instructions: IN_PROJECT,
      tools: FUNCTIONS.map(([name, parameters]) => ({ type: 'function', name, parameters })),
      input: [
        ...prompts.map((text) => ({
          type: 'message',
          role: 'user',
          content: [{ type: 'input_text', text }],
        })),
        ...results.flatMap((output) => [
          { type: 'function_call', call_id: 'c', name: 'run_shell_command', arguments: '{}' },
          { type: 'function_call_output', call_id: 'c', output },
        ]),
      ],
    }),
    read: (events) => {
      const items = listAt(events.at(-1), 'response', 'output')
      const call = items.find((item) => textAt(item, 'type') === 'function_call')
      const text = events.map((one) => textAt(one, 'delta')).join('')
      if (!call) return { text }
      const said = textAt(call, 'arguments')
      return { text: text.replace(said, ''), tool: textAt(call, 'name'), input: JSON.parse(said) }
    },
    usage: (events) => {
      const usage = at(events.at(-1), 'response', 'usage')
      const cached = Number(at(usage, 'input_tokens_details', 'cached_tokens'))
      return {
        input: Number(at(usage, 'input_tokens')) - cached,
        cached,
        output: Number(at(usage, 'output_tokens')),
      }
    },
    shell: 'run_shell_command',
    badKeyStatus: 401,
  },
  chat: {
    path: '/v1/chat/completions',
    header: (key) => ({ authorization: `Bearer ${key}` }),
    body: (prompts, results) => ({
      model: 'gpt-test',
      stream: true,
      tools: FUNCTIONS.map(([name, parameters]) => ({ type: 'function', function: { name, parameters } })),
      messages: [
        { role: 'system', content: IN_PROJECT },
        ...prompts.map((content) => ({ role: 'user', content })),
        ...results.flatMap((content) => [
          { role: 'assistant', tool_calls: [{ id: 'c', function: { name: 'run_shell_command' } }] },
          { role: 'tool', tool_call_id: 'c', content },
        ]),
      ],
    }),
    read: (events) => {
      const deltas = events.map((one) => at(listAt(one, 'choices')[0], 'delta'))
      const call = deltas.map((one) => at(listAt(one, 'tool_calls')[0], 'function')).find((one) => one)
      const text = deltas.map((one) => textAt(one, 'content')).join('')
      return call
        ? { text, tool: textAt(call, 'name'), input: JSON.parse(textAt(call, 'arguments')) }
        : { text }
    },
    usage: (events) => {
      const usage = at(events.at(-1), 'usage')
      const cached = Number(at(usage, 'prompt_tokens_details', 'cached_tokens'))
      return {
        input: Number(at(usage, 'prompt_tokens')) - cached,
        cached,
        output: Number(at(usage, 'completion_tokens')),
      }
    },
    shell: 'run_shell_command',
    badKeyStatus: 401,
  },
  gemini: {
    path: '/v1beta/models/gemini-test:streamGenerateContent?alt=sse',
    header: (key) => ({ 'x-goog-api-key': key }),
    body: (prompts, results) => ({
      systemInstruction: { parts: [{ text: IN_PROJECT }] },
      tools: [
        {
          functionDeclarations: FUNCTIONS.map(([name, schema]) => ({ name, parametersJsonSchema: schema })),
        },
      ],
      contents: [
        ...prompts.map((text) => ({ role: 'user', parts: [{ text }] })),
        ...results.flatMap((output) => [
          { role: 'model', parts: [{ functionCall: { name: 'run_shell_command', args: {} } }] },
          {
            role: 'user',
            parts: [{ functionResponse: { name: 'run_shell_command', response: { output } } }],
          },
        ]),
      ],
    }),
    read: (events) => {
      const parts = events.flatMap((one) => listAt(listAt(one, 'candidates')[0], 'content', 'parts'))
      const call = parts.map((part) => at(part, 'functionCall')).find((one) => one)
      const text = parts.map((part) => textAt(part, 'text')).join('')
      return call ? { text, tool: textAt(call, 'name'), input: at(call, 'args') } : { text }
    },
    usage: (events) => {
      const usage = at(events.at(-1), 'usageMetadata')
      const cached = Number(at(usage, 'cachedContentTokenCount'))
      return {
        input: Number(at(usage, 'promptTokenCount')) - cached,
        cached,
        output: Number(at(usage, 'candidatesTokenCount')),
      }
    },
    shell: 'run_shell_command',
    badKeyStatus: 400,
  },
}

for (const [name, hand] of Object.entries(HANDS)) {
  describe(`the model that speaks ${name}`, () => {
    test(`the model speaking ${name} answers with text and its usage`, async () => {
      await using model = await startModel({ keys: [KEY] })
      const events = await ask(model, hand, { prompts: ['[[nothing]]'] })
      assert.deepEqual(hand.read(events), { text: 'There is nothing to do here.' })
      assert.deepEqual(hand.usage(events), USAGE)
    })

    test(`the model speaking ${name} repairs a project step by step`, async () => {
      await using model = await startModel({ keys: [KEY], scenario: 'fix' })
      const results: string[] = []
      const step = async (result?: string): Promise<Said> => {
        if (result !== undefined) results.push(result)
        return hand.read(await ask(model, hand, { prompts: ['make it work'], results }))
      }
      assert.match(String(at((await step()).input, 'command')), /^find /)
      const listed = await step('./go.mod\n./src/sum.test.go\n./src/sum.go\n')
      assert.equal(listed.tool, hand.shell)
      assert.equal(at(listed.input, 'command'), 'go test ./...')
      const reads = await step('FAIL')
      assert.ok(Object.values(reads.input ?? {}).includes('/project/src/sum.go'))
      const edits = await step('return a - b')
      assert.equal(at(edits.input, 'file_path'), '/project/src/sum.go')
      assert.equal(at(edits.input, 'new_string'), 'a + b')
      assert.equal(at((await step('done')).input, 'command'), 'go test ./...')
      assert.match((await step('ok')).text, /the tests pass/)
    })

    test(`the model speaking ${name} follows the answer to a question`, async () => {
      await using model = await startModel({ keys: [KEY] })
      const after = async (...results: string[]): Promise<Said> =>
        hand.read(await ask(model, hand, { prompts: ['[[ask make install]]'], results }))
      assert.equal(at((await after()).input, 'command'), 'make install')
      assert.equal((await after('The user rejected this.')).text, 'I was not allowed to run it.')
      assert.equal((await after('')).text, 'I was allowed to run it.')
    })

    test(`the model speaking ${name} knows earlier prompts only from the request`, async () => {
      await using model = await startModel({ keys: [KEY] })
      const say = async (...prompts: string[]): Promise<string> =>
        hand.read(await ask(model, hand, { prompts })).text
      assert.match(await say('[[followup]]'), /nothing before/)
      assert.match(await say('<context>x</context>', 'paint it', '[[followup]]'), /you asked: paint it$/)
    })

    test(`the model speaking ${name} refuses unknown keys, and recognises placeholders`, async () => {
      await using model = await startModel({ keys: [KEY] })
      for (const key of ['', 'wrong', newPlaceholder(systemRandom)]) {
        const response = await send(model, hand, { prompts: ['[[nothing]]'], key })
        assert.equal(response.status, hand.badKeyStatus)
        assert.ok(textAt(await response.json(), 'error', 'message').length > 0)
      }
      assert.deepEqual(
        model.requests.map(({ key, protocol }) => [key, protocol]),
        ['missing', 'wrong', 'placeholder'].map((key) => [key, name]),
      )
    })

    test(`the model speaking ${name} is rate-limited twice, and breaks off in the middle`, async () => {
      await using model = await startModel({ keys: [KEY] })
      for (const status of [429, 429, 200]) {
        const response = await send(model, hand, { prompts: ['[[limited]]'] })
        assert.equal(response.status, status)
        assert.equal(response.headers.get('retry-after'), status === 429 ? '1' : null)
        await response.text()
      }
      const cut = await send(model, hand, { prompts: ['[[cut]]'] })
      assert.equal(cut.status, 200)
      await assert.rejects(cut.text())
    })

    test(`the model speaking ${name} gives the same answer without a stream`, async () => {
      await using model = await startModel({ keys: [KEY] })
      const body = { ...(hand.body(['[[nothing]]'], []) as object), stream: false }
      const path = hand.path.replace('streamGenerateContent?alt=sse', 'generateContent')
      const response = await post(model, path, hand.header(KEY), body)
      assert.match(await response.text(), /There is nothing to do here/)
    })
  })
}

describe('the model', () => {
  test('the model fills in a requested form without a step of the scenario', async () => {
    await using model = await startModel()
    const format = { type: 'json_schema', schema: schema('title') }
    const body = { model: 'm', input: 'Make a title for: [[fix]]', text: { format } }
    const answer = await (await post(model, '/v1/responses', { authorization: 'Bearer any' }, body)).json()
    const [item] = listAt(answer, 'output')
    assert.deepEqual(JSON.parse(textAt(listAt(item, 'content')[0], 'text')), { title: 'A task for an agent' })
  })

  test('the model calls custom tools with text, also those in the conversation', async () => {
    await using model = await startModel()
    const call = async (tools: unknown, prompt: string): Promise<unknown> => {
      const body = {
        model: 'm',
        tools: [],
        input: [
          { type: 'additional_tools', tools },
          { role: 'user', content: prompt },
        ],
      }
      const answer = await post(model, '/v1/responses', { authorization: 'Bearer any' }, body)
      return listAt(await answer.json(), 'output').at(-1)
    }
    const patch = await call([{ type: 'custom', name: 'apply_patch' }], '[[edit a.txt]]')
    assert.equal(textAt(patch, 'type'), 'custom_tool_call')
    assert.match(textAt(patch, 'input'), /^\*\*\* Begin Patch\n\*\*\* Add File: a\.txt\n\+Written/)
    const exec = { type: 'namespace', name: 'functions', tools: [{ type: 'custom', name: 'exec' }] }
    assert.match(textAt(await call([exec], '[[loop]]'), 'input'), /tools\.exec_command\(\{"cmd":"echo 0"/)
  })

  test('the model finds a tool of an MCP server by the end of its name', async () => {
    await using model = await startModel()
    const call = async (tool: unknown): Promise<unknown> => {
      const body = { model: 'm', tools: [tool], input: [{ role: 'user', content: '[[mcp remember]]' }] }
      const answer = await post(model, '/v1/responses', { authorization: 'Bearer any' }, body)
      return listAt(await answer.json(), 'output').at(-1)
    }
    for (const name of ['mcp__notes__remember', 'notes_remember', 'notes-remember', 'remember']) {
      const said = await call({ type: 'function', name, parameters: schema('text') })
      assert.equal(textAt(said, 'name'), name)
      assert.deepEqual(JSON.parse(textAt(said, 'arguments')), { text: MCP_TEXT })
    }
    assert.match(textAt(await call({ type: 'custom', name: 'exec' }), 'input'), /ends = \["remember"\]/)
    const none = await call({ type: 'function', name: 'forget', parameters: schema('text') })
    assert.match(textAt(listAt(none, 'content')[0], 'text'), /no tool remember/)
  })

  test('the model answers the other requests of agents', async () => {
    await using model = await startModel()
    const pages: readonly (readonly [string, string, number])[] = [
      ['HEAD', '/', 200],
      ['GET', '/api/hello', 200],
      ['GET', '/v1/models', 200],
      ['POST', '/v1/messages/count_tokens?beta=true', 200],
      ['POST', '/v1beta/models/m:countTokens', 200],
      ['GET', '/elsewhere', 404],
    ]
    for (const [method, path, status] of pages)
      assert.equal((await fetch(model.url + path, { method })).status, status, path)
  })

  test('the model refuses a websocket', async () => {
    await using model = await startModel()
    const { hostname, port } = new URL(model.url)
    const socket = connect(Number(port), hostname)
    socket.write('GET /v1/responses HTTP/1.1\r\nHost: m\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    let text = ''
    for await (const chunk of socket) text += String(chunk)
    assert.match(text, /^HTTP\/1\.1 426 /)
  })

  test('the model runs as a program that logs requests, and ends with its input', async () => {
    const script = join(import.meta.dirname, 'main.ts')
    const child = spawn(process.execPath, [script, '--key', KEY, '--scenario', 'edit'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const ended = new Promise((resolve) => child.once('exit', resolve))
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    const next = async (): Promise<unknown> => JSON.parse(String((await lines.next()).value))
    try {
      const url = textAt(await next(), 'url')
      const hand = HANDS['chat'] as Hand
      const events = await ask({ url }, hand, { prompts: ['go on'] })
      assert.equal(hand.read(events).tool, 'write_file')
      const { key, answer } = at(await next(), 'request') as Model['requests'][number]
      assert.deepEqual([key, answer], ['right', 'write_file'])
    } finally {
      child.stdin.end()
    }
    assert.equal(await ended, 0)
  })
})

interface Asking {
  readonly prompts: readonly string[]
  readonly results?: readonly string[]
  readonly key?: string
}

async function ask(model: { url: string }, hand: Hand, asking: Asking): Promise<unknown[]> {
  const response = await send(model, hand, asking)
  const text = await response.text()
  assert.equal(response.status, 200, text)
  return [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data = '']) => JSON.parse(data) as unknown)
}

function send(
  model: { url: string },
  hand: Hand,
  { prompts, results = [], key = KEY }: Asking,
): Promise<Response> {
  return post(model, hand.path, key === '' ? {} : hand.header(key), hand.body(prompts, results))
}

function post(
  { url }: { url: string },
  path: string,
  headers: Record<string, string>,
  body: unknown,
): Promise<Response> {
  return fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
}
