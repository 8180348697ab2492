import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { isAgentPodError } from '../../../core/error.ts'
import { type ScriptEvent, takeResult } from './take-result.ts'

const root = mkdtempSync(join(tmpdir(), 'take-result-'))
after(() => rmSync(root, { recursive: true, force: true }))

const file = join(root, 'result.pack')
const project = { workspace: '/home/user/project', tree: '0'.repeat(40) }

function take(events: () => AsyncIterable<ScriptEvent>): Promise<unknown> {
  return takeResult({ project, user: 'user', file, run: events })
}

describe('takeResult', () => {
  test('a sandbox that writes endless bytes instead of a result is read only up to the limit', async () => {
    let bytes = 0
    const endless = async function* (): AsyncGenerator<ScriptEvent> {
      for (; bytes < 64 * 1024 * 1024; bytes += 65_536)
        yield { kind: 'stdout', data: Buffer.alloc(65_536, 'x') }
    }
    await assert.rejects(take(endless), (error) => isAgentPodError(error, 'data_loss'))
    assert.ok(bytes < 1024 * 1024, `${bytes} bytes were read`)
  })

  const BAD: readonly { name: string; events: readonly ScriptEvent[]; says: RegExp }[] = [
    {
      name: 'a result script that fails is refused with its last line',
      events: [
        { kind: 'stderr', data: Buffer.from('warning\ngit: not found\n') },
        { kind: 'end', exitCode: 127 },
      ],
      says: /git: not found/,
    },
    { name: 'a result with lost bytes is refused', events: [{ kind: 'lost' }], says: /lost/ },
    { name: 'an empty result is refused', events: [{ kind: 'end', exitCode: 0 }], says: /nothing/ },
  ]
  for (const { name, events, says } of BAD)
    test(`${name}, and leaves no file`, async () => {
      const run = async function* (): AsyncGenerator<ScriptEvent> {
        yield* events
      }
      await assert.rejects(take(run), (error) => isAgentPodError(error) && says.test(error.message))
      assert.equal(existsSync(file), false)
      assert.equal(existsSync(`${file}.draft`), false)
    })
})
