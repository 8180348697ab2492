import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { RunEventBodyView } from '../../api/schema/run.ts'
import { runEvents, screen } from '../testing/screen.ts'
import { adviceFor, PLAIN, RunLines, type Style, wrap } from './run-lines.ts'
import { RunLog } from './run-log.ts'

const MARKED: Style = {
  bold: (text) => `<b>${text}</b>`,
  dim: (text) => `<d>${text}</d>`,
  red: (text) => `<r>${text}</r>`,
  green: (text) => `<g>${text}</g>`,
}

interface Shown {
  readonly style?: Style
  readonly width?: number
  readonly isAsking?: boolean
}

function lines(bodies: readonly RunEventBodyView[], o: Shown = {}): string[] {
  const run = new RunLines({
    run: 'run1',
    width: o.width,
    style: o.style ?? PLAIN,
    isAsking: o.isAsking ?? false,
  })
  return [...bodies.flatMap((body) => run.take(body).lines), ...run.rest()]
}

const message = (text: string, id = 'm1'): RunEventBodyView => ({
  type: 'message',
  from: 'agent',
  message: id,
  text,
})
const bash = (subject: string) => ({ kind: 'bash' as const, subject, title: subject })

const TABLE: readonly (readonly [
  name: string,
  events: readonly RunEventBodyView[],
  shown: readonly string[],
])[] = [
  [
    'what it says, put together from its parts',
    [message('I look at '), message('the test.\nThen'), message(' I fix it.')],
    ['I look at the test.', 'Then I fix it.'],
  ],
  [
    'messages apart, and blank lines only between others',
    [message('\n\none\n\n\n\ntwo\n\n'), message('three', 'm2')],
    ['one', '', 'two', 'three'],
  ],
  [
    'what it was told, and what it thinks',
    [
      { type: 'message', from: 'user', message: 'u', text: 'and now?\nquickly' },
      { type: 'thought', message: 't', text: 'hm' },
    ],
    ['<b>> and now?</b>', '<b>> quickly</b>', '<d>hm</d>'],
  ],
  [
    'its plan',
    [
      {
        type: 'plan',
        entries: [
          { text: 'read', status: 'done' },
          { text: 'fix', status: 'doing' },
          { text: 'test', status: 'pending' },
        ],
      },
    ],
    ['<d>  ✓ read</d>', '  ▸ fix', '  ○ test'],
  ],
  [
    'a tool once, when it is done',
    [
      { type: 'tool', tool: 'Read', kind: 'read', title: 'Read a.ts', status: 'started' },
      { type: 'tool', tool: 'Read', kind: 'read', title: 'Read a.ts', status: 'done', output: 'all of it' },
    ],
    ['<d>· Read a.ts</d>'],
  ],
  [
    'a tool that failed, with its words',
    [
      {
        type: 'tool',
        tool: 'Read',
        kind: 'read',
        title: 'Read b.ts',
        status: 'failed',
        output: 'no such file',
      },
    ],
    ['<r>✗ Read b.ts</r>', '  no such file'],
  ],
  [
    'an edit, and not its tool again',
    [
      { type: 'edit', path: 'src/a.ts', added: 3, removed: 1 },
      { type: 'tool', tool: 'Edit', kind: 'edit', title: 'Edit src/a.ts', status: 'done' },
    ],
    ['✎ src/a.ts <g>+3</g> <r>−1</r>'],
  ],
  [
    'a command that failed, with the end of its output, and not its tool again',
    [
      { type: 'command', command: 'npm test', exitCode: 1, output: '\u001b[31mred\u001b[0m\r\nbad\n' },
      { type: 'tool', tool: 'Bash', kind: 'execute', title: 'npm test', status: 'failed', output: 'bad' },
    ],
    ['$ npm test<r> (exit code 1)</r>', '<d>  red</d>', '<d>  bad</d>'],
  ],
  [
    'a command of several lines on one, and how much is left out',
    [{ type: 'command', command: 'cd a\n  make', exitCode: 0, output: '1\n2\n3\n4\n5\n6\n' }],
    ['$ cd a ⏎ make', '<d>  … 3 lines</d>', '<d>  4</d>', '<d>  5</d>', '<d>  6</d>'],
  ],
  [
    'a question, and how to answer it',
    [{ type: 'permission.asked', permission: 'p 1', about: bash('npm publish') }],
    ['<b>? run npm publish</b>', "<d>  to allow it: agentpod answer run1 'p 1' allow</d>"],
  ],
  [
    'what a rule denies, and what would allow it',
    [
      {
        type: 'permission.answered',
        permission: 'p1',
        about: bash('git push --force'),
        answer: 'deny',
        by: 'rule',
      },
    ],
    [
      '<r>✗ a rule denies it: run git push --force</r>',
      "<d>  to allow it: --permission 'bash:git push --force=allow'</d>",
    ],
  ],
  [
    'answers of people, and none of rules that allow',
    [
      { type: 'permission.answered', permission: 'p1', about: bash('ls'), answer: 'allow', by: 'rule' },
      { type: 'permission.answered', permission: 'p2', about: bash('ls'), answer: 'allow', by: 'user' },
      { type: 'permission.answered', permission: 'p3', about: bash('ls'), answer: 'deny', by: 'user' },
    ],
    ['<d>  allowed: run ls</d>', '<r>✗ denied: run ls</r>'],
  ],
  [
    'a host that was refused, once',
    [
      { type: 'network.denied', host: 'example.com', port: 443, reason: 'default', count: 1 },
      { type: 'network.denied', host: 'example.com', port: 443, reason: 'default', count: 9 },
      { type: 'network.denied', host: 'example.com', port: 22, reason: 'default', count: 1 },
    ],
    [
      '<r>✗ refused: example.com:443 (default)</r>',
      '<d>  to allow it: --allow example.com</d>',
      '<r>✗ refused: example.com:22 (default)</r>',
      '<d>  to allow it: --allow example.com:22</d>',
    ],
  ],
  [
    'notes, errors and the end',
    [
      { type: 'note', text: 'slow' },
      { type: 'error', text: 'bad\nvery' },
      { type: 'state', state: 'finishing' },
      { type: 'state', state: 'ended', outcome: 'timed_out', reason: 'its time is over' },
    ],
    ['<d>note: slow</d>', '<r>error: bad very</r>', '<r>✗ timed out: its time is over</r>'],
  ],
]

describe('a run is told by', () => {
  for (const [name, events, shown] of TABLE)
    test(name, () => assert.deepEqual(lines(events, { style: MARKED }), shown))

  test('no question where it is put to somebody, or where a rule answers it', () => {
    const asked: RunEventBodyView = { type: 'permission.asked', permission: 'p1', about: bash('x') }
    assert.deepEqual(lines([asked], { isAsking: true }), [])
    const answered = { ...asked, type: 'permission.answered', answer: 'allow', by: 'rule' } as const
    assert.deepEqual(lines([asked, answered]), [])
    assert.equal(lines([asked, { ...answered, permission: 'p2' }]).length, 2)
  })

  test('lines that fit the screen, as soon as they are full', () => {
    const run = new RunLines({ run: 'r', width: 20, style: PLAIN, isAsking: false })
    assert.deepEqual(run.take(message('one two three four five')).lines, ['one two three four'])
    assert.deepEqual(run.take(message(' six\n')).lines, ['five six'])
    assert.deepEqual(run.rest(), [])
    assert.deepEqual(lines([{ type: 'note', text: 'x'.repeat(50) }], { width: 30 }), [
      `note: ${'x'.repeat(23)}…`,
    ])
  })
})

test('the advice about a refusal names an option only where that option helps', () => {
  for (const [place, reason, advice] of [
    ['example.com', 'rule.none', 'to allow it: --allow example.com'],
    ['example.com:22', 'open.port', 'to allow it: --allow example.com:22'],
    ['gateway.internal', 'address.private', 'to allow it: --allow-private gateway.internal'],
    ['gateway', 'open.host', 'to allow it: --allow-private gateway'],
    ['10.0.0.5', 'address.private', /^no option allows a bare IP address/],
    ['203.0.113.7:8080', 'address.none', /^no option allows a bare IP address/],
    ['[fd00::5]:8443', 'address.private', /^no option allows a bare IP address/],
    ['fd00::5', 'address.private', /^no option allows a bare IP address/],
    ['example.com', 'secret.misplaced', /^no option allows it: a secret/],
    ['example.com', 'secret.scope', /^no option allows it: a secret/],
    ['example.com', 'credential.foreign', /^no option allows it: a secret/],
    ['localhost', 'host.never', /^no option allows it: this address/],
    ['10.0.0.5', 'address.denied', /^no option allows it: this address/],
    ['example.com', 'rule.deny', /^a rule denies it/],
    ['example.com', 'mode.off', /--net allowlist/],
    ['example.com', 'cap.connections', /^a limit was reached/],
    ['example.com', 'dns.flood', /^a limit was reached/],
    ['example.com', 'request.method', /method is never forwarded/],
    ['example.com', 'policy.changed', /retry$/],
  ] as const) {
    const said = adviceFor(place, reason)
    if (typeof advice === 'string') assert.equal(said, advice, reason)
    else {
      assert.match(said, advice, `${place} ${reason}`)
      assert.doesNotMatch(said, /--allow(?:-private)? /, `${place} ${reason}`)
    }
  }
})

describe('SECURITY: text of an agent', () => {
  const HOSTILE = '\u001b]0;title\u0007\u001b[2J\u001b[1;1Hok\u0008\u202e\u0000'

  test('is shown and not obeyed, wherever it stands', () => {
    const about = { kind: 'network' as const, subject: HOSTILE, title: HOSTILE }
    const events: RunEventBodyView[] = [
      message(HOSTILE),
      { type: 'thought', message: 't', text: HOSTILE },
      { type: 'plan', entries: [{ text: HOSTILE, status: 'doing' }] },
      { type: 'tool', tool: HOSTILE, kind: 'other', title: HOSTILE, status: 'failed', output: HOSTILE },
      { type: 'edit', path: HOSTILE, added: 1, removed: 1 },
      { type: 'command', command: HOSTILE, exitCode: 1, output: HOSTILE },
      { type: 'permission.asked', permission: HOSTILE, about },
      { type: 'permission.answered', permission: HOSTILE, about, answer: 'deny', by: 'rule' },
      { type: 'network.denied', host: HOSTILE, port: 1, reason: HOSTILE, count: 1 },
      { type: 'note', text: HOSTILE },
      { type: 'error', text: HOSTILE },
      { type: 'state', state: 'ended', outcome: 'failed', reason: HOSTILE },
    ]
    const shown = lines(events)
    assert.ok(shown.length >= events.length)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these characters must not be there
    for (const line of shown) assert.doesNotMatch(line, /[\u0000-\u001f\u007f-\u009f\u202e]/)
  })

  // Where a pattern ran away, this would never end.
  test('is bounded, whatever its form', { timeout: 30_000 }, () => {
    const long = `${' '.repeat(300_000)}\u001b${'x'.repeat(300_000)}`
    const shown = lines([
      message(long),
      { type: 'command', command: long, exitCode: 1, output: `${long}\n`.repeat(3) },
      { type: 'note', text: long },
    ])
    for (const line of shown) assert.ok([...line].length <= 2100, `${line.length}`)
  })
})

test('text is broken at spaces, and where there are none in the middle', () => {
  assert.deepEqual(wrap('aaa bbb ccc', 7), ['aaa bbb', 'ccc'])
  assert.deepEqual(wrap('aaaaaaaaaa', 4), ['aaaa', 'aaaa', 'aa'])
  assert.deepEqual(wrap('', 4), [''])
  assert.deepEqual(wrap('👩‍🚀👩‍🚀', 3).join(''), '👩‍🚀👩‍🚀')
})

describe('a log', () => {
  const two = [
    { id: 'a', agent: 'claude', number: 1 },
    { id: 'b', agent: 'codex', number: 12 },
  ]
  const [event] = runEvents({ type: 'note', text: 'x' })
  assert.ok(event)

  test('of several runs says whose each line is', () => {
    const { terminal, out } = screen()
    const log = new RunLog(terminal, two)
    log.take('b', event)
    log.take('a', event)
    log.take('nobody', event)
    assert.deepEqual(out(), ['codex-12 │ note: x', 'claude-1 │ note: x'])
  })

  test('for programs is a line of JSON for each event', () => {
    const { terminal, out } = screen()
    new RunLog(terminal, two, { isJson: true }).take('a', event)
    assert.deepEqual(out(), [
      '{"run":"a","seq":1,"at":"2030-01-01T00:00:00.000Z","body":{"type":"note","text":"x"}}',
    ])
  })

  test('holds its lines while a question is on the screen', () => {
    const { terminal, out } = screen()
    const log = new RunLog(terminal, two)
    log.hold()
    log.take('a', event)
    assert.deepEqual(out(), [])
    log.release()
    assert.deepEqual(out(), ['claude-1 │ note: x'])
  })
})
