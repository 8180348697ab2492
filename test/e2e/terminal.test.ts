import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { ROOT, World } from '../support/world.ts'

const world = new World()
before(() => world.ok(['create', '--name', 'box']))
after(() => world[Symbol.asyncDispose]())

type Step = { expect: string } | { send: string } | { resize: [number, number] }

async function drive(
  args: readonly string[],
  steps: readonly Step[],
): Promise<{ code: number; screen: string }> {
  const child = spawn(
    'python3',
    [join(ROOT, 'test/support/drive-terminal.py'), join(ROOT, 'agentpod'), ...args],
    {
      cwd: world.home,
      env: { ...process.env, AGENTPOD_HOME: world.home, TERM: 'xterm-256color' },
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  )
  child.stdin.end(JSON.stringify(steps))
  let text = ''
  for await (const chunk of child.stdout) text += chunk
  const result = JSON.parse(text) as { code: number; stuck: string | null; screen: string }
  assert.equal(result.stuck, null, result.screen)
  return result
}

test('BOX-12 shell has a prompt, the size of the terminal, Unicode, and the exit code', async () => {
  const { code, screen } = await drive(
    ['shell', 'box'],
    [
      { expect: '\\$ ' },
      { send: 'stty size; echo grüße-🦀 | wc -m; tty; echo $TERM\n' },
      { expect: '40 100' },
      { expect: '\\n8\\r' },
      { expect: '/dev/pts/\\d+' },
      { expect: 'xterm-256color' },
      { resize: [123, 45] },
      { send: 'sleep 0.3; stty size\n' },
      { expect: '45 123' },
      { send: 'exit 5\n' },
    ],
  )
  assert.equal(code, 5, screen)
})

test('Ctrl-C in a terminal interrupts the program inside, not agentpod', async () => {
  const { code } = await drive(
    ['shell', 'box'],
    [
      { expect: '\\$ ' },
      { send: 'sleep 1000\n' },
      { expect: '2004l' },
      { send: '\u0003' },
      { expect: '\\^C' },
      { expect: '\\$ ' },
      { send: 'echo code-$?\n' },
      { expect: 'code-130' },
      { send: '\u0004' },
    ],
  )
  assert.equal(code, 0)
})

test('BOX-12 a program in raw mode gets every key as it is', async () => {
  const program =
    'import sys,tty,termios;tty.setraw(0);print("raw",end="\\r\\n",flush=True);print([sys.stdin.buffer.raw.read(1)[0] for _ in range(4)],end="\\r\\n")'
  await drive(
    ['exec', 'box', '--', 'python3', '-c', program],
    [{ expect: 'raw' }, { send: '\u0001\u001b[\u007f' }, { expect: '\\[1, 27, 91, 127\\]' }],
  )
})

test('on a terminal, a second Ctrl-C destroys the sandbox of a command that ignores the first', async () => {
  const { code } = await drive(
    [
      'run',
      '--no-project',
      '--name',
      'deaf',
      '--',
      'sh',
      '-c',
      'trap "" INT; echo ready; while :; do sleep 1; done',
    ],
    [
      { expect: 'ready' },
      { send: '\u0003' },
      { expect: '\\^C' },
      { send: '\u0003' },
      { expect: 'interrupted twice' },
    ],
  )
  assert.equal(code, 130)
  assert.doesNotMatch(await world.ok(['ls']), /deaf/)
})

test('progress and colour are shown on terminals alone', async () => {
  const { screen } = await drive(['ls', '--nope'], [{ expect: 'unknown option' }])
  assert.ok(screen.includes('\u001b[31merror:'))
  const plain = await world.cli(['ls', '--nope'])
  assert.ok(!plain.stderr.includes('\u001b'))
})
