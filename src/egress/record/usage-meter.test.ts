import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { ModelUsage } from '../../core/network.ts'
import { type AnswerForm, formOf, UsageMeter } from './usage-meter.ts'

const events = (...list: readonly object[]): string =>
  list
    .map((event) => `event: ${(event as { type?: string }).type ?? 'x'}\ndata: ${JSON.stringify(event)}\n\n`)
    .join('')
const use = (model: string, input: number, cached: number, output: number): ModelUsage => ({
  model,
  input,
  cached,
  output,
})

const MESSAGES = events(
  {
    type: 'message_start',
    message: {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'claude-sonnet-4-5-20250929',
      content: [],
      stop_reason: null,
      usage: {
        input_tokens: 12,
        cache_creation_input_tokens: 300,
        cache_read_input_tokens: 4000,
        cache_creation: { ephemeral_5m_input_tokens: 300, ephemeral_1h_input_tokens: 0 },
        output_tokens: 1,
        service_tier: 'standard',
      },
    },
  },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'ping' },
  {
    type: 'content_block_delta',
    index: 0,
    delta: { type: 'text_delta', text: '{"usage":{"output_tokens":99999}}\n\ndata: {"usage":' },
  },
  { type: 'content_block_stop', index: 0 },
  {
    type: 'message_delta',
    delta: { stop_reason: 'end_turn', stop_sequence: null },
    usage: { output_tokens: 57 },
  },
  { type: 'message_stop' },
)

const RESPONSES = events(
  {
    type: 'response.created',
    response: { id: 'resp_1', model: 'gpt-5.1-codex', status: 'in_progress', usage: null },
  },
  { type: 'response.output_text.delta', delta: 'Hel\\"lo ü' },
  {
    type: 'response.completed',
    response: {
      id: 'resp_1',
      object: 'response',
      instructions: 'x'.repeat(5000),
      model: 'gpt-5.1-codex',
      output: [{ type: 'message', usage: { input_tokens: 1_000_000 }, content: [[{ model: 'other' }]] }],
      usage: {
        input_tokens: 1000,
        input_tokens_details: { cached_tokens: 768 },
        output_tokens: 80,
        output_tokens_details: { reasoning_tokens: 64 },
        total_tokens: 1080,
      },
    },
  },
)

const chunk = (more: object): object => ({
  id: 'c1',
  object: 'chat.completion.chunk',
  model: 'gpt-4.1-2025-04-14',
  ...more,
})
const CHAT = `${events(
  chunk({ choices: [{ index: 0, delta: { role: 'assistant', content: '' } }], usage: null }),
  chunk({ choices: [{ index: 0, delta: { content: 'Hi' } }], usage: null }),
  chunk({
    choices: [],
    usage: {
      prompt_tokens: 500,
      completion_tokens: 20,
      total_tokens: 520,
      prompt_tokens_details: { cached_tokens: 128, audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    },
  }),
)}data: [DONE]\n\n`

const part = (more: object): object => ({
  candidates: [{ content: { parts: [{ text: 'a "quoted" {part' }], role: 'model' }, index: 0 }],
  modelVersion: 'gemini-2.5-pro',
  responseId: 'r',
  ...more,
})
const PARTS = [
  part({ usageMetadata: { promptTokenCount: 900, totalTokenCount: 900 } }),
  part({
    usageMetadata: {
      promptTokenCount: 900,
      candidatesTokenCount: 5,
      cachedContentTokenCount: 600,
      thoughtsTokenCount: 40,
      totalTokenCount: 945,
      promptTokensDetails: [{ modality: 'TEXT', tokenCount: 900 }],
    },
  }),
  part({
    usageMetadata: {
      promptTokenCount: 900,
      candidatesTokenCount: 30,
      cachedContentTokenCount: 600,
      thoughtsTokenCount: 44,
      totalTokenCount: 974,
    },
  }),
]

const ANSWERS: readonly (readonly [string, AnswerForm, string, ModelUsage | undefined])[] = [
  ['a stream of Messages', 'events', MESSAGES, use('claude-sonnet-4-5-20250929', 312, 4000, 57)],
  [
    'a message at once',
    'json',
    JSON.stringify({
      id: 'm',
      type: 'message',
      model: 'claude-haiku-4-5',
      content: [{ type: 'text', text: 'x' }],
      usage: { input_tokens: 7, cache_read_input_tokens: 3, output_tokens: 2 },
    }),
    use('claude-haiku-4-5', 7, 3, 2),
  ],
  ['a stream of Responses', 'events', RESPONSES, use('gpt-5.1-codex', 232, 768, 80)],
  [
    'a response at once',
    'json',
    JSON.stringify(
      {
        object: 'response',
        model: 'gpt-5',
        usage: { input_tokens: 10, input_tokens_details: { cached_tokens: 0 }, output_tokens: 1 },
      },
      null,
      2,
    ),
    use('gpt-5', 10, 0, 1),
  ],
  ['a stream of Chat Completions', 'events', CHAT, use('gpt-4.1-2025-04-14', 372, 128, 20)],
  [
    'a completion at once, as a gateway writes it',
    'json',
    JSON.stringify({
      model: 'some/model',
      choices: [],
      usage: {
        prompt_tokens: 100,
        completion_tokens: 9,
        prompt_tokens_details: { cached_tokens: 80 },
        cache_read_input_tokens: 80,
        cache_creation_input_tokens: 5,
      },
    }),
    use('some/model', 20, 80, 9),
  ],
  ['a stream of Gemini', 'events', events(...PARTS), use('gemini-2.5-pro', 300, 600, 74)],
  ['a list of Gemini', 'json', `${JSON.stringify(PARTS, null, 1)}\n`, use('gemini-2.5-pro', 300, 600, 74)],
  [
    'Gemini in a wrapper',
    'events',
    events({ response: PARTS[2], traceId: 't' }),
    use('gemini-2.5-pro', 300, 600, 74),
  ],
  [
    'lines that end as they like',
    'events',
    MESSAGES.replaceAll('\n', '\r\n'),
    use('claude-sonnet-4-5-20250929', 312, 4000, 57),
  ],
  [
    'lines that end in a return',
    'events',
    MESSAGES.replaceAll('\n', '\r'),
    use('claude-sonnet-4-5-20250929', 312, 4000, 57),
  ],
  [
    'one event over several lines',
    'events',
    ': comment\r\ndata: {"model":"m",\r\ndata: "usage":{"output_tokens"\r\ndata: : 4}}\r\n\r\n',
    use('m', 0, 0, 4),
  ],
  [
    'an error',
    'json',
    JSON.stringify({ type: 'error', error: { type: 'overloaded_error', message: 'usage' } }),
    undefined,
  ],
  ['an error in a stream', 'events', events({ type: 'error', error: { message: 'x' } }), undefined],
  ['a count of tokens', 'json', '{"input_tokens": 2095}', undefined],
  [
    'another answer',
    'json',
    '[{"id":1,"usage":"much"},{"model":"x","usage":[{"input_tokens":4}]}]',
    undefined,
  ],
  ['no model', 'json', '{"usage":{"output_tokens":3}}', use('unknown', 0, 0, 3)],
]

function metered(form: AnswerForm, chunks: Iterable<Buffer>): ModelUsage | undefined {
  const meter = new UsageMeter(form)
  for (const one of chunks) meter.push(one)
  return meter.usage
}

describe('the tokens of', () => {
  for (const [what, form, text, expected] of ANSWERS)
    test(`RUN-11 the tokens of ${what} are read, wherever it is cut into chunks`, () => {
      const bytes = Buffer.from(text)
      assert.deepEqual(metered(form, [bytes]), expected)
      assert.deepEqual(
        metered(
          form,
          [...bytes].map((byte) => Buffer.from([byte])),
        ),
        expected,
        'byte by byte',
      )
      for (let at = 1; at < bytes.length; at++)
        assert.deepEqual(metered(form, [bytes.subarray(0, at), bytes.subarray(at)]), expected, `cut at ${at}`)
    })

  test('the tokens of a truncated response are those reported so far', () => {
    const until = (text: string, mark: string): ModelUsage | undefined =>
      metered('events', [Buffer.from(text.slice(0, text.indexOf(mark)))])
    assert.deepEqual(until(MESSAGES, 'content_block_stop'), use('claude-sonnet-4-5-20250929', 312, 4000, 1))
    assert.equal(until(RESPONSES, 'response.completed'), undefined)
    assert.equal(until(CHAT, '"prompt_tokens":'), undefined)
    // A number that may go on is none yet.
    const cut = '{"usage":{"input_tokens":100,"output_tokens":12'
    assert.deepEqual(metered('json', [Buffer.from(cut)]), use('unknown', 100, 0, 0))
    let most = 0
    for (let at = 0; at <= MESSAGES.length; at++) {
      const { output = 0 } = metered('events', [Buffer.from(MESSAGES.slice(0, at))]) ?? {}
      assert.ok(output >= most && output <= 57, `cut at ${at}`)
      most = output
    }
  })
})

describe('SECURITY: a server that lies', () => {
  for (const number of [
    '-1',
    '1.5',
    '1e99',
    '1000000001',
    '99999999999999999999999',
    '1e400',
    'NaN',
    'Infinity',
    '"5"',
    'null',
    'true',
    '{"a":5}',
    '[5]',
    '0x10',
    '5 5',
    `${'1'.repeat(100_000)}`,
  ])
    test(`SECURITY: a token count of ${number.slice(0, 30)} is ignored`, () => {
      const found = metered('json', [
        Buffer.from(`{"model":"m","usage":{"input_tokens":${number},"output_tokens":2}}`),
      ])
      assert.deepEqual(found, use('m', number === '5 5' ? 5 : 0, 0, 2))
    })

  test('SECURITY: model names are printable and short', () => {
    const modelOf = (model: string): string | undefined =>
      metered('json', [Buffer.from(`{"model":${model},"usage":{"output_tokens":1}}`)])?.model
    assert.equal(modelOf('"a\\u001b[31m\\nb ü"'), 'a?[31m?b??')
    assert.equal(modelOf(JSON.stringify('m'.repeat(200))), 'm'.repeat(128))
    assert.equal(modelOf(JSON.stringify('m'.repeat(5000))), 'unknown')
    assert.equal(modelOf('"\\ud800\\"'), undefined)
    assert.equal(modelOf('""'), 'unknown')
    assert.equal(modelOf('"__proto__"'), '__proto__')
    assert.equal(modelOf('7'), 'unknown')
  })

  for (const [what, text] of [
    ['deep lists', '['.repeat(300_000)],
    ['deep objects', '{"usage":'.repeat(100_000)],
    ['closing alone', '}]'.repeat(100_000)],
    ['a long key', `{"${'k'.repeat(1_000_000)}":1}`],
    ['a long string', `{"a":"${'\\"'.repeat(500_000)}`],
    ['a line without end', `data: ${'x'.repeat(1_000_000)}`],
    ['very many keys', `{${'"input_tokens":1,'.repeat(50_000)}`],
    ['names of objects', '{"__proto__":{"usage":{"input_tokens":5}},"constructor":1,"toString":2}'],
    ['bytes of all kinds', Buffer.from(Array.from({ length: 70_000 }, (_, n) => (n * 7919) % 256))],
  ] as const)
    test(`SECURITY: ${what} are skipped, and later counts are still read`, () => {
      for (const form of ['json', 'events'] as const) {
        const meter = new UsageMeter(form)
        meter.push(Buffer.from(text))
        assert.equal(meter.usage, undefined)
      }
      const meter = new UsageMeter('events')
      meter.push(Buffer.from(text))
      meter.push(Buffer.from('\n\ndata: {"model":"m","usage":{"input_tokens":3}}\n\n'))
      assert.deepEqual(meter.usage, use('m', 3, 0, 0))
    })
})

describe('an answer is looked into', () => {
  for (const [type, form] of [
    ['text/event-stream', 'events'],
    ['Text/Event-Stream; charset=utf-8', 'events'],
    ['application/json; charset=utf-8', 'json'],
    ['application/problem+json', 'json'],
    ['application/x-ndjson', 'json'],
    ['application/octet-stream', undefined],
    ['text/html', undefined],
    ['', undefined],
  ] as const)
    test(`a response of type ${JSON.stringify(type)} is ${form === undefined ? 'not read' : `read as ${form}`}`, () => {
      assert.equal(formOf(type), form)
    })
})
