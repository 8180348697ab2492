import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import type { Output } from '../../client/process.ts'
import type { Terminal } from '../output/terminal.ts'
import { type Named, showTogether } from './interleave-output.ts'

function program(name: string, exitCode: number, ...pieces: [Output['stream'], string][]): Named {
  return {
    name,
    process: {
      async *output() {
        for (const [stream, text] of pieces) {
          await new Promise((resolve) => setImmediate(resolve))
          yield { stream, data: Buffer.from(text) }
        }
      },
      exit: { exitCode, signal: undefined, oomKilled: false },
    },
  }
}

async function shown(
  ...programs: Named[]
): Promise<{ code: number; out: string; err: string; said: string[] }> {
  const [stdout, stderr, said] = [roomy(), roomy(), [] as string[]]
  const terminal = {
    stdout,
    stderr,
    say: (line: string) => void said.push(line),
    dim: (text: string) => text,
  }
  const code = await showTogether(terminal as unknown as Terminal, programs)
  return { code, out: String(stdout.read() ?? ''), err: String(stderr.read() ?? ''), said: said.sort() }
}

test('each line is behind the name of who wrote it, however it comes in', async () => {
  const { out, err, code, said } = await shown(
    program('web', 0, ['stdout', 'one\ntw'], ['stderr', 'oops\n'], ['stdout', 'o\n\nlast']),
    program('api/v2', 0, ['stdout', 'first\n']),
  )
  const lines = out.split('\n').filter((line) => line.startsWith('web'))
  assert.deepEqual(lines, ['web    │ one', 'web    │ two', 'web    │ ', 'web    │ last'])
  assert.match(out, /^api\/v2 │ first$/m)
  assert.equal(err, 'web    │ oops\n')
  assert.equal(code, 0)
  assert.deepEqual(said, ['api/v2 ended with code 0', 'web ended with code 0'])
})

test('one that fails does not end the others, and its code is the answer', async () => {
  const { code, out } = await shown(
    program('a', 3),
    program('b', 0, ['stdout', '1\n'], ['stdout', '2\n'], ['stdout', '3\n']),
    program('c', 4, ['stdout', 'x\n'], ['stdout', 'y\n']),
  )
  assert.equal(code, 3)
  assert.match(out, /b │ 3/)
})

test('a line without an end is written in parts', async () => {
  const { out } = await shown(program('a', 0, ['stdout', 'x'.repeat(100_000)], ['stdout', 'y']))
  assert.equal(out, `a │ ${'x'.repeat(100_000)}\na │ y\n`)
})

/** Nobody reads before the end. */
function roomy(): PassThrough {
  return new PassThrough({ highWaterMark: 1024 * 1024 })
}
