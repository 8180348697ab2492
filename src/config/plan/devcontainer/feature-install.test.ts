import assert from 'node:assert/strict'
import { test } from 'node:test'
import { expandedEnv } from './feature-install.ts'
import { featureStep } from './feature-step.ts'
import { parseShellEnv } from './probed-env.ts'

test('DC-21 variables of a Feature refer to those before it, as in a Dockerfile', () => {
  const before = { PATH: '/bin', EMPTY: '' }
  assert.deepEqual(
    expandedEnv(
      {
        PATH: '/opt:${PATH}',
        B: '$PATH!',
        C: '${NONE:-other}${EMPTY:-x}${PATH:+has}',
        D: '\\$PATH $5 ${}',
        E: '${NONE}',
      },
      before,
    ),
    { PATH: '/opt:/bin', B: '/bin!', C: 'otherxhas', D: '$PATH $5 ${}', E: '' },
  )
})

test('DC-21 the step of a Feature runs its script as root, with quoted options', () => {
  const hostile = `a'; touch /tmp/x; echo '$(id)`
  const step = featureStep(
    {
      name: 'registry.example/f/x:1',
      id: 'x',
      version: '1.0.0',
      digest: undefined,
      variables: { WORD: hostile, 'NOT A NAME': 'x' },
      containerEnv: { OWN: 'now' },
      archive: Buffer.alloc(1024),
    },
    { at: 2, env: { EARLIER: 'yes' }, presets: [], network: [], remoteUser: 'dev', containerUser: 'root' },
  )
  assert.equal(step.user, 'root')
  assert.equal(step.archive?.to, '/tmp/dev-container-features/x_2')
  assert.match(step.run, /\n\.\/install\.sh\n/)
  assert.deepEqual([step.variables['EARLIER'], step.variables['OWN']], ['yes', 'now'])
  const { 'devcontainer-features.env': env, 'devcontainer-features.builtin.env': builtin } =
    step.archive?.added ?? {}
  assert.equal(env, `WORD='a'\\''; touch /tmp/x; echo '\\''$(id)'\n`)
  assert.match(builtin ?? '', /^_CONTAINER_USER=root$/m)
  assert.match(builtin ?? '', /^_REMOTE_USER=dev$/m)
})

test('DC-22 only plain variables between the marks are taken from a shell', () => {
  const mark = 'MARK'
  const entries = [
    'GOOD=a=b',
    'PATH=/x',
    'HOME=/other',
    'SHLVL=3',
    'AGENTPOD_KEY=x',
    'http_proxy=x',
    'no name=1',
    '=x',
    'BIG=' + 'x'.repeat(40_000),
  ]
  const output = Buffer.from(`noise ${mark}${entries.join('\0')}\0${mark} more noise`)
  assert.deepEqual(parseShellEnv(output, mark), { GOOD: 'a=b', PATH: '/x' })
  assert.deepEqual(parseShellEnv(Buffer.from(`${mark}A=1`), mark), {}, 'the end is missing')
  assert.deepEqual(parseShellEnv(Buffer.from(`${mark}A=${'x'.repeat(300_000)}${mark}`), mark), {})
})
