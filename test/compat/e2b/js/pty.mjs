import assert from 'node:assert/strict'
import { until } from './expect.mjs'

const encode = (text) => new TextEncoder().encode(text)

/** A terminal and everything it has shown. */
async function open(sandbox, options = {}) {
  const screen = { text: '' }
  const decoder = new TextDecoder()
  const onData = (bytes) => {
    screen.text += decoder.decode(bytes, { stream: true })
  }
  const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData, ...options })
  return { terminal, screen, onData }
}

export const cases = [
  [
    'pty.create, pty.sendInput',
    async ({ shared }) => {
      const { terminal, screen } = await open(shared, { envs: { SEEN: 'yes' }, cwd: '/tmp' })
      await shared.pty.sendInput(
        terminal.pid,
        encode('echo "[$SEEN $(pwd) $(tput cols 2>/dev/null || stty size)]"\n'),
      )
      await until('the answer', () => /\[yes \/tmp .*80.*\]/.test(screen.text))
      await shared.pty.sendInput(terminal.pid, encode('exit\n'))
      assert.equal((await terminal.wait()).exitCode, 0)
    },
  ],
  [
    'pty.resize',
    async ({ shared }) => {
      const { terminal, screen } = await open(shared)
      await shared.pty.resize(terminal.pid, { cols: 132, rows: 43 })
      await shared.pty.sendInput(terminal.pid, encode('stty size\n'))
      await until('the new size', () => /43 132/.test(screen.text))
      await terminal.kill()
    },
  ],
  [
    'pty.kill',
    async ({ shared }) => {
      const { terminal } = await open(shared)
      assert.equal(await shared.pty.kill(terminal.pid), true)
      await terminal.wait().catch(() => undefined)
      assert.equal(await shared.pty.kill(terminal.pid), false)
    },
  ],
  [
    'pty.connect',
    async ({ shared }) => {
      const { terminal } = await open(shared)
      await terminal.disconnect()
      let text = ''
      const again = await shared.pty.connect(terminal.pid, {
        onData: (bytes) => {
          text += new TextDecoder().decode(bytes)
        },
      })
      await shared.pty.sendInput(again.pid, encode('echo $((20 + 22))\n'))
      await until('the answer', () => /\b42\b/.test(text))
      await again.kill()
    },
  ],
]
