/** Conversations with programs in real sandboxes, whose other end is killed again and again. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Guest } from '../../src/core/guest.ts'
import type { Sandbox } from '../../src/exports/client.ts'
import {
  type ConversationStart,
  conversationState,
  followConversation,
  inputAccepted,
  sendInput,
  startConversation,
} from '../../src/guest/conversation.ts'
import { poddGuest } from '../../src/guest/podd/client.ts'
import { socketStreams } from '../../src/guest/podd/streams.ts'
import { signalInside } from '../../src/guest/run-command.ts'
import { World } from '../support/world.ts'

const NEVER = new AbortController().signal
const TALKER = join(import.meta.dirname, '..', 'support', 'talker.ts')

const world = new World()
const pod = world.client()
let sandbox: Sandbox
let socket: string
let guest: Guest
before(async () => {
  sandbox = await pod.create({})
  const marker = sandbox.exec('sleep', { args: ['600'] })
  // It ends with its sandbox.
  marker.wait().catch(() => undefined)
  await marker.pid
  // The sockets of blank shells lie beside it.
  for (const name of readdirSync(join(world.home, 'run', 's'))) {
    const path = join(world.home, 'run', 's', name)
    if (!name.endsWith('.sock') || !existsSync(path)) continue
    const one = poddGuest(socketStreams({ api: path }))
    const { processes } = await one.stats({ timeoutMs: 1000 }).catch(() => ({ processes: 0 }))
    if (processes > 0) [socket, guest] = [path, one]
    else one.close()
  }
  assert.ok(guest, 'its socket')
})
after(async () => {
  guest?.close()
  pod.close()
  await world[Symbol.asyncDispose]()
})

const start = (tag: string, command: readonly string[], o: Partial<ConversationStart> = {}): Promise<void> =>
  startConversation(
    guest,
    { command, user: 'user', workdir: '', variables: {}, tag, stdin: true, ...o },
    NEVER,
  )

interface Said {
  readonly stdout: string
  readonly gap: number
  readonly exitCode: number | undefined
}

/** What it says from an offset on, until so many bytes of stdout, or its end. */
async function said(tag: string, offset: number, until = Number.POSITIVE_INFINITY): Promise<Said> {
  const parts: Buffer[] = []
  let [gap, at] = [0, offset]
  for await (const event of followConversation(guest, tag, { offset, signal: NEVER })) {
    if (event.kind === 'end')
      return { stdout: Buffer.concat(parts).toString(), gap, exitCode: event.exit.exitCode }
    if (event.kind === 'gap') [gap, at] = [gap + event.bytes, event.offset]
    if (event.kind === 'stdout') {
      assert.equal(event.offset, at, 'each begins where the one before ended')
      at += event.data.length
      parts.push(event.data)
    }
    if (at >= until) break
  }
  return { stdout: Buffer.concat(parts).toString(), gap, exitCode: undefined }
}

test('a program gets its input and gives its output line by line', async () => {
  const script = 'while read -r line; do echo "heard $line"; echo "noise" >&2; done; exit 4'
  await start('echo', ['sh', '-c', script], { variables: { A: 'b' } })
  let at = 0
  for (const word of ['one', 'two', 'three']) {
    const line = `${word}\n`
    assert.equal(
      await sendInput(guest, 'echo', { offset: at, data: Buffer.from(line) }, NEVER),
      at + line.length,
    )
    at += line.length
  }
  assert.deepEqual(await said('echo', 0, 32), {
    stdout: 'heard one\nheard two\nheard three\n',
    gap: 0,
    exitCode: undefined,
  })
  assert.equal((await said('echo', 10, 32)).stdout, 'heard two\nheard three\n')
  assert.deepEqual(await conversationState(guest, 'echo', NEVER), { kind: 'running' })
  await signalInside(guest, 'echo', 'SIGKILL', NEVER)
  assert.equal((await said('echo', 20)).stdout, 'heard three\n')
  const state = await conversationState(guest, 'echo', NEVER)
  assert.ok(state.kind === 'ended' && state.exit.signal === 'SIGKILL')
  assert.deepEqual(await conversationState(guest, 'nobody', NEVER), { kind: 'unknown' })
})

test('a program without input sees end of file, and one that takes too long is ended', async () => {
  await start('silent', ['cat'], { stdin: false })
  assert.deepEqual(await said('silent', 0), { stdout: '', gap: 0, exitCode: 0 })
  await start('long', ['sleep', '600'], { timeoutMs: 300 })
  assert.equal((await said('long', 0)).exitCode, -1)
})

test('RUN-8 kill -9 of the process that talks to a program, again and again: every line arrives once', async () => {
  await start('cat', ['cat'])
  const journal = join(world.directory(), 'journal')
  const lines = 1500
  for (let round = 0; ; round++) {
    const child = spawn(process.execPath, [TALKER, socket, 'cat', journal, String(lines)], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    const ended = once(child, 'exit')
    // The first ones are killed early; the last one may finish.
    if (round < 12) {
      while (!existsSync(journal)) await pause(5)
      const before = readFileSync(journal).length
      while (child.exitCode === null && readFileSync(journal).length < before + 1 + round * 4000)
        await pause(1)
      child.kill('SIGKILL')
    }
    const [code] = await ended
    if (code === 0) break
    assert.ok(round < 12, 'the last one was not killed')
  }
  const all = readFileSync(journal, 'utf8')
  assert.equal(all.split('\n').length - 1, lines)
  assert.equal(await inputAccepted(guest, 'cat', NEVER), all.length)
  // Said again from any earlier place, nothing arrives twice.
  for (const from of [0, 1, all.length - 5])
    assert.equal(
      await sendInput(guest, 'cat', { offset: from, data: Buffer.from(all.slice(from, from + 5)) }, NEVER),
      all.length,
    )
  const { stdout, gap } = await said('cat', 0, all.length)
  assert.equal(gap, 0)
  assert.ok(stdout === all, `${stdout.length} of ${all.length} bytes`)
  for (const from of [1, 4096, 65_536, all.length - 1])
    assert.ok((await said('cat', from, all.length)).stdout === all.slice(from), `from ${from}`)
  await signalInside(guest, 'cat', 'SIGKILL', NEVER)
})

test('RUN-8 readers that are cut get every byte of stdout once', async () => {
  const script =
    'i=0; while [ $i -lt 4000 ]; do i=$((i+1)); echo "out $i"; [ $((i % 3)) -eq 0 ] && echo "some noise $i" >&2; [ $((i % 500)) -eq 0 ] && sleep 0.05; done; exit 9'
  const expected = Array.from({ length: 4000 }, (_, i) => `out ${i + 1}\n`).join('')
  await start('both', ['sh', '-c', script])
  const parts: Buffer[] = []
  let [offset, cuts, exitCode] = [0, 0, -1]
  while (exitCode === -1) {
    const leave = new AbortController()
    let left = 1 + cuts * 7
    try {
      for await (const event of followConversation(guest, 'both', { offset, signal: leave.signal })) {
        assert.notEqual(event.kind, 'gap')
        if (event.kind === 'end') exitCode = event.exit.exitCode
        if (event.kind === 'stdout') {
          // What was read but not yet written down is read again.
          if (left-- === 0) break
          parts.push(event.data)
          offset += event.data.length
        }
      }
    } finally {
      cuts++
      leave.abort()
    }
  }
  assert.equal(exitCode, 9)
  assert.ok(Buffer.concat(parts).toString() === expected)
  assert.ok(cuts > 1, 'the control: it was cut')
})
