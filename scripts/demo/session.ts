/**
 * The session that is recorded: commands typed at a person's speed, and their output. Runs in the project,
 * inside asciinema.
 */
import { spawnSync } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'

const KEY_MS = 35
const READING_MS = 2500

const COMMANDS = [
  'agentpod run claude "fix the failing test"',
  'agentpod diff',
  'agentpod run --agent claude --agent codex --agent gemini "fix the failing test"',
  'agentpod compare',
  'agentpod merge codex',
  'git log --oneline --graph -3',
]

for (const command of COMMANDS) {
  process.stdout.write('\x1b[1;32m$\x1b[0m ')
  await pause(500)
  for (const letter of command) {
    process.stdout.write(letter)
    await pause(KEY_MS)
  }
  await pause(400)
  process.stdout.write('\n')
  const { status } = spawnSync('sh', ['-c', command], { stdio: 'inherit' })
  // A failed command fails the recording.
  if (status !== 0) process.exit(status ?? 1)
  await pause(READING_MS)
}
