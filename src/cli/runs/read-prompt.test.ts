import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { screen } from '../testing/screen.ts'
import { promptOf } from './read-prompt.ts'

const cwd = mkdtempSync(join(tmpdir(), 'prompt-test-'))
after(() => rmSync(cwd, { recursive: true, force: true }))

function asked(
  words: readonly string[],
  o: { file?: string; input?: string; isTerminal?: boolean; env?: Record<string, string> } = {},
): Promise<string> {
  const { terminal } = screen({ isTerminal: o.isTerminal ?? false })
  ;(terminal.stdin as unknown as { end(text: string): void }).end(o.input ?? '')
  const env = { PATH: process.env['PATH'] ?? '', ...o.env }
  return promptOf({ cwd, env, terminal }, { words: [...words], value: () => o.file })
}

test('words are the prompt, and standard input is left alone', async () => {
  assert.equal(await asked(['fix', 'it'], { input: 'not this' }), 'fix it')
})

test('standard input is the prompt with -, and where it is piped and nothing else is said', async () => {
  assert.equal(await asked(['-'], { input: 'fix\nit\n' }), 'fix\nit')
  assert.equal(await asked([], { input: 'fix it\n' }), 'fix it')
  assert.equal(await asked([], { file: '-', input: 'fix it\n' }), 'fix it')
  await assert.rejects(asked(['-'], { input: 'x'.repeat(256 * 1024 + 1) }), { reason: 'run.prompt' })
})

test('a file is the prompt, and one that cannot be read is said', async () => {
  writeFileSync(join(cwd, 'task.md'), '# Task\nfix it\n')
  assert.equal(await asked([], { file: 'task.md' }), '# Task\nfix it')
  for (const file of ['missing.md', '.'])
    await assert.rejects(asked([], { file }), { reason: 'option.prompt-file', message: /cannot be read/ })
  await assert.rejects(asked(['fix'], { file: 'task.md' }), { message: /do not go together/ })
})

test('on a terminal the editor is opened where nothing is said, without its comments', async () => {
  const editor = join(cwd, 'edit')
  writeFileSync(editor, '#!/bin/sh\nprintf "fix %s\\n" "$1" | cat - "$2" > "$2.new" && mv "$2.new" "$2"\n')
  chmodSync(editor, 0o755)
  assert.equal(await asked([], { isTerminal: true, env: { EDITOR: `${editor} this` } }), 'fix this')
  assert.equal(await asked([], { isTerminal: true, env: { EDITOR: 'true' } }), '')
  assert.equal(await asked([], { isTerminal: true }), '')
  await assert.rejects(asked([], { isTerminal: true, env: { EDITOR: 'false' } }), { reason: 'run.editor' })
})
