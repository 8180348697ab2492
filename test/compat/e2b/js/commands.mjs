import assert from 'node:assert/strict'
import { fails, inside, until } from './expect.mjs'

export const cases = [
  [
    'commands.run',
    async ({ shared }) => {
      const result = await shared.commands.run('echo out; echo err >&2')
      assert.equal(result.exitCode, 0)
      assert.equal(result.stdout, 'out\n')
      assert.equal(result.stderr, 'err\n')
    },
  ],
  [
    'commands.run: onStdout, onStderr',
    async ({ shared }) => {
      const heard = []
      const done = shared.commands.run('echo one; sleep 0.3; echo two; sleep 0.3; echo three >&2', {
        onStdout: (text) => heard.push(text),
        onStderr: (text) => heard.push(`err ${text}`),
      })
      await until('the first line', () => heard.length > 0)
      assert.deepEqual(heard, ['one\n'], 'output comes while the command runs')
      await done
      assert.deepEqual(heard, ['one\n', 'two\n', 'err three\n'])
    },
  ],
  [
    'commands.run: CommandExitError',
    async ({ shared, CommandExitError }) => {
      const error = await fails(shared.commands.run('echo out; echo err >&2; exit 7'), CommandExitError)
      assert.equal(error.exitCode, 7)
      assert.equal(error.stdout, 'out\n')
      assert.equal(error.stderr, 'err\n')
    },
  ],
  [
    'commands.run: cwd, envs, user',
    async ({ shared }) => {
      assert.equal(await inside(shared, 'pwd', { cwd: '/tmp' }), '/tmp')
      assert.equal(await inside(shared, 'echo $A', { envs: { A: 'b' } }), 'b')
      assert.equal(await inside(shared, 'id -un; echo $HOME; pwd', { user: 'root' }), 'root\n/root\n/root')
    },
  ],
  [
    'commands.run: timeoutMs',
    async ({ shared, TimeoutError }) => {
      const mark = `${process.pid}${Math.trunc(performance.now())}`
      await fails(shared.commands.run(`sleep ${mark}`, { timeoutMs: 500 }), TimeoutError)
    },
  ],
  [
    'commands.run: large and binary output',
    async ({ shared }) => {
      const { stdout } = await shared.commands.run('head -c 3000000 /dev/zero | tr "\\0" x')
      assert.equal(stdout.length, 3_000_000)
      assert.equal(await inside(shared, "printf 'grüße €'"), 'grüße €')
    },
  ],
  [
    'commands.run: in the background',
    async ({ shared }) => {
      const command = await shared.commands.run('sleep 0.3; echo done; exit 0', { background: true })
      assert.ok(command.pid > 0)
      const { exitCode, stdout } = await command.wait()
      assert.equal(exitCode, 0)
      assert.equal(stdout, 'done\n')
    },
  ],
  [
    'commands.kill',
    async ({ shared, CommandExitError }) => {
      const command = await shared.commands.run('sleep 60', { background: true })
      assert.equal(await command.kill(), true)
      await fails(command.wait(), CommandExitError)
      assert.equal(await shared.commands.kill(command.pid), false)
    },
  ],
  [
    'commands.connect',
    async ({ shared }) => {
      const command = await shared.commands.run('for i in 1 2 3 4 5; do sleep 0.2; echo $i; done', {
        background: true,
      })
      await command.disconnect()
      const heard = []
      const again = await shared.commands.connect(command.pid, { onStdout: (text) => heard.push(text) })
      assert.equal(again.pid, command.pid)
      const { exitCode } = await again.wait()
      assert.equal(exitCode, 0)
      assert.ok(heard.join('').endsWith('5\n'), heard.join(''))
    },
  ],
  [
    'commands.sendStdin',
    async ({ shared }) => {
      const heard = []
      const command = await shared.commands.run('head -n 1', {
        background: true,
        stdin: true,
        onStdout: (text) => heard.push(text),
      })
      await shared.commands.sendStdin(command.pid, 'a line\n')
      assert.equal((await command.wait()).stdout, 'a line\n')
    },
  ],
  [
    'commands.closeStdin',
    async ({ shared }) => {
      const command = await shared.commands.run('cat; echo end', { background: true, stdin: true })
      await shared.commands.sendStdin(command.pid, 'all of it')
      await shared.commands.closeStdin(command.pid)
      assert.equal((await command.wait()).stdout, 'all of itend\n')
    },
  ],
  [
    'commands.list',
    async ({ shared }) => {
      const command = await shared.commands.run('sleep 59.5', {
        background: true,
        envs: { SEEN: 'yes' },
        cwd: '/tmp',
      })
      const found = (await shared.commands.list()).find(({ pid }) => pid === command.pid)
      assert.equal(found.cmd, '/bin/bash')
      assert.deepEqual(found.args, ['-l', '-c', 'sleep 59.5'])
      assert.equal(found.cwd, '/tmp')
      assert.equal(found.envs.SEEN, 'yes')
      await command.kill()
      await until('it is gone from the list', async () =>
        (await shared.commands.list()).every(({ pid }) => pid !== command.pid),
      )
    },
  ],
]
